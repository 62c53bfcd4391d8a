package server

import (
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/internal/api"
)

// Most items of a page; with payloads fewer, so that an answer stays small.
const (
	pageMax         = 1000
	pagePayloadsMax = 100
)

func (s *Server) listRoutes(a huma.API) {
	huma.Register(a, operation(a, "list-resources", http.MethodGet, "/v1/resources", "List resources",
		"Pages of resources in key order, without history. A watch from the first page's token misses nothing.",
		404, 422), s.list)
}

type listInput struct {
	Sink     string   `query:"sink" doc:"Of this sink only."`
	Prefix   string   `query:"prefix" doc:"Keys that start with it."`
	Phases   []string `query:"phase,explode" doc:"Of this phase only; may be given several times."`
	Limit    int      `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Most items of a page; at most 100 with payloads."`
	Page     string   `query:"page" doc:"The next of the page before."`
	Payloads bool     `query:"payloads" doc:"Show payloads."`
	Reveal   bool     `query:"reveal" doc:"Show sensitive values of them too."`
}

func (s *Server) list(ctx context.Context, in *listInput) (*output[api.Page], error) {
	o := engine.ListOptions{Sink: in.Sink, Prefix: in.Prefix, Limit: min(in.Limit, pageMax), Page: in.Page, Payloads: in.Payloads}
	if in.Payloads {
		o.Limit = min(o.Limit, pagePayloadsMax)
	}
	if err := s.knownSink(in.Sink); err != nil {
		return nil, err
	}
	for _, name := range in.Phases {
		phase, err := api.ParsePhase(name)
		if err != nil {
			return nil, s.problem(ctx, fmt.Errorf("query parameter phase: %w", err))
		}
		o.Phases = append(o.Phases, phase)
	}
	page, err := s.engine.List(ctx, o)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	out := api.Page{Items: make([]api.Resource, len(page.Items)), Next: page.Next, Token: page.Token}
	for i := range page.Items {
		out.Items[i] = resource(&page.Items[i], false)
		if in.Payloads {
			s.showPayload(&out.Items[i], &page.Items[i], in.Reveal)
		}
	}
	return answer(ctx, s, out, nil)
}

// knownSink refuses a filter by a sink that does not exist: an empty answer
// would hide the misspelling.
func (s *Server) knownSink(name string) error {
	if name == "" || s.sink(name) != nil {
		return nil
	}
	return s.unknownSink(name)
}
