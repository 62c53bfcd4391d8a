package server

import (
	"log/slog"
	"net/http"

	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
)

// quiet are the routes by which desired state comes in, of which there may be
// thousands a second: what they change is logged at level debug alone.
var quiet = map[string]bool{
	"PUT " + resourcePath: true, "DELETE " + resourcePath: true, "POST /v1/batch": true, "POST /v1/sagas": true,
	"POST /v1/relay": true, "POST /v1/relay/look": true, "POST /v1/relay/compare": true,
}

// audit logs who changed something, or wanted to: the request, its place and its
// status, and nothing of its payload.
func (s *Server) audit(r *http.Request, pattern string, status int) {
	if scope := needs[pattern].scope; scope != access.Write && scope != access.Admin {
		return
	}
	if status == 0 { // it panicked before it answered
		status = http.StatusInternalServerError
	}
	level := slog.LevelInfo
	if quiet[pattern] && status != http.StatusForbidden {
		level = slog.LevelDebug
	}
	id := access.From(r.Context())
	s.log.LogAttrs(r.Context(), level, "a caller's change", slog.Group("audit",
		"name", id.Name, "kind", id.Kind, "address", r.RemoteAddr, "operation", pattern,
		"sink", r.PathValue("sink"), "key", r.URL.Query().Get("key"), "path", r.URL.Path, "status", status))
}

// auditStranger logs who was not let in, and why. Anybody can send such requests, as
// many as they like: they are logged at level debug alone.
func (s *Server) auditStranger(r *http.Request, pattern string, why *api.Problem) {
	s.log.LogAttrs(r.Context(), slog.LevelDebug, "a caller was not let in", slog.Group("audit",
		"address", r.RemoteAddr, "operation", pattern, "path", r.URL.Path, "status", why.Status, "reason", why.Detail))
}
