package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/internal/bundled"
	"github.com/pawlsync/pawl/internal/conformance"
)

// conformance runs the kit that every plugin is held to against SpiceDB. The
// plugin speaks gRPC to it, and who changes relationships behind its back the
// gateway's HTTP: the kit's one target is both.
//
// The key has the names of all relationships, since a key may be told, and so may
// they: what must not be told is in the caveats' contexts.
//
// In the drift somebody else takes the condition from a relationship of the update, as
// a saga's undo must see: those that a step did not touch are no business of it.
func (s *spice) conformance(t *testing.T) {
	s.post(t, "/v1/schema/write", map[string]any{"schema": schema + sagaSchema})
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(s.Key), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := conformance.ParseFixture(fmt.Appendf(nil, `
key: "document:c-{n}-x#viewer@user:anne document:c-{n}-x#editor@user:bob document:c-{n}-x#viewer@user:carol document:c-{n}-x#editor@user:dave office_hours"
config: {sagas: true}
bad_configs: [{prune: perhaps}, {update_limit: 0}, {prune_scope: world}]
payloads:
  create:
    relationships:
      - {resource: "document:c-{n}-x", relation: viewer, subject: "user:anne", caveat: {name: office_hours, context: {zone: a first secret}}}
      - document:c-{n}-x#editor@user:bob
  update:
    relationships:
      - {resource: "document:c-{n}-x", relation: viewer, subject: "user:carol", caveat: {name: office_hours, context: {zone: a second secret}}}
      - document:c-{n}-x#editor@user:dave
  removed:
    relationships:
      - {resource: "document:c-{n}-x", relation: viewer, subject: "user:carol", caveat: {name: office_hours, context: {zone: a second secret}}}
upstream: {url: %q, protocol: h2c, bearer_file: %q}
reads: [/authzed.api.v1.PermissionsService/ReadRelationships]
drift:
  method: POST
  path: /v1/relationships/write
  headers: {Content-Type: application/json}
  body:
    updates:
      - operation: OPERATION_TOUCH
        relationship:
          resource: {objectType: document, objectId: "c-{n}-x"}
          relation: viewer
          subject: {object: {objectType: user, objectId: carol}}
vanish:
  method: POST
  path: /v1/relationships/delete
  headers: {Content-Type: application/json}
  body: {relationshipFilter: {resourceType: document, optionalResourceId: "c-{n}-x"}}
skip:
  fault-422: a 422 is not SpiceDB's own word, which alone may become REJECTED; its own are tried in WhatSpiceDBRefuses
`, s.front(t, nil), key))
	if err != nil {
		t.Fatal(err)
	}
	wasm, err := bundled.Plugin("spicedb")
	if err != nil {
		t.Fatal(err)
	}
	r, err := conformance.Run(t.Context(), wasm, "spicedb", conformance.Options{Fixture: f, Calls: 80})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	_ = r.WriteText(&text, false)
	t.Log(&text)
	if n := r.Count(conformance.Failed); n > 0 {
		t.Errorf("%d checks failed", n)
	}
}

// front returns the address of a server that is SpiceDB's gRPC and, below /v1/,
// its HTTP gateway. What answers true is not passed on; nil passes on all.
func (s *spice) front(t *testing.T, answers func(http.ResponseWriter, *http.Request) bool) string {
	t.Helper()
	h2c := &http.Transport{Protocols: new(http.Protocols)}
	h2c.Protocols.SetUnencryptedHTTP2(true)
	to := func(address string, transport *http.Transport) http.Handler {
		target, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(transport.CloseIdleConnections)
		return &httputil.ReverseProxy{
			Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(target) },
			Transport:    transport,
			ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/", to("http://"+s.Address, h2c))
	mux.Handle("/v1/", to(s.HTTP, &http.Transport{}))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answers == nil || !answers(w, r) {
			mux.ServeHTTP(w, r)
		}
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}
