package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/saga"
	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
)

// kinds maps what the engine says to what the API says.
var kinds = []struct {
	err    error
	status int
	code   api.Code
}{
	{engine.ErrNotFound, http.StatusNotFound, api.CodeNotFound},
	{engine.ErrUnknownSink, http.StatusNotFound, api.CodeUnknownSink},
	{engine.ErrConflict, http.StatusConflict, api.CodeConflict},
	{engine.ErrStale, http.StatusConflict, api.CodeStale},
	{engine.ErrOwned, http.StatusConflict, api.CodeOwned},
	{engine.ErrKeyUsed, http.StatusConflict, api.CodeKeyUsed},
	{engine.ErrNothingToDo, http.StatusConflict, api.CodeNothingToDo},
	{engine.ErrHeld, http.StatusConflict, api.CodeHeld},
	{engine.ErrBusy, http.StatusConflict, api.CodeBusy},
	{engine.ErrSuspended, http.StatusServiceUnavailable, api.CodeSinkUnavailable},
	{saga.ErrNotFound, http.StatusNotFound, api.CodeNotFound},
	{saga.ErrOther, http.StatusConflict, api.CodeSagaMismatch},
	{saga.ErrNothingToDo, http.StatusConflict, api.CodeNothingToDo},
	{saga.ErrInvalid, http.StatusUnprocessableEntity, api.CodeInvalid},
	{saga.ErrClosed, http.StatusServiceUnavailable, api.CodeClosed},
	{engine.ErrTooLarge, http.StatusRequestEntityTooLarge, api.CodeTooLarge},
	{engine.ErrInvalid, http.StatusUnprocessableEntity, api.CodeInvalid},
	{engine.ErrNoSpace, http.StatusInsufficientStorage, api.CodeNoSpace},
	{engine.ErrWatchExpired, http.StatusGone, api.CodeWatchExpired},
	{outbox.ErrUnavailable, http.StatusServiceUnavailable, api.CodeUnavailable},
	{engine.ErrClosed, http.StatusServiceUnavailable, api.CodeClosed},
	{errStopping, http.StatusServiceUnavailable, api.CodeClosed},
}

// problem is err as the API says it. One that is none of the engine's own is
// logged: it is the daemon's trouble, not the caller's.
func (s *Server) problem(ctx context.Context, err error) *api.Problem {
	var p *api.Problem
	if errors.As(err, &p) {
		return p
	}
	if d := access.AsDenial(err); d != nil {
		return denied(d)
	}
	if ctx.Err() != nil { // the caller is gone, or the server stops
		cause := context.Cause(ctx)
		if errors.As(cause, &p) { // they are no longer let in
			return p
		}
		if errors.Is(cause, errStopping) {
			err = cause
		}
	}
	p = api.NewProblem(http.StatusInternalServerError, api.CodeInternal, err.Error(), "the daemon's log may say more")
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			p = api.NewProblem(k.status, k.code, err.Error(), "")
			break
		}
	}
	var e *engine.Error
	if errors.As(err, &e) {
		p.Hint = cmp.Or(e.Hint, p.Hint)
		p.Detail = detail(e)
	}
	if p.Code == api.CodeNotFound && e != nil && s.sink(e.Key.Sink) == nil {
		return s.unknownSink(ctx, e.Key.Sink) // which says more than that it has no such resource
	}
	switch p.Code {
	case api.CodeUnknownSink:
		if e != nil {
			p = s.unknownSink(ctx, e.Key.Sink)
		}
	case api.CodeConflict, api.CodeStale, api.CodeOwned, api.CodeKeyUsed:
		if e != nil {
			p.Generation = &e.Generation
		}
	case api.CodeClosed:
		p.Hint = "try again when it is back"
	case api.CodeInternal:
		if e != nil && errors.Is(err, outbox.ErrDamaged) {
			p.Hint = "forget the resource, which discards the record, and put it again"
		}
		if ctx.Err() == nil {
			s.log.Error("a request failed", "error", err)
		}
	}
	return p
}

// detail is e without its hint, which a problem has apart.
func detail(e *engine.Error) string {
	if e.Key.Name == "" && e.Key.Sink != "" { // of a whole sink
		return fmt.Sprintf("%s %s: %v", e.Op, e.Key.Sink, e.Err)
	}
	return (&engine.Error{Op: e.Op, Key: e.Key, Err: e.Err}).Error()
}

// unknownSink says that name is no sink, and tells one that was never there from
// one that left the configuration and has resources still. It names no sink of which
// the caller may see nothing.
func (s *Server) unknownSink(ctx context.Context, name string) *api.Problem {
	if sink := s.sink(name); sink != nil && !sink.Configured {
		return api.NewProblem(http.StatusNotFound, api.CodeUnknownSink, "the sink "+name+" is not in the configuration any more",
			"its resources go on when it returns; forget gives them up")
	}
	var configured []string
	for _, sink := range s.engine.Sinks() {
		if sink.Configured && access.From(ctx).AllowsSome(access.Read, sink.Name) {
			configured = append(configured, sink.Name)
		}
	}
	return api.NewProblem(http.StatusNotFound, api.CodeUnknownSink, "there is no sink "+name, api.DidYouMean(name, configured))
}

// sink finds a sink that is configured or has resources still; nil: there is none.
func (s *Server) sink(name string) *engine.SinkStatus {
	for _, sink := range s.engine.Sinks() {
		if sink.Name == name {
			return &sink
		}
	}
	return nil
}

// writeProblem answers with p.
func writeProblem(w http.ResponseWriter, p *api.Problem) {
	w.Header().Set("Content-Type", p.ContentType(""))
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	w.WriteHeader(p.Status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(p) // the caller may be gone
}

// fromHuma turns the errors that huma finds in parameters into problems like
// all others.
func fromHuma(ctx huma.Context, _ string, v any) (any, error) {
	m, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	p := api.NewProblem(m.Status, api.CodeInvalid, m.Detail, "")
	if m.Status >= http.StatusInternalServerError {
		p.Code, p.Type = api.CodeInternal, api.ProblemTypeBase+string(api.CodeInternal)
	}
	var details []string
	for _, e := range m.Errors {
		details = append(details, strings.Replace(e.Location, ".", " parameter ", 1)+": "+e.Message)
		if name, found := strings.CutPrefix(e.Location, "query."); found && e.Message == "unknown query parameter" {
			var known []string
			for _, q := range ctx.Operation().Parameters {
				if q.In == "query" {
					known = append(known, q.Name)
				}
			}
			p.Hint = api.DidYouMean(name, known)
		}
	}
	if len(details) > 0 {
		p.Detail = strings.Join(details, "; ")
	}
	return p, nil
}
