package server

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pawlsync/pawl/internal/api"
)

// Store is what the API needs of the store itself, beside the engine that works
// with it.
type Store interface {
	// Backup writes a backup of one moment; since that of an earlier one, an increment.
	Backup(ctx context.Context, w io.Writer, since api.StoreSince) error
	// Export writes NDJSON of one moment, with what is known where status is set.
	Export(ctx context.Context, w io.Writer, status bool) error
	// Compact frees what can be freed, and returns when that is done.
	Compact(ctx context.Context) error
	Details(ctx context.Context) (api.StoreDetails, error)
}

func (s *Server) storeRoutes(a huma.API) {
	if s.o.Store == nil {
		return
	}
	huma.Register(a, operation(a, "get-store", http.MethodGet, "/v1/store", "Look into the store",
		"Counts what the store holds; it takes about a second for a million resources."),
		func(ctx context.Context, _ *struct{}) (*output[api.StoreDetails], error) {
			details, err := s.o.Store.Details(ctx)
			return answer(ctx, s, details, err)
		})
	huma.Register(a, operation(a, "compact-store", http.MethodPost, "/v1/store/compact", "Compact the store",
		"Frees what was overwritten or removed, and answers when that is done, which may take minutes. Reads and writes go on."),
		func(ctx context.Context, in *call) (*output[api.StoreDetails], error) {
			_ = http.NewResponseController(in.w).SetWriteDeadline(time.Time{})
			err := s.o.Store.Compact(ctx)
			details := api.StoreDetails{}
			if err == nil {
				details, err = s.o.Store.Details(ctx)
			}
			return answer(ctx, s, details, err)
		})
	backup := operation(a, "backup-store", http.MethodGet, "/v1/store/backup", "Back up the store",
		"Streams the store as of one moment while writes go on, in the format of docs/store-format.md. An answer that was cut off has no end frame. Compaction waits meanwhile.", 409)
	streams(&backup, "application/octet-stream", "The backup.")
	huma.Register(a, backup, func(_ context.Context, in *api.StoreSince) (*huma.StreamResponse, error) {
		since := *in
		return s.stream("application/octet-stream", func(ctx context.Context, w io.Writer) error { return s.o.Store.Backup(ctx, w, since) }), nil
	})
	export := operation(a, "export-store", http.MethodGet, "/v1/store/export", "Export the store",
		"Streams what is desired of every resource as of one moment, payloads included, sensitive ones too: a head, one line a resource, an end. An answer that was cut off has no end.")
	streams(&export, "application/x-ndjson", "One JSON object a line.")
	huma.Register(a, export, func(_ context.Context, in *exportInput) (*huma.StreamResponse, error) {
		status := in.Status
		return s.stream("application/x-ndjson", func(ctx context.Context, w io.Writer) error { return s.o.Store.Export(ctx, w, status) }), nil
	})
}

type exportInput struct {
	Status bool `query:"status" doc:"What is known of each resource as well."`
}

// streams describes an answer whose bytes are not JSON as a whole.
func streams(op *huma.Operation, contentType, description string) {
	op.Responses["200"] = &huma.Response{Description: description, Content: map[string]*huma.MediaType{
		contentType: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
	}}
}

// stream answers with what write writes. An error before the first byte is a problem;
// one after it cuts the answer off, so that nobody takes a part for the whole.
func (s *Server) stream(contentType string, write func(context.Context, io.Writer) error) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		ctx, cancel := s.untilStop(r.Context())
		defer cancel()
		out := &streamWriter{w: w, rc: http.NewResponseController(w), contentType: contentType, timeout: s.o.IOTimeout}
		err := write(ctx, out)
		switch {
		case err == nil:
		case !out.begun:
			writeProblem(w, s.problem(ctx, err))
		default:
			if r.Context().Err() == nil {
				s.log.Error("an answer was cut off", "path", r.URL.Path, "error", err)
			}
			panic(http.ErrAbortHandler)
		}
	}}
}

// streamWriter writes to a client that has timeout to take each part. The answer's
// status is sent with the first byte.
type streamWriter struct {
	w           http.ResponseWriter
	rc          *http.ResponseController
	contentType string
	timeout     time.Duration
	begun       bool
}

func (s *streamWriter) Write(b []byte) (int, error) {
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", s.contentType)
		s.w.WriteHeader(http.StatusOK)
	}
	_ = s.rc.SetWriteDeadline(time.Now().Add(s.timeout))
	return s.w.Write(b)
}
