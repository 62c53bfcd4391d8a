package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
)

func (s *Server) watchRoute(a huma.API) {
	op := operation(a, "watch-resources", http.MethodGet, "/v1/watch", "Watch resources",
		"Server-sent events: `ready` at the start, then `resource` and `removed` with a WatchEvent each. An event's id is the token that resumes after it, by Last-Event-ID or from. "+
			"States in between may be skipped, the newest never is. A token that is not valid is refused (410); one that stops being so ends the stream with `reset`, whose data is the same Problem: list again, and watch from the list's token. "+
			"`error` ends it for another reason. Comments keep an idle stream alive.", 404, 410, 422)
	op.Responses["200"] = &huma.Response{Description: "Events; the data of resource and removed.", Content: map[string]*huma.MediaType{
		"text/event-stream": {Schema: huma.SchemaFromType(a.OpenAPI().Components.Schemas, reflect.TypeFor[api.WatchEvent]())},
	}}
	huma.Register(a, op, s.watch)
}

type watchInput struct {
	Sink   string `query:"sink" doc:"Of this sink only."`
	Prefix string `query:"prefix" doc:"Keys that start with it."`
	Page   string `query:"page" doc:"Of a page of a list: what it was asked for with."`
	Next   string `query:"next" doc:"Of a page of a list: its next. With these two, only what stands on the page, or would, is told."`
	From   string `query:"from" doc:"The token of a list or event; absent: from now on."`
	LastID string `header:"Last-Event-ID" doc:"The same, of a browser that comes back; goes before from."`
}

func (s *Server) watch(ctx context.Context, in *watchInput) (*huma.StreamResponse, error) {
	if err := s.mayFilter(ctx, span{in.Sink, in.Prefix}); err != nil {
		return nil, s.problem(ctx, err)
	}
	o := engine.WatchOptions{Sink: in.Sink, Prefix: in.Prefix, Page: in.Page, Next: in.Next, From: in.From}
	if in.LastID != "" {
		o.From = in.LastID
	}
	if o.From == "" { // a list's token, so that a stream that breaks before its first event resumes without a gap
		page, err := s.engine.List(ctx, engine.ListOptions{Limit: 1})
		if err != nil {
			return nil, s.problem(ctx, err)
		}
		o.From = page.Token
	}
	if err := s.watchable(ctx, o); err != nil {
		return nil, s.problem(ctx, err)
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		r, w := humago.Unwrap(ctx)
		s.streamEvents(w, r, o)
	}}, nil
}

// watchable says why a watch can't begin, before an answer has: one that is over
// at once gives what there is, or its error, and waits for nothing.
func (s *Server) watchable(ctx context.Context, o engine.WatchOptions) error {
	over, cancel := context.WithCancel(ctx)
	cancel()
	for _, err := range s.engine.Watch(over, o) {
		return err
	}
	return nil
}

// streamEvents writes events until the client leaves, the watch fails or the
// server stops.
func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request, o engine.WatchOptions) {
	ctx, cancel := s.untilStop(r.Context())
	events := s.watchEvents(ctx, o)
	defer func() {
		cancel()
		for range events { // until the engine's iterator has ended
		}
	}()
	out := newEventWriter(w, s.o.IOTimeout)
	if out.event("ready", o.From, struct{}{}) != nil || out.flush() != nil {
		return
	}
	heartbeat := time.NewTicker(s.o.Heartbeat)
	defer heartbeat.Stop()
	for {
		var err error
		select {
		case e, open := <-events:
			if !open {
				return
			}
			if err = s.writeEvent(ctx, out, e); err == nil && len(events) == 0 {
				err = out.flush()
			}
		case <-heartbeat.C:
			err = out.comment()
		}
		if err != nil {
			return
		}
	}
}

type watched struct {
	event engine.Event
	err   error
}

// watchEvents turns the engine's iterator into a channel, which is closed when
// the iterator has ended.
func (s *Server) watchEvents(ctx context.Context, o engine.WatchOptions) <-chan watched {
	events := make(chan watched, 64)
	go func() {
		defer close(events)
		for e, err := range s.engine.Watch(ctx, o) {
			if err == nil && may(ctx, access.Read, e.Resource.Key) != nil {
				continue
			}
			select {
			case events <- watched{e, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return events
}

func (s *Server) writeEvent(ctx context.Context, out *eventWriter, e watched) error {
	switch {
	case e.err == nil:
		name := "resource"
		if e.event.Removed {
			name = "removed"
		}
		return out.event(name, e.event.Token, api.WatchEvent{
			Removed: e.event.Removed, Resource: s.resource(&e.event.Resource, false), Token: e.event.Token,
		})
	case ctx.Err() != nil: // the client left, or the server stops: it comes back by itself
		return e.err
	}
	name, p := "error", s.problem(ctx, e.err)
	if errors.Is(e.err, engine.ErrWatchExpired) {
		name = "reset"
	}
	if err := out.event(name, "", p); err != nil {
		return err
	}
	_ = out.flush()
	return e.err
}

// eventWriter writes server-sent events to a client that has timeout to take
// each.
type eventWriter struct {
	w       io.Writer
	rc      *http.ResponseController
	timeout time.Duration
	buffer  bytes.Buffer
}

// newEventWriter begins a stream of events.
func newEventWriter(w http.ResponseWriter, timeout time.Duration) *eventWriter {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	return &eventWriter{w: w, rc: http.NewResponseController(w), timeout: timeout}
}

// comment tells that the stream lives.
func (e *eventWriter) comment() error {
	if err := e.write([]byte(": still here\n\n")); err != nil {
		return err
	}
	return e.flush()
}

// event writes one. JSON has no line breaks, so that data is one line.
func (e *eventWriter) event(name, id string, data any) error {
	e.buffer.Reset()
	e.buffer.WriteString("event: " + name + "\n")
	if id != "" {
		e.buffer.WriteString("id: " + id + "\n")
	}
	e.buffer.WriteString("data: ")
	if err := marshal(&e.buffer, data); err != nil {
		return err
	}
	e.buffer.WriteByte('\n')
	return e.write(e.buffer.Bytes())
}

func (e *eventWriter) write(b []byte) error {
	_ = e.rc.SetWriteDeadline(time.Now().Add(e.timeout))
	_, err := e.w.Write(b)
	return err
}

func (e *eventWriter) flush() error { return e.rc.Flush() }
