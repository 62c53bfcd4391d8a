package server

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
)

// quiet are the routes by which desired state comes in, of which there may be
// thousands a second: what they change is logged at level debug alone.
var quiet = map[string]bool{
	"PUT " + resourcePath: true, "DELETE " + resourcePath: true, "POST /v1/batch": true, "POST /v1/sagas": true,
	"POST /v1/relay": true, "POST /v1/relay/look": true, "POST /v1/relay/compare": true,
}

// change is a request that may change something, as the audit tells of it.
type change struct {
	request    *http.Request
	pattern    string
	generation uint64 // what came of it; 0: none, or several
	saga       string
}

type changeKey struct{}

// changing hands the handlers of a request that may change something what they note
// for the audit.
func changing(r *http.Request, pattern string) *http.Request {
	if scope := needs[pattern].scope; scope != access.Write && scope != access.Admin {
		return r
	}
	c := &change{pattern: pattern}
	c.request = r.WithContext(context.WithValue(r.Context(), changeKey{}, c))
	return c.request
}

// changeOf returns what changing gave; nil: nothing is changed.
func changeOf(ctx context.Context) *change {
	c, _ := ctx.Value(changeKey{}).(*change)
	return c
}

// noteGeneration notes the generation that a request made.
func noteGeneration(ctx context.Context, generation uint64) {
	if c := changeOf(ctx); c != nil {
		c.generation = generation
	}
}

// noteSaga notes the saga that a request began.
func noteSaga(ctx context.Context, id string) {
	if c := changeOf(ctx); c != nil {
		c.saga = id
	}
}

// audit logs who changed something, or wanted to: the request, its place and its
// status, and nothing of its payload. The audit's own file has all of them.
func (s *Server) audit(r *http.Request, status int) {
	c := changeOf(r.Context())
	if c == nil {
		return
	}
	if status == 0 { // it panicked before it answered
		status = http.StatusInternalServerError
	}
	level := slog.LevelInfo
	if quiet[c.pattern] && status != http.StatusForbidden {
		level = slog.LevelDebug
	}
	attrs, message := c.attrs(r.PathValue("sink"), r.URL.Query().Get("key"), status), "a caller's change"
	if status == http.StatusForbidden {
		message = "a caller's change was denied"
	}
	s.log.LogAttrs(r.Context(), level, message, slog.GroupAttrs("audit", attrs...))
	if s.o.Audit != nil {
		s.o.Audit.LogAttrs(r.Context(), slog.LevelInfo, "", attrs...)
	}
}

// auditItem tells the audit's file of one resource of a request of many. The log has
// the request.
func (s *Server) auditItem(ctx context.Context, key record.Key, generation uint64, why *api.Problem) {
	c := changeOf(ctx)
	if c == nil || s.o.Audit == nil {
		return
	}
	item, status := *c, http.StatusOK
	item.generation = generation
	if why != nil {
		status = why.Status
	}
	s.o.Audit.LogAttrs(ctx, slog.LevelInfo, "", item.attrs(cut(key.Sink), cut(key.Name), status)...)
}

// cut bounds what a line of a batch calls its sink or key: of one that is refused it may
// be as long as the request.
func cut(name string) string {
	if len(name) <= record.MaxKeyBytes {
		return name
	}
	return strings.ToValidUTF8(name[:record.MaxKeyBytes], "") + "…"
}

// attrs are what is told of a change.
func (c *change) attrs(sink, key string, status int) []slog.Attr {
	id := access.From(c.request.Context())
	attrs := []slog.Attr{
		slog.String("name", id.Name), slog.String("kind", id.Kind), slog.String("address", c.request.RemoteAddr), slog.String("operation", c.pattern),
		slog.String("sink", sink), slog.String("key", key), slog.String("path", c.request.URL.Path), slog.Int("status", status),
	}
	if c.generation > 0 {
		attrs = append(attrs, slog.Uint64("generation", c.generation))
	}
	if c.saga != "" {
		attrs = append(attrs, slog.String("saga", c.saga))
	}
	return attrs
}

// auditStranger logs who was not let in, and why. Anybody can send such requests, as
// many as they like: they are logged at level debug alone.
func (s *Server) auditStranger(r *http.Request, pattern string, why *api.Problem) {
	s.log.LogAttrs(r.Context(), slog.LevelDebug, "a caller was not let in", slog.Group("audit",
		"address", r.RemoteAddr, "operation", pattern, "path", r.URL.Path, "status", why.Status, "reason", why.Detail))
}
