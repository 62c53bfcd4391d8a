package e2e

import (
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/internal/bundled"
	"github.com/pawlsync/pawl/internal/conformance"
)

// conformance runs the kit that every plugin is held to against the API server,
// behind a proxy on loopback that brings trust and credentials, as kubectl proxy does.
func (c *cluster) conformance(t *testing.T) {
	c.namespace(t, "conformance")
	target, err := url.Parse(c.URL)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(&httputil.ReverseProxy{Transport: c.Client().Transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Set("Authorization", "Bearer "+c.Token)
	}})
	defer front.Close()
	f, err := conformance.ParseFixture([]byte(`
key: v1/ConfigMap/conformance/c-{n}
payloads:
  create: {apiVersion: v1, kind: ConfigMap, metadata: {name: "c-{n}", namespace: conformance}, data: {text: "first words", note: "to be kept"}}
  update: {apiVersion: v1, kind: ConfigMap, metadata: {name: "c-{n}", namespace: conformance}, data: {text: "second words", note: "to be removed"}}
  removed: {apiVersion: v1, kind: ConfigMap, metadata: {name: "c-{n}", namespace: conformance}, data: {text: "second words"}}
bad_configs:
  - {propagation: none}
  - {upstream: nobody}
upstream: {url: ` + front.URL + `}
drift:
  method: PATCH
  path: /api/v1/namespaces/conformance/configmaps/c-{n}?fieldManager=somebody
  headers: {Content-Type: application/merge-patch+json}
  body: {data: {text: changed}}
skip:
  two-keys: Kubernetes takes no names that end with a hyphen
vanish: {method: DELETE, path: "/api/v1/namespaces/conformance/configmaps/c-{n}"}
`))
	if err != nil {
		t.Fatal(err)
	}
	wasm, err := bundled.Plugin("kube")
	if err != nil {
		t.Fatal(err)
	}
	r, err := conformance.Run(t.Context(), wasm, "kube", conformance.Options{Fixture: f, Calls: 80})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	_ = r.WriteText(&text, true)
	if r.Count(conformance.Failed) > 0 {
		t.Error(&text)
	} else {
		t.Log(&text)
	}
}
