package server

import (
	"context"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlsync/pawl/internal/access"
)

// Diagnostics is what a debug bundle needs of the daemon around the API.
type Diagnostics interface {
	// Config is the configuration in force, as `pawl config show` prints it.
	Config() ([]byte, error)
	// Log has the newest warnings and errors, a line of JSON each.
	Log() []byte
	// Metrics writes what a scrape would get.
	Metrics(w io.Writer) error
	// Mask is text without secrets.
	Mask(text string) string
}

// bundleType is the media type of a debug bundle.
const bundleType = "application/gzip"

func (s *Server) debugRoutes(a huma.API) {
	if s.o.Diagnostics == nil {
		return
	}
	op := operation(a, "get-debug-bundle", http.MethodGet, "/v1/debug/bundle", "Make a debug bundle",
		"Streams a .tar.gz of what somebody needs who is to find out what is wrong: version, configuration, status, metrics, figures of the store, profiles, the newest warnings and errors, and index.json, which says what is in it. It holds no payloads and no secrets; keys, ids of sagas and texts of errors only with keys=true. An answer that was cut off has no index.")
	streams(&op, bundleType, "The bundle.")
	huma.Register(a, op, func(ctx context.Context, in *bundleInput) (*huma.StreamResponse, error) {
		s.log.Info("a debug bundle is made", "for", access.From(ctx).Name, "with_keys", in.Keys)
		b := &bundle{server: s, text: &texts{mask: s.o.Diagnostics.Mask, all: in.Keys}}
		return s.stream(bundleType, b.write), nil
	})
}

type bundleInput struct {
	Keys bool `query:"keys" doc:"Show keys, ids of sagas and texts of errors too. Targets may quote values in those."`
}
