package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/internal/kube"
	"github.com/pawlsync/pawl/test/e2e/servers"
)

// cluster is somebody else who uses the API server, with curl's means.
type cluster struct {
	*servers.Kube
	plugin *wasmhost.Plugin
}

// object is what the API server shows.
type object map[string]any

// at returns what is at a path of member names, or nil.
func (o object) at(path ...string) any {
	var v any = map[string]any(o)
	for _, p := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[p]
	}
	return v
}

func (o object) version() string { s, _ := o.at("metadata", "resourceVersion").(string); return s }

// send sends a request as the administrator and returns the status and the answer.
func (c *cluster) send(ctx context.Context, method, path, contentType, body string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.Token)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	res, err := c.Client().Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

// call is send for what is answered with an object.
func (c *cluster) call(t *testing.T, method, path, contentType, body string) (int, object) {
	t.Helper()
	status, answer, err := c.send(t.Context(), method, path, contentType, body)
	if err != nil {
		t.Fatal(err)
	}
	var o object
	if err := json.NewDecoder(bytes.NewReader(answer)).Decode(&o); err != nil && status < 400 {
		t.Fatalf("%s %s: %d: %s", method, path, status, answer)
	}
	return status, o
}

// must is call for what has to succeed.
func (c *cluster) must(t *testing.T, method, path, contentType, body string) object {
	t.Helper()
	status, o := c.call(t, method, path, contentType, body)
	if status < 200 || status > 299 {
		t.Fatalf("%s %s: %d %v", method, path, status, o["message"])
	}
	return o
}

func (c *cluster) get(t *testing.T, path string) object {
	t.Helper()
	return c.must(t, http.MethodGet, path, "", "")
}

// exists reports whether an object is there.
func (c *cluster) exists(t *testing.T, path string) bool {
	t.Helper()
	status, o := c.call(t, http.MethodGet, path, "", "")
	if status != http.StatusOK && status != http.StatusNotFound {
		t.Fatalf("GET %s: %d %v", path, status, o["message"])
	}
	return status == http.StatusOK
}

// edit changes an object as kubectl edit does: it takes over the fields.
func (c *cluster) edit(t *testing.T, path, patch string) object {
	t.Helper()
	return c.must(t, http.MethodPatch, path+"?fieldManager=kubectl-edit", "application/merge-patch+json", patch)
}

func (c *cluster) create(t *testing.T, path, body string) object {
	t.Helper()
	return c.must(t, http.MethodPost, path, "application/json", body)
}

func (c *cluster) remove(t *testing.T, path string) {
	t.Helper()
	c.must(t, http.MethodDelete, path, "", "")
}

// namespace makes a namespace of the test's own.
func (c *cluster) namespace(t *testing.T, name string) {
	t.Helper()
	c.create(t, "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+name+`"}}`)
}

func configMapPath(ns, name string) string { return "/api/v1/namespaces/" + ns + "/configmaps/" + name }

// configMap is a manifest with that data, a JSON object.
func configMap(ns, name, data string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":%q},"data":%s}`, ns, name, data)
}

// connect opens the adapter's sink on the cluster, as the kubeconfig's context says.
func (c *cluster) connect(t *testing.T, context_, config string) *counted {
	t.Helper()
	k, err := kube.Open(kube.Options{Kubeconfig: c.Kubeconfig, Context: context_})
	if err != nil {
		t.Fatal(err)
	}
	return c.connectOver(t, k.BaseURL(), k, config)
}

func (c *cluster) connectOver(t *testing.T, base string, rt http.RoundTripper, config string) *counted {
	t.Helper()
	up, err := upstream.Open(upstream.Config{Name: "cluster", Kind: kube.Kind, BaseURL: base},
		upstream.Options{RoundTripper: rt, Admit: kube.Admit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	s, err := c.plugin.Open(context.WithoutCancel(t.Context()), wasmhost.SinkConfig{Name: zedSink, Config: []byte(config), Upstreams: []wasmhost.Upstream{up}})
	if err != nil {
		t.Fatal(err)
	}
	return &counted{Sink: s}
}

func (c *cluster) rig(t *testing.T, config string, o engine.SinkOptions) *rig {
	return start(t, c.connect(t, "test", config), o)
}
