package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/saga"
	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
)

// may returns an *access.Denial where the caller may not do so to a resource.
func may(ctx context.Context, scope access.Scope, key record.Key) error {
	return access.From(ctx).Check(scope, access.Resource(key.Sink, key.Name))
}

// span is resources of one sink, or of all where that is "", whose keys start with prefix.
type span struct{ sink, prefix string }

// readable are the parts of asked that the caller may read, in key order and without
// overlap. Where that is nothing, it returns an *access.Denial.
func (s *Server) readable(ctx context.Context, asked span) ([]span, error) {
	id := access.From(ctx)
	if id.AllowsBelow(access.Read, asked.sink, asked.prefix) {
		return []span{asked}, nil
	}
	var out []span
	for i := range id.Grants {
		g := &id.Grants[i]
		prefix, overlap := longer(asked.prefix, g.Prefix)
		if !overlap || !(&access.Identity{Grants: id.Grants[i : i+1]}).AllowsSome(access.Read, asked.sink) {
			continue
		}
		for _, sink := range s.sinksOf(g, asked.sink) {
			out = append(out, span{sink, prefix})
		}
	}
	if len(out) == 0 {
		return nil, id.Check(access.Read, access.WholeSink(asked.sink))
	}
	slices.SortFunc(out, func(a, b span) int { return cmp.Or(cmp.Compare(a.sink, b.sink), cmp.Compare(a.prefix, b.prefix)) })
	apart := out[:1]
	for _, part := range out[1:] { // one that is within another stands behind it
		if last := apart[len(apart)-1]; part.sink != last.sink || !strings.HasPrefix(part.prefix, last.prefix) {
			apart = append(apart, part)
		}
	}
	return apart, nil
}

// longer is the longer of two prefixes, where one is a prefix of the other.
func longer(a, b string) (prefix string, ok bool) {
	if len(a) < len(b) {
		a, b = b, a
	}
	return a, strings.HasPrefix(a, b)
}

// sinksOf are the sinks that a grant holds for, of those that are asked about.
func (s *Server) sinksOf(g *access.Grant, asked string) []string {
	switch {
	case asked != "":
		return []string{asked}
	case len(g.Sinks) > 0:
		return g.Sinks
	}
	var out []string
	for _, sink := range s.engine.Sinks() {
		out = append(out, sink.Name)
	}
	return out
}

// listAllowed is List of what the caller may read. Each part is asked for by itself,
// so that the page's token tells of no key beside them.
func (s *Server) listAllowed(ctx context.Context, o engine.ListOptions) (engine.Page, error) {
	parts, err := s.readable(ctx, span{o.Sink, o.Prefix})
	var out engine.Page
	for i, part := range parts {
		o.Sink, o.Prefix = part.sink, part.prefix
		page, err := s.engine.List(ctx, o)
		if err != nil {
			return out, err
		}
		out.Items, out.Next = append(out.Items, page.Items...), page.Next
		out.Token = cmp.Or(out.Token, page.Token) // a watch from the first one misses nothing
		o.Limit -= len(page.Items)
		if o.Limit == 0 && out.Next == "" && i < len(parts)-1 {
			out.Next = engine.PageAfter(page.Items[len(page.Items)-1].Key)
		}
		if out.Next != "" {
			break
		}
	}
	return out, err
}

// mayReveal returns an *access.Denial where the caller may not see the sensitive
// values of what is asked for.
func mayReveal(ctx context.Context, asked span) error {
	id := access.From(ctx)
	if id.AllowsBelow(access.Admin, asked.sink, asked.prefix) {
		return nil
	}
	return id.Check(access.Admin, access.WholeSink(asked.sink))
}

// maySaga returns an *access.Denial where the caller may not do so to every resource
// of a saga. One whose record is lost may be about anything.
func maySaga(ctx context.Context, scope access.Scope, spec *saga.Spec) error {
	if len(spec.Steps) == 0 {
		return access.From(ctx).Check(scope, access.Everything())
	}
	for i := range spec.Steps {
		if err := may(ctx, scope, spec.Steps[i].Key); err != nil {
			return err
		}
	}
	return nil
}

// sagaFor finds a saga that the caller may read. One that they may not is not there
// for them.
func (s *Server) sagaFor(ctx context.Context, id string) (saga.View, error) {
	v, err := s.sagas.Get(id)
	if err == nil && maySaga(ctx, access.Read, &v.Spec) != nil {
		return saga.View{}, fmt.Errorf("%w: there is no saga %q", saga.ErrNotFound, id) // as saga says it
	}
	return v, err
}

// mayResolve says what keeps the caller from resolving a saga.
func (s *Server) mayResolve(ctx context.Context, id string) error {
	if access.From(ctx).AllowsAll(access.Admin) {
		return nil
	}
	v, err := s.sagaFor(ctx, id)
	if err != nil {
		return err
	}
	return maySaga(ctx, access.Admin, &v.Spec)
}

// sagasFor is a page of the sagas that the caller may read.
func (s *Server) sagasFor(ctx context.Context, o saga.ListOptions) (out []saga.View, more bool, err error) {
	limit := o.Limit
	for {
		views, further, err := s.sagas.List(ctx, o)
		if err != nil {
			return nil, false, err
		}
		for i := range views {
			switch {
			case maySaga(ctx, access.Read, &views[i].Spec) != nil:
			case len(out) == limit:
				return out, true, nil
			default:
				out = append(out, views[i])
			}
		}
		if !further || len(views) == 0 {
			return out, false, nil
		}
		o.After = views[len(views)-1].Spec.ID
	}
}

// sinkFor is a sink's state as the caller may see it: its last error may name any of
// its resources.
func (s *Server) sinkFor(id *access.Identity, sink *engine.SinkStatus) api.Sink {
	out := s.sinkStatus(sink)
	if !id.AllowsBelow(access.Read, sink.Name, "") {
		out.LastError = ""
	}
	return out
}
