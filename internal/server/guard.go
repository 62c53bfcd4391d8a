package server

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
)

// guard decides who may call and how much, bounds how long an answer may take, and sees to
// it that whatever goes wrong ends in a problem.
func (s *Server) guard(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := &tracked{ResponseWriter: w}
		defer s.recover(t, r)
		// Handlers that stream move it on with each write.
		_ = http.NewResponseController(t).SetWriteDeadline(time.Now().Add(2 * s.o.IOTimeout))
		if r.ContentLength != 0 {
			// net/http reads what a handler leaves of a body before it answers, and
			// would wait for that for ever. Handlers that read move it on; it ends
			// with the body.
			_ = http.NewResponseController(t).SetReadDeadline(time.Now().Add(s.o.IOTimeout))
		}
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		h, pattern := mux.Handler(r)
		if !public(pattern) {
			id, p := s.identify(r)
			release, tooMuch := s.limiter.admit(clientOf(r, id), pattern, r)
			if tooMuch != nil {
				writeProblem(t, tooMuch)
				return
			}
			defer release()
			if p != nil {
				if p.Status == http.StatusUnauthorized {
					w.Header().Set("WWW-Authenticate", `Bearer realm="pawl"`)
				}
				s.auditStranger(r, pattern, p)
				s.countStranger(p.Status)
				writeProblem(t, p)
				return
			}
			ctx := access.With(r.Context(), id)
			if lasting[pattern] {
				granted, release := s.asGranted(ctx, r, id)
				defer release()
				ctx = granted
			}
			r = r.WithContext(ctx)
		}
		if pattern == "" {
			writeProblem(t, noRoute(h, t, r))
			return
		}
		r = changing(r, pattern)
		defer func() { // one that panics may have changed something, too
			s.audit(r, t.status)
			s.countDenial(t.status)
		}()
		mux.ServeHTTP(t, r)
	})
}

// identify says who sent r, or why it is not answered.
func (s *Server) identify(r *http.Request) (*access.Identity, *api.Problem) {
	// A browser may be made to send requests by any page that it shows, and adds
	// client certificates by itself; a page of another site says so in Origin or
	// Sec-Fetch-Site. A bearer token is sent by those alone who mean it; other
	// credentials browsers add by themselves, too.
	if _, meant := access.Bearer(r); !meant && crossSite(r) {
		return nil, api.NewProblem(http.StatusForbidden, api.CodeForbidden, "the request comes from the page of another site", "")
	}
	if s.identified() || fromUnix(r) && s.o.Peers != nil {
		return s.authenticate(r)
	}
	// Without anybody to tell callers apart, the page of a site whose name was made
	// to point at this machine (DNS rebinding) passes for ours, but for the Host that
	// it names.
	if !fromUnix(r) && !loopbackHost(r.Host) {
		return nil, api.NewProblem(http.StatusForbidden, api.CodeForbidden, "the request is for the host "+r.Host+", and without tokens only this machine is answered",
			"call 127.0.0.1 or localhost, or set server.token_file")
	}
	return local, nil
}

// local is everybody who may connect, where nobody is asked who they are.
var local = access.Unrestricted("local", access.KindLocal)

// authenticate asks each authenticator in turn.
func (s *Server) authenticate(r *http.Request) (*access.Identity, *api.Problem) {
	ask := s.o.Authenticators
	if s.o.Peers != nil { // who only knows the callers at a socket
		ask = append(ask[:len(ask):len(ask)], s.o.Peers)
	}
	for _, a := range ask {
		id, err := a.Authenticate(r)
		switch refusal, refused := errors.AsType[*access.Refusal](err); {
		case refused:
			return nil, api.NewProblem(http.StatusUnauthorized, api.CodeUnauthorized, refusal.Detail, refusal.Hint)
		case err != nil:
			return nil, api.NewProblem(http.StatusServiceUnavailable, api.CodeUnavailable, "who you are can't be found out at the moment: "+err.Error(), "try again")
		case id != nil:
			return id, nil
		}
	}
	if r.Header.Get("Authorization") != "" {
		return nil, api.NewProblem(http.StatusUnauthorized, api.CodeUnauthorized, "what was sent is no token of this daemon's",
			"send Authorization: Bearer <token>, with one that pawl token new made for it and nobody has revoked")
	}
	return nil, api.NewProblem(http.StatusUnauthorized, api.CodeUnauthorized, "this daemon asks callers who they are, and nothing was sent that says so", api.HintToken)
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
	begun  bool
	status int
}

func (t *tracked) WriteHeader(status int) {
	t.begun, t.status = true, status
	t.ResponseWriter.WriteHeader(status)
}

func (t *tracked) Write(b []byte) (int, error) {
	if !t.begun {
		t.begun, t.status = true, http.StatusOK
	}
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
