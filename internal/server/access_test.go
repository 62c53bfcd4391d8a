package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// pathOf is a path that a route's pattern takes.
func pathOf(pattern string) (method, path string) {
	method, path, _ = strings.Cut(pattern, " ")
	return method, strings.NewReplacer("{sink}", "web", "{id}", "s", "{source}", "git", "{file...}", "", "{$}", "").Replace(path)
}

func TestEveryRouteSaysWhatItsCallerHasToHold(t *testing.T) {
	s, _, _ := start(t, Options{Metrics: http.NotFoundHandler()})
	mux := s.routes()
	for pattern, n := range needs {
		method, path := pathOf(pattern)
		if _, got := mux.Handler(httptest.NewRequest(method, path, nil)); got != pattern {
			t.Errorf("the row %s has no route; there is %q", pattern, got)
		}
		if (n.scope == "") != (n.where == anybody || n.where == known) || n.where == nowhere {
			t.Errorf("%s: scope %q, where %d", pattern, n.scope, n.where)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a route without a row was taken")
		}
	}()
	guardedMux{mux}.HandleFunc("GET /v1/new", nil)
}
