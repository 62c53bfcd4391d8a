package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

// step is a call of a saga with all that it says read.
type step struct {
	*request
	after rows   // what the step wants there, also what has expired
	scope *scope // in it there is to be nothing else; nil: no more than is named counts
	now   time.Time
}

func (a *adapter) readStep(ctx context.Context, r *pawl.Request) (*step, error) {
	_, _ = ctx.Deadline() // which counts from the first question for it
	q, err := a.cfg.readRequest(r)
	if err != nil {
		return nil, err
	}
	s := &step{request: q, after: rows{}, scope: q.acked.scope, now: time.Now()}
	if d := q.desired; d != nil {
		s.scope = d.scope
		for _, list := range [][]relationship{d.want, d.expired} {
			for i := range list {
				s.after[list[i].key] = &list[i]
			}
		}
	}
	return s, nil
}

// stateOfKey is what a deletion is about whose resource was never acknowledged: its
// key says so, in SpiceDB's own notation.
func stateOfKey(key string) (*state, error) {
	var row relationship
	if row.parseKey(key) == nil {
		return &state{owned: []string{row.key}}, nil
	}
	object, relation, narrower := strings.Cut(key, "#")
	kind, id, ok := strings.Cut(object, ":")
	if !ok || !isTypeName(kind) || !isObjectID(id) || narrower && !isName(relation) {
		return nil, pawl.Rejected("nothing tells which relationships to delete: let the key of a saga's deletion be a relationship, as document:readme#viewer@user:anne, " +
			"or an object or one relation of it, as document:readme or document:readme#viewer; or use upsert with a payload that says what is to be gone")
	}
	s := &scope{resourceType: kind, resourceID: id}
	if narrower {
		s.relations = []string{relation}
	}
	return &state{scope: s}, nil
}

// unwanted are the rows that the step is to remove by name.
func (s *step) unwanted() (rs []relationship) {
	if s.desired != nil {
		return s.desired.unwanted
	}
	for _, key := range s.acked.owned {
		rs = append(rs, named(key))
	}
	return rs
}

// lookAt reads the rows that the step is about, and some more.
func (a *adapter) lookAt(ctx context.Context, s *step, more rows) (rows, error) {
	keys := rows{}
	for _, k := range s.keys() {
		keys[k.key] = &k
	}
	maps.Copy(keys, s.after)
	maps.Copy(keys, more)
	list := make([]relationship, 0, len(keys))
	for _, k := range keys {
		list = append(list, *k)
	}
	return a.look(ctx, s.Request, s.scopes(), list)
}

// image is what of the rows found the step would change, or relies on.
func (s *step) image(found rows) rows {
	named := map[string]bool{}
	for _, r := range s.unwanted() {
		named[r.key] = true
	}
	image := maps.Clone(found)
	maps.DeleteFunc(image, func(key string, r *relationship) bool {
		return s.after[key] == nil && !named[key] && !s.ours(r) && (s.scope == nil || !s.scope.has(&r.Row))
	})
	return image
}

// observeStep is Observe of a step. Whether it has written the mark alone tells.
func (a *adapter) observeStep(ctx context.Context, r *pawl.Request) (o pawl.Observation, err error) {
	s, err := a.readStep(ctx, r)
	if err != nil {
		return o, err
	}
	found, marked, err := a.seen(ctx, s, nil)
	if err != nil {
		return o, err
	}
	if o, err = s.observe(a.cfg, found); err != nil {
		return o, err
	}
	image := s.image(found)
	o.Exists, o.Ours = len(image) > 0, pawl.TriOf(marked)
	if o.Exists {
		o.CID = cidOf(image)
		if r.Saga.Before == nil {
			o.Content, err = contentOf(image)
		}
	}
	return o, err
}

// seen looks for the step's rows, those of its image and its mark.
func (a *adapter) seen(ctx context.Context, s *step, before rows) (found rows, marked bool, err error) {
	err = inParallel([]func() error{
		func() (err error) {
			found, err = a.lookAt(ctx, s, before)
			return err
		},
		func() error {
			f := exactly(a.cfg.mark(s.Saga))
			_, err := a.readKnown(ctx, s.Request, &f, 0, func(*relationship) { marked = true })
			if isUnknownSchema(err) && s.Saga.Before != nil {
				return nil // no mark was ever written there
			}
			return err
		},
	})
	return found, marked, a.cfg.sagaError(err)
}

// change is what a step does to one row. Nil: it is not there.
type change struct {
	key           string
	before, after *relationship
}

// changes are what the step does to its rows, in the order of their keys.
func (s *step) changes(before rows) (cs []change) {
	keys := maps.Clone(before)
	maps.Copy(keys, s.after)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		cs = append(cs, change{key, before[key], s.after[key]})
	}
	return cs
}

// same reports whether two rows, of which either may not be there, are equal.
func same(a, b *relationship) bool {
	return a == nil && b == nil || a != nil && b != nil && a.sameTraits(b)
}

// lasting is a row that is not wanted any more once it has expired.
func (s *step) lasting(r *relationship) *relationship {
	if r == nil || r.expired(s.now) {
		return nil
	}
	return r
}
