package server

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
)

// statusPace is how often the status is looked at for those who watch it.
const statusPace = time.Second

func (s *Server) statusWatchRoute(a huma.API) {
	op := operation(a, "watch-status", http.MethodGet, "/v1/status/watch", "Watch the status of the daemon",
		"Server-sent events: `status` with the whole status, at once and then when it has changed, once a second at most. Comments keep an idle stream alive.")
	op.Responses["200"] = &huma.Response{Description: "Events; the data of status.", Content: map[string]*huma.MediaType{
		"text/event-stream": {Schema: huma.SchemaFromType(a.OpenAPI().Components.Schemas, reflect.TypeFor[api.DaemonStatus]())},
	}}
	huma.Register(a, op, func(context.Context, *struct{}) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: func(ctx huma.Context) {
			r, w := humago.Unwrap(ctx)
			s.streamStatus(w, r)
		}}, nil
	})
}

// streamStatus writes the status whenever it has changed, until the client leaves or
// the server stops.
func (s *Server) streamStatus(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := s.untilStop(r.Context())
	defer cancel()
	out := newEventWriter(w, s.o.IOTimeout)
	pace, heartbeat := time.NewTicker(statusPace), time.NewTicker(s.o.Heartbeat)
	defer pace.Stop()
	defer heartbeat.Stop()
	var told []byte
	for {
		var now bytes.Buffer
		if err := marshal(&now, s.daemonStatus(access.From(ctx))); err != nil {
			return
		}
		if !bytes.Equal(now.Bytes(), told) {
			if out.event("status", "", json.RawMessage(now.Bytes())) != nil || out.flush() != nil {
				return
			}
			told = now.Bytes()
		}
		select {
		case <-pace.C:
		case <-heartbeat.C:
			if out.comment() != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
