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
func (s *spice) conformance(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(s.Key), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := conformance.ParseFixture(fmt.Appendf(nil, `
key: documents/c-{n}
bad_configs: [{prune: perhaps}, {update_limit: 0}, {prune_scope: world}]
payloads:
  create: {relationships: ["document:c-{n}-x#viewer@user:anne", "document:c-{n}-x#editor@user:bob"]}
  update: {relationships: ["document:c-{n}-x#viewer@user:carol", "document:c-{n}-x#editor@user:dave"]}
  removed: {relationships: ["document:c-{n}-x#viewer@user:carol"]}
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
          subject: {object: {objectType: user, objectId: mallory}}
vanish:
  method: POST
  path: /v1/relationships/delete
  headers: {Content-Type: application/json}
  body: {relationshipFilter: {resourceType: document, optionalResourceId: "c-{n}-x"}}
skip:
  apply-twice: the ref is the ZedToken of the write, and the second Apply writes nothing; replay shows that it ends well
  same-identity: the ref is the ZedToken, with which readers ask for what was written; it changes with each write
  fault-422: gRPC has no 422; what SpiceDB refuses is tried with its own statuses, in WhatSpiceDBRefuses
  no-payload-told: differences name relationships, as operators need them; values are in caveats, tried in WhatSpiceDBRefuses
`, s.both(t), key))
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

// both returns the address of a server that is SpiceDB's gRPC and, below /v1/,
// its HTTP gateway.
func (s *spice) both(t *testing.T) string {
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
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}
