package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/pawlsync/pawl/test/e2e/servers"
)

const (
	namespacePath = "/api/v1/namespaces/garden"
	wateringPath  = namespacePath + "/configmaps/watering"
)

// cluster is somebody else who uses the API server.
type cluster struct {
	*servers.Kube
	cache string // folder of what kubectl keeps
}

// object is what the API server shows.
type object map[string]any

// metadata returns a member of the object's metadata, "" where there is none.
func (o object) metadata(name string) string {
	m, _ := o["metadata"].(map[string]any)
	s, _ := m[name].(string)
	return s
}

func (o object) version() string { return o.metadata("resourceVersion") }

var errNotFound = errors.New("there is no such object")

// call sends a request as the administrator. The error wraps errNotFound where
// there is no object at the path.
func (c *cluster) call(ctx context.Context, method, path, contentType string, body any) (object, error) {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.Token)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	res, err := c.Client().Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%s: %w", path, errNotFound)
	case res.StatusCode < 200 || res.StatusCode > 299:
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, res.Status, answer)
	}
	var o object
	return o, json.Unmarshal(answer, &o)
}

func (c *cluster) get(ctx context.Context, path string) (object, error) {
	return c.call(ctx, http.MethodGet, path, "", nil)
}

// absent tells that there is no object at the path, and fails where there is one.
func (c *cluster) absent(ctx context.Context, path string) error {
	o, err := c.get(ctx, path)
	switch {
	case err == nil:
		return fmt.Errorf("%s is there, as version %s, and should not be", path, o.version())
	case !errors.Is(err, errNotFound):
		return err
	}
	fmt.Printf("  GET %s: not found\n", path)
	return nil
}

// pathOf returns where the API server has the object of a manifest, of the kinds
// that the example has.
func pathOf(manifest object) (string, error) {
	name, namespace := manifest.metadata("name"), manifest.metadata("namespace")
	switch manifest["kind"] {
	case "Namespace":
		return "/api/v1/namespaces/" + name, nil
	case "ConfigMap":
		return "/api/v1/namespaces/" + namespace + "/configmaps/" + name, nil
	}
	return "", fmt.Errorf("the demo knows no path of the kind %v", manifest["kind"])
}

// differs says where the object of a manifest is not as the manifest wants it,
// or returns nil. What the manifest does not name is the server's.
func (c *cluster) differs(ctx context.Context, manifest object) error {
	path, err := pathOf(manifest)
	if err != nil {
		return err
	}
	o, err := c.get(ctx, path)
	if err != nil {
		return err
	}
	if at := missing(map[string]any(o), map[string]any(manifest), ""); at != "" {
		return fmt.Errorf("%s: %s is not as desired", path, at)
	}
	return nil
}

// missing returns the path of the first member of want that got has not, or has
// with another value; "" where there is none.
func missing(got, want any, at string) string {
	w, ok := want.(map[string]any)
	if !ok {
		a, errA := json.Marshal(got)
		b, errB := json.Marshal(want)
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			return at
		}
		return ""
	}
	g, ok := got.(map[string]any)
	if !ok {
		return at
	}
	for name, value := range w {
		v, ok := g[name]
		if !ok {
			return at + "/" + name
		}
		if p := missing(v, value, at+"/"+name); p != "" {
			return p
		}
	}
	return ""
}

// forgetRoses removes a key of the ConfigMap, as kubectl edit would, and returns
// the version that it has then.
func (c *cluster) forgetRoses(ctx context.Context) (version string, err error) {
	o, err := c.call(ctx, http.MethodPatch, wateringPath+"?fieldManager=somebody", "application/merge-patch+json",
		map[string]any{"data": map[string]any{"roses": nil}})
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(o["data"])
	if err != nil {
		return "", err
	}
	fmt.Printf("  ConfigMap garden/watering now: %s\n", data)
	if strings.Contains(string(data), "roses") {
		return "", errors.New("the key that was to be removed is still there")
	}
	return o.version(), nil
}

// show prints objects as kubectl does, or their data where there is no kubectl.
func (c *cluster) show(ctx context.Context) error {
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		o, err := c.get(ctx, wateringPath)
		if err != nil {
			return err
		}
		data, err := json.MarshalIndent(o["data"], "", "  ")
		fmt.Printf("GET %s (there is no kubectl)\n%s\n", wateringPath, data)
		return err
	}
	for _, args := range [][]string{
		{"get", "namespace/garden", "configmap/watering", "-n", "garden"},
		{"get", "configmap", "watering", "-n", "garden", "-o", "jsonpath={.data}{\"\\n\"}"},
	} {
		fmt.Printf("$ kubectl %s\n", strings.Join(args, " "))
		cmd := exec.CommandContext(ctx, kubectl, append([]string{"--kubeconfig", c.Kubeconfig, "--cache-dir", c.cache}, args...)...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
		}
	}
	return nil
}

// endNamespaces ends every namespace that is being deleted and is empty, as the
// controller manager does, until ctx ends. The error is what failed last.
func (c *cluster) endNamespaces(ctx context.Context) error {
	for {
		err := c.endTerminating(ctx)
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		}
	}
}

func (c *cluster) endTerminating(ctx context.Context) error {
	all, err := c.list(ctx, "/api/v1/namespaces")
	for _, o := range all {
		path := "/api/v1/namespaces/" + o.metadata("name")
		if o.metadata("deletionTimestamp") == "" {
			continue
		}
		maps, e := c.list(ctx, path+"/configmaps")
		if e == nil && len(maps) == 0 {
			o["spec"] = map[string]any{"finalizers": []string{}}
			_, e = c.call(ctx, http.MethodPut, path+"/finalize", "application/json", o)
		}
		if !errors.Is(e, errNotFound) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// list returns the objects of a collection.
func (c *cluster) list(ctx context.Context, path string) ([]object, error) {
	o, err := c.get(ctx, path)
	if err != nil {
		return nil, err
	}
	items, ok := o["items"].([]any)
	if !ok {
		return nil, fmt.Errorf("%s is no list", path)
	}
	out := make([]object, len(items))
	for i, item := range items {
		out[i], _ = item.(map[string]any)
	}
	return out, nil
}
