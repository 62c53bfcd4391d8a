package conformance

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// T is what a check works with: its stage, and the engine's part of the
// conversation.
type T struct {
	*Stage
	ctx    context.Context
	kit    *kit
	check  string
	gen    atomic.Uint64
	things []*thing
	runs   []*player // steps of sagas
}

// end is how a check ends early; Failf and Skipf panic with it.
type end struct {
	outcome Outcome
	text    string
}

// Failf ends the check: the plugin broke the promise.
func (t *T) Failf(format string, args ...any) {
	panic(&end{Failed, fmt.Sprintf(format, args...)})
}

// Skipf ends the check: it does not apply.
func (t *T) Skipf(format string, args ...any) {
	panic(&end{Skipped, fmt.Sprintf(format, args...)})
}

// do runs f and returns how it ended early, or nil.
func (t *T) do(f func(*T)) (e *end) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *end:
			e = p
		default:
			panic(p)
		}
	}()
	f(t)
	return nil
}

// needsObserve skips the check for an adapter that can't look.
func (t *T) needsObserve() {
	if !t.sink.Manifest().Observes {
		t.Skipf("the adapter has no op observe")
	}
}

// needsDelete skips the check for an adapter that can't delete.
func (t *T) needsDelete() {
	if !t.sink.Manifest().Deletes {
		t.Skipf("the adapter has no op delete")
	}
}

// thing is one resource, with what the engine remembers of it.
type thing struct {
	t       *T
	key, n  string
	acked   *record.Acked
	current *sink.Request // the newest generation
}

// thing makes a resource whose key no other has.
func (t *T) thing() *thing {
	n := fmt.Sprintf("%s-%d", t.check, len(t.things)+1)
	if t.store == nil {
		n += "-" + t.kit.nonce
	}
	return t.named(strings.ReplaceAll(t.fixture.Key, "{n}", n), n)
}

// named makes a resource with a key of its own.
func (t *T) named(key, n string) *thing {
	o := &thing{t: t, key: key, n: n}
	t.things = append(t.things, o)
	return o
}

// tidy removes what the check left at a real target; the scripted one goes with
// the check.
func (t *T) tidy() {
	if t.store != nil || t.sink == nil || !t.sink.Manifest().Deletes {
		return
	}
	t.gate.set(nil)
	t.line.cut.Store(false)
	t.giveUp()
	for _, o := range t.things {
		t.sink.Delete(t.ctx, o.tombstone())
	}
}

// content is the payload that a template of the fixture makes for the resource.
func (o *thing) content(template []byte) []byte { return []byte(fill(string(template), o.key, o.n)) }

// want is the request for a payload: the current one where it asks for the same,
// else one of a new generation.
func (o *thing) want(payload []byte) *sink.Request {
	if o.current == nil || o.current.Hash != record.HashOf(payload) {
		o.current = o.generation()
		o.current.Payload, o.current.Hash = payload, record.HashOf(payload)
		o.current.IdempotencyKey += "-" + o.current.Hash.String()
	}
	o.current.Acked = o.acked
	return o.current
}

// tombstone is the request for the deletion of the resource.
func (o *thing) tombstone() *sink.Request {
	o.current = nil // what is put after it is of a newer generation
	r := o.generation()
	r.Acked = o.acked
	return r
}

func (o *thing) generation() *sink.Request {
	g := o.t.gen.Add(1)
	return &sink.Request{
		Key: record.Key{Sink: o.t.name, Name: o.key}, Generation: g,
		IdempotencyKey: fmt.Sprintf("%s-%s-%d", o.t.kit.nonce, o.t.check, g), Conflict: record.SourceWins,
		Epoch: o.t.kit.nonce,
	}
}

// ack is what the engine keeps of a confirmation.
func (o *thing) ack(r *sink.Request, seen *sink.Observation) {
	a := &record.Acked{Generation: r.Generation, Hash: r.Hash}
	if seen != nil {
		a.Ref, a.AsFound, a.UID, a.Cursor = seen.Ref, seen.AsFound, seen.UID, seen.Cursor
		a.Object, a.Adapter = seen.Object, seen.AdapterState
	}
	o.acked = a
}

// apply brings the resource to a content as the engine does: with a look before
// and after it where the adapter does not claim that one call is enough. It
// fails the check where that does not end acknowledged.
func (o *thing) apply(template []byte) (*sink.Request, sink.Result) {
	t, m := o.t, o.t.sink.Manifest()
	r := o.want(o.content(template))
	if m.Observes && !(m.ApplyConfirms && m.ApplyIdempotent) {
		t.sink.Observe(t.ctx, r)
	}
	res := t.sink.Apply(t.ctx, r)
	if res.Status != sink.OK {
		t.Failf("Apply answered %s", describe(res))
	}
	seen := res.Observation
	if m.Observes && !m.ApplyConfirms {
		look := t.sink.Observe(t.ctx, r)
		if !t.matches(r, look) {
			t.Failf("after Apply, which does not confirm by itself, Observe does not match: %s", describe(look))
		}
		seen = look.Observation
	}
	o.ack(r, seen)
	return r, res
}

// observe looks, with a content as the desired one.
func (o *thing) observe(template []byte) sink.Result {
	return o.t.sink.Observe(o.t.ctx, o.want(o.content(template)))
}

// mustMatch fails the check where Observe does not say that the target holds a content.
func (o *thing) mustMatch(template []byte, when string) sink.Result {
	res := o.observe(template)
	if !o.t.matches(o.current, res) {
		o.t.Failf("%s, Observe does not say that the target matches: %s", when, describe(res))
	}
	return res
}

// matches judges an observation as the engine does (R20, R26).
func (t *T) matches(r *sink.Request, res sink.Result) bool {
	o := res.Observation
	if res.Status != sink.OK || o == nil || !o.Exists {
		return false
	}
	return o.MatchDesired == sink.Yes || o.MatchDesired == sink.Unknown &&
		t.sink.Manifest().AsFoundComparable && o.AsFound != "" && o.AsFound == r.Hash.Hex()
}

// matchesAcked judges whether the target holds what was acked (R22, R26).
func matchesAcked(r *sink.Request, res sink.Result) sink.Tri {
	o := res.Observation
	switch {
	case o == nil:
		return sink.Unknown
	case o.MatchAcked == sink.Unknown && r.Acked != nil && o.AsFound != "" && r.Acked.AsFound != "":
		return sink.TriOf(o.AsFound == r.Acked.AsFound)
	}
	return o.MatchAcked
}

// absent reports whether an answer to Observe says that there is no object.
func absent(res sink.Result) bool {
	return res.Status == sink.NotFound || res.Status == sink.OK && res.Observation != nil && !res.Observation.Exists
}

// gone reports whether an answer to Delete is a success.
func gone(res sink.Result) bool { return res.Status == sink.OK || res.Status == sink.NotFound }

// maxLooks bounds the looks at a deletion under way.
const maxLooks = 50

// delete deletes the resource as the engine does, and fails the check where it
// does not end.
func (o *thing) delete() sink.Result {
	t := o.t
	r := o.tombstone()
	if o.acked != nil && t.sink.Manifest().ReportsUID {
		r.UID = o.acked.UID
	}
	res := t.sink.Delete(t.ctx, r)
	for n := 0; res.Status == sink.InProgress && n < maxLooks; n++ {
		t.pause()
		if t.sink.Manifest().Observes && absent(t.sink.Observe(t.ctx, r)) {
			return sink.Result{Status: sink.OK}
		}
		res = t.sink.Delete(t.ctx, r)
	}
	if !gone(res) {
		t.Failf("Delete answered %s", describe(res))
	}
	return res
}

// describe sums up an answer for people.
func describe(res sink.Result) string {
	s := res.Status.String()
	if o := res.Observation; o != nil && res.Status == sink.OK {
		s += fmt.Sprintf(", exists %t", o.Exists)
		for _, m := range []struct {
			name string
			tri  sink.Tri
		}{{"desired", o.MatchDesired}, {"acked", o.MatchAcked}, {"attempted", o.MatchAttempted}} {
			s += fmt.Sprintf(", match_%s %s", m.name, triName(m.tri))
		}
		if len(o.Differing) > 0 {
			s += ", differing " + strings.Join(o.Differing, " ")
		}
	}
	if res.RetryAfter > 0 {
		s += fmt.Sprintf(", retry after %v", res.RetryAfter)
	}
	if res.Message != "" {
		s += ": " + res.Message
	}
	return s
}

func triName(t sink.Tri) string {
	switch t {
	case sink.Yes:
		return "yes"
	case sink.No:
		return "no"
	}
	return "unknown"
}
