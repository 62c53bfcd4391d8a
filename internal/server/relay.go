package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/relay"
	"github.com/pawlsync/pawl/internal/source"
)

// Relay takes in what other pawls send.
type Relay interface {
	Receive(ctx context.Context, request []byte) (answer []byte, err error)
	Look(ctx context.Context, request []byte) (answer []byte, err error)
	Compare(ctx context.Context, request []byte) (answer []byte, err error)
}

const relayType = "application/vnd.pawl.relay"

func (s *Server) relayRoutes(a huma.API) {
	for _, r := range []struct {
		id, path, summary, description string
		answer                         func(context.Context, []byte) ([]byte, error)
	}{
		{"relay", "/v1/relay", "Take in what another pawl sends",
			"For the plugin pawl. docs/relay.md has the messages; every item has an answer of its own.",
			func(ctx context.Context, b []byte) ([]byte, error) { return s.o.Relay.Receive(ctx, b) }},
		{"relay-look", "/v1/relay/look", "Tell another pawl what is here of its resources",
			"For the plugin pawl. Changes nothing. docs/relay.md has the messages.",
			func(ctx context.Context, b []byte) ([]byte, error) { return s.o.Relay.Look(ctx, b) }},
		{"relay-compare", "/v1/relay/compare", "Tell what differs from another pawl's resources",
			"For the plugin pawl. Changes nothing. docs/relay.md has the messages.",
			func(ctx context.Context, b []byte) ([]byte, error) { return s.o.Relay.Compare(ctx, b) }},
	} {
		op := operation(a, r.id, http.MethodPost, r.path, r.summary, r.description, 400, 403, 404, 413)
		op.Tags = []string{"relay"}
		binary := map[string]*huma.MediaType{relayType: {Schema: &huma.Schema{Type: "string", Format: "binary"}}}
		op.Responses["200"] = &huma.Response{Description: "A Welcome, and what was asked for.", Content: binary}
		op.RequestBody = &huma.RequestBody{Required: true, Description: "A Hello, and what is asked.", Content: binary}
		huma.Register(a, op, func(context.Context, *struct{}) (*huma.StreamResponse, error) {
			return &huma.StreamResponse{Body: func(ctx huma.Context) {
				r0, w := humago.Unwrap(ctx)
				s.relay(w, r0, r.answer)
			}}, nil
		})
	}
}

// relay answers one request of another pawl.
func (s *Server) relay(w http.ResponseWriter, r *http.Request, answer func(context.Context, []byte) ([]byte, error)) {
	if s.o.Relay == nil {
		writeProblem(w, api.NewProblem(http.StatusNotFound, api.CodeNotFound, "this pawl takes in nothing from others",
			"declare the sender in a source of kind pawl: sources.NAME.pawl.senders"))
		return
	}
	ctx, cancel := s.untilStop(r.Context())
	defer cancel()
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.o.IOTimeout))
	body := http.MaxBytesReader(w, r.Body, s.o.RequestMaxBytes)
	out, err := relay.Answered(body, r.ContentLength, s.o.RequestMaxBytes, func(request []byte) ([]byte, error) { return answer(ctx, request) })
	if err != nil {
		writeProblem(w, s.relayProblem(ctx, err))
		return
	}
	w.Header().Set("Content-Type", relayType)
	_, _ = w.Write(out) // a sender that is gone asks again
}

func (s *Server) relayProblem(ctx context.Context, err error) *api.Problem {
	var tooLarge *http.MaxBytesError
	switch {
	case access.AsDenial(err) != nil:
		return denied(access.AsDenial(err))
	case errors.Is(err, source.ErrUndeclared):
		return api.NewProblem(http.StatusForbidden, api.CodeUndeclaredSender, err.Error(), "name it in sources.NAME.pawl.senders here, or correct sender in the config of its sink there")
	case errors.Is(err, relay.ErrMalformed):
		return api.NewProblem(http.StatusBadRequest, api.CodeBadRequest, err.Error(), "do the versions of the two pawls fit each other?")
	case errors.As(err, &tooLarge):
		return api.NewProblem(http.StatusRequestEntityTooLarge, api.CodeTooLarge, err.Error(), "send less at once (batch_max), or raise server.max_request_bytes here")
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, io.ErrUnexpectedEOF):
		return api.NewProblem(http.StatusRequestTimeout, api.CodeBadRequest, "the request did not come to its end", "send it again")
	}
	return s.problem(ctx, err)
}
