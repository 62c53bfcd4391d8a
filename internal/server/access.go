package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
)

// need is what a caller has to hold for a route.
type need struct {
	scope access.Scope // "": none
	where place
}

// place is where the scope is needed.
type place int

const (
	nowhere     place = iota // what is not in needs is not answered
	anybody                  // nobody is asked who they are
	known                    // whoever is let in, whatever they may do
	somewhere                // anywhere at all; the handler shows and does only what is allowed
	ofResource               // at the path's sink and the query's key
	ofWholeSink              // at all resources of the path's sink
	everywhere               // at everything
)

// public reports whether a route is answered to everybody.
func public(pattern string) bool { return needs[pattern].where == anybody }

// guardedMux is a mux whose routes ask for what needs says of them.
type guardedMux struct{ *http.ServeMux }

// HandleFunc adds a route. One of which needs says nothing is a mistake that shows
// before anything is answered.
func (m guardedMux) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	n, ok := needs[pattern]
	if !ok {
		panic("the route " + pattern + " has no row in needs (internal/server/routes.go), which says who may call it")
	}
	m.ServeMux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if p := ambiguous(r); p != nil && n.where != anybody {
			writeProblem(w, p)
			return
		}
		if err := n.check(r); err != nil {
			writeProblem(w, denied(access.AsDenial(err)))
			return
		}
		h(w, r)
	})
}

// Handle adds a route, as HandleFunc does.
func (m guardedMux) Handle(pattern string, h http.Handler) { m.HandleFunc(pattern, h.ServeHTTP) }

// check returns an *access.Denial where the caller of r lacks what is needed.
func (n need) check(r *http.Request) error {
	id := access.From(r.Context())
	switch n.where {
	case anybody, known:
		return nil
	case ofResource:
		return id.Check(n.scope, access.Resource(r.PathValue("sink"), r.URL.Query().Get("key")))
	case ofWholeSink:
		return id.Check(n.scope, access.WholeSink(r.PathValue("sink")))
	case somewhere:
		if id.AllowsSome(n.scope, "") {
			return nil
		}
	}
	return id.Check(n.scope, access.Everything())
}

// denied is how a caller is told what is missing.
func denied(d *access.Denial) *api.Problem {
	if d.Sender != "" {
		return api.NewProblem(http.StatusForbidden, api.CodeForbidden, d.Error(), "send with a token that is bound to that name: pawl token new --sender NAME")
	}
	return api.NewProblem(http.StatusForbidden, api.CodeMissingScope, d.Error(), "ask whoever runs this daemon for it; docs/access.md says what each scope allows")
}

// whoamiRoute tells callers what they may do, so that a program can leave out what
// would be denied.
func (s *Server) whoamiRoute(a huma.API) {
	huma.Register(a, operation(a, "whoami", http.MethodGet, "/v1/whoami", "Who am I",
		"Who the daemon takes the caller for, and what they may do. Where nobody is asked who they are, everything."),
		func(ctx context.Context, _ *struct{}) (*output[api.Identity], error) {
			return answer(ctx, s, identityOf(access.From(ctx)), nil)
		})
}

func identityOf(id *access.Identity) api.Identity {
	out := api.Identity{Name: id.Name, Kind: id.Kind, Grants: make([]api.Grant, len(id.Grants)), Senders: id.Senders}
	for i, g := range id.Grants {
		out.Grants[i] = api.Grant{Scope: string(g.Scope), Sinks: g.Sinks, Prefix: g.Prefix}
	}
	return out
}
