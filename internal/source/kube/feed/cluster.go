// Package feed follows what a Kubernetes cluster has, for the sources that read
// there: Follow tells what objects there are, and Shelf tells a source's Inlet of
// them.
package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Server is an API server with credentials, such as *kube.Cluster.
type Server interface {
	http.RoundTripper
	BaseURL() string
}

// Cluster is a client of an API server.
type Cluster struct {
	server  Server
	dynamic dynamic.Interface
}

// Connect makes a client that sends at most perSecond requests a second; 0 is no
// limit. It opens no connection.
func Connect(s Server, perSecond float64) (*Cluster, error) {
	c := &rest.Config{Host: s.BaseURL(), Transport: s, UserAgent: "pawl", QPS: -1, WarningHandler: rest.NoWarnings{}}
	if perSecond > 0 {
		c.QPS, c.Burst = float32(perSecond), max(1, int(perSecond))
	}
	d, err := dynamic.NewForConfig(c)
	if err != nil {
		return nil, err
	}
	return &Cluster{server: s, dynamic: d}, nil
}

// Resource returns the client of the objects of one kind, in all namespaces.
func (c *Cluster) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return c.dynamic.Resource(r)
}

// Kind is what the API server calls the objects of a kind.
type Kind struct {
	schema.GroupVersionResource
	Namespaced bool
}

// Find asks how the API server calls the objects of a kind.
//
// # Errors
//
// A message for operators, where the server has no such kind, can't be reached, or
// does not let this user ask.
func (c *Cluster) Find(ctx context.Context, apiVersion, kind string) (Kind, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return Kind{}, err
	}
	path := "/apis/" + apiVersion
	if gv.Group == "" {
		path = "/api/" + apiVersion
	}
	list, err := c.resources(ctx, path)
	if apierrors.IsNotFound(err) {
		return Kind{}, fmt.Errorf("the cluster has no API %s: install what brings it, or correct api_version", apiVersion)
	}
	if err != nil {
		return Kind{}, Explain(err, "asking for the kinds of "+apiVersion)
	}
	for _, r := range list.APIResources {
		if r.Kind == kind && !isSubresource(r.Name) {
			return Kind{gv.WithResource(r.Name), r.Namespaced}, nil
		}
	}
	return Kind{}, fmt.Errorf("the cluster's API %s has no kind %s: install what brings it, or correct kind", apiVersion, kind)
}

func isSubresource(name string) bool {
	for _, c := range name {
		if c == '/' {
			return true
		}
	}
	return false
}

// discoveryMaxBytes bounds the list of kinds of one API version.
const discoveryMaxBytes = 8 << 20

func (c *Cluster) resources(ctx context.Context, path string) (*metav1.APIResourceList, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.server.BaseURL()+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "pawl")
	res, err := c.server.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, discoveryMaxBytes))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, apierrors.NewGenericServerResponse(res.StatusCode, "get", schema.GroupResource{}, "", res.Status, 0, true)
	}
	list := &metav1.APIResourceList{}
	if err := json.Unmarshal(body, list); err != nil {
		return nil, fmt.Errorf("the answer is no list of kinds: %w", err)
	}
	return list, nil
}
