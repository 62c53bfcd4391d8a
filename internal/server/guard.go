package server

import (
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/pawlsync/pawl/internal/api"
)

// guard decides who may call, bounds how long an answer may take, and sees to
// it that whatever goes wrong ends in a problem.
func (s *Server) guard(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := &tracked{ResponseWriter: w}
		defer s.recover(t, r)
		// Handlers that stream move it on with each write.
		_ = http.NewResponseController(t).SetWriteDeadline(time.Now().Add(2 * s.o.IOTimeout))
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if p := s.refuse(r); p != nil {
			if p.Status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", `Bearer realm="pawl"`)
			}
			writeProblem(t, p)
			return
		}
		if h, pattern := mux.Handler(r); pattern == "" {
			writeProblem(t, noRoute(h, t, r))
			return
		}
		mux.ServeHTTP(t, r)
	})
}

// refuse says why r is not answered, or returns nil.
func (s *Server) refuse(r *http.Request) *api.Problem {
	if r.URL.Path == "/livez" || r.URL.Path == "/readyz" {
		return nil
	}
	if s.tokens != nil {
		return s.refuseToken(r)
	}
	// Without tokens the browser of somebody on this machine is a danger: any
	// page that it shows may send requests here. A page of another site says so
	// in Origin or Sec-Fetch-Site; one whose name was made to point at this
	// machine (DNS rebinding) passes for ours, but for the Host that it names.
	if !s.identified() && !fromUnix(r) && !loopbackHost(r.Host) {
		return api.NewProblem(http.StatusForbidden, api.CodeForbidden, "the request is for the host "+r.Host+", and without tokens only this machine is answered",
			"call 127.0.0.1 or localhost, or set server.token_file")
	}
	if crossSite(r) {
		return api.NewProblem(http.StatusForbidden, api.CodeForbidden, "the request comes from the page of another site", "")
	}
	return nil
}

func (s *Server) refuseToken(r *http.Request) *api.Problem {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	switch {
	case token == "":
		return api.NewProblem(http.StatusUnauthorized, api.CodeUnauthorized, "this daemon asks for a token, and none was sent", "send Authorization: Bearer <token>")
	case !strings.EqualFold(scheme, "Bearer"), !s.tokens.match(strings.TrimSpace(token)):
		return api.NewProblem(http.StatusUnauthorized, api.CodeUnauthorized, "the token is not one of this daemon's", "it is one of the lines of the daemon's server.token_file")
	}
	return nil
}

// crossSite reports whether a browser says that the page of another site sends r.
func crossSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || u.Host != r.Host
}

func loopbackHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func fromUnix(r *http.Request) bool {
	addr, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return addr != nil && addr.Network() == "unix"
}

// noRoute turns what the mux says of an unknown path or method into a problem.
func noRoute(h http.Handler, w http.ResponseWriter, r *http.Request) *api.Problem {
	probe := &headerOnly{header: http.Header{}}
	h.ServeHTTP(probe, r)
	if allow := probe.header.Get("Allow"); allow != "" {
		w.Header().Set("Allow", allow)
		return api.NewProblem(http.StatusMethodNotAllowed, api.CodeMethodNotAllowed, r.URL.Path+" does not take "+r.Method, "it takes "+allow)
	}
	return api.NewProblem(http.StatusNotFound, api.CodeNoRoute, "there is nothing at "+r.URL.Path, "/openapi.json lists what there is; a resource's key goes into the query, as ?key=…")
}

// headerOnly keeps what a handler says of its answer and drops the rest.
type headerOnly struct{ header http.Header }

func (h *headerOnly) Header() http.Header         { return h.header }
func (h *headerOnly) Write(b []byte) (int, error) { return len(b), nil }
func (h *headerOnly) WriteHeader(int)             {}

// tracked knows whether an answer has begun.
type tracked struct {
	http.ResponseWriter
	begun bool
}

func (t *tracked) WriteHeader(status int) {
	t.begun = true
	t.ResponseWriter.WriteHeader(status)
}

func (t *tracked) Write(b []byte) (int, error) {
	t.begun = true
	return t.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (t *tracked) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// recover ends a request that panicked. An answer that can't be written is how
// huma panics when a client left: no news.
func (s *Server) recover(w *tracked, r *http.Request) {
	v := recover()
	switch {
	case v == nil:
		return
	case w.begun:
		s.log.Debug("an answer was cut off", "path", r.URL.Path, "cause", v)
		panic(http.ErrAbortHandler) // so that the client sees that it is cut
	}
	s.log.Error("a request panicked; this is a bug in pawl", "method", r.Method, "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
	writeProblem(w, api.NewProblem(http.StatusInternalServerError, api.CodeInternal, "the daemon failed to answer; this is a bug", "its log says more"))
}
