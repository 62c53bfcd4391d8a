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
	Owner    string   `query:"owner" doc:"Of the source of that name only. A page may have few or none then, and others follow all the same."`
	Limit    int      `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Most items of a page; at most 100 with payloads."`
	Page     string   `query:"page" doc:"The next of the page before."`
	Payloads bool     `query:"payloads" doc:"Show payloads."`
	Reveal   bool     `query:"reveal" doc:"Show sensitive values of them too."`
}

func (s *Server) list(ctx context.Context, in *listInput) (*output[api.Page], error) {
	o := engine.ListOptions{Sink: in.Sink, Prefix: in.Prefix, Limit: min(in.Limit, pageMax), Page: in.Page, Payloads: in.Payloads}
	if in.Owner != "" {
		o.Owner = &in.Owner
	}
	if in.Payloads {
		o.Limit = min(o.Limit, pagePayloadsMax)
	}
	if err := s.mayList(ctx, in); err != nil {
		return nil, s.problem(ctx, err)
	}
	for _, name := range in.Phases {
		phase, err := api.ParsePhase(name)
		if err != nil {
			return nil, s.problem(ctx, fmt.Errorf("query parameter phase: %w", err))
		}
		o.Phases = append(o.Phases, phase)
	}
	page, err := s.listAllowed(ctx, o)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	out := api.Page{Items: make([]api.Resource, len(page.Items)), Next: page.Next, Token: page.Token}
	for i := range page.Items {
		out.Items[i] = s.resource(&page.Items[i], false)
		if in.Payloads {
			s.showPayload(&out.Items[i], &page.Items[i], in.Reveal)
		}
	}
	return answer(ctx, s, out, nil)
}

// mayList says what is wrong with what a list is to show.
func (s *Server) mayList(ctx context.Context, in *listInput) error {
	asked := span{in.Sink, in.Prefix}
	if in.Payloads && in.Reveal {
		if err := mayReveal(ctx, asked); err != nil {
			return err
		}
	}
	return s.mayFilter(ctx, asked)
}

// mayFilter refuses a filter by what the caller may not read, and one by a sink that
// does not exist: an empty answer would hide the misspelling.
func (s *Server) mayFilter(ctx context.Context, asked span) error {
	if _, err := s.readable(ctx, asked); err != nil {
		return err
	}
	if asked.sink == "" || s.sink(asked.sink) != nil {
		return nil
	}
	return s.unknownSink(ctx, asked.sink)
}
