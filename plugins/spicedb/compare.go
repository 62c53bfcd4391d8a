package main

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"time"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

// request is a request with all that it says read.
type request struct {
	*pawl.Request
	desired  *desired   // nil: a tombstone
	acked    *state     // of the last ack, empty where there was none
	attempts []*desired // of r.Attempted, nil where the content is not known
}

func (cfg *config) readRequest(r *pawl.Request) (*request, error) {
	now := time.Now()
	q := &request{Request: r, attempts: make([]*desired, len(r.Attempted))}
	var err error
	if len(r.Payload) > 0 {
		if q.desired, err = cfg.read(r.Payload, now); err != nil {
			return nil, pawl.Rejected(err.Error())
		}
	}
	if q.acked, err = stateOf(r.Acked); err != nil {
		return nil, err
	}
	if r.Saga != nil && q.desired == nil && q.acked.isEmpty() {
		if q.acked, err = stateOfKey(r.Key); err != nil {
			return nil, err
		}
	}
	for i := range r.Attempted {
		if r.Attempted[i].HasPayload {
			q.attempts[i], _ = cfg.read(r.Attempted[i].Payload, now) // what can't be read was never sent
		}
	}
	return q, nil
}

// scopes are all that the request is about.
func (q *request) scopes() (ss []*scope) {
	add := func(s *scope) {
		if s != nil {
			ss = append(ss, s)
		}
	}
	if q.desired != nil {
		add(q.desired.scope)
	}
	if s := q.acked.scope; len(ss) == 0 || !ss[0].equal(s) {
		add(s)
	}
	for _, d := range q.attempts {
		if d != nil {
			add(d.scope)
		}
	}
	return ss
}

func (s *scope) equal(o *scope) bool {
	return o != nil && s.object() == o.object() && slices.Equal(s.relations, o.relations) && slices.Equal(s.subjectTypes, o.subjectTypes)
}

// keys are those of all rows that the request names, each once.
func (q *request) keys() (ks []relationship) {
	seen := map[string]bool{}
	add := func(r relationship) {
		if !seen[r.key] {
			seen[r.key] = true
			ks = append(ks, r)
		}
	}
	for _, d := range append([]*desired{q.desired}, q.attempts...) {
		if d == nil {
			continue
		}
		for _, r := range d.want {
			add(r)
		}
		for _, r := range d.unwanted {
			add(r)
		}
	}
	for _, names := range [][]string{q.acked.owned, q.acked.unwanted} {
		for _, name := range names {
			add(named(name))
		}
	}
	return ks
}

// named is the row of a key that was kept.
func named(key string) (r relationship) {
	_ = r.parseKey(key) // it was read from a payload
	return r
}

// ours reports whether a row is there by our doing, as far as is known.
func (q *request) ours(r *relationship) bool {
	if q.acked.owns(r) {
		return true
	}
	for _, d := range q.attempts {
		if d != nil && d.puts(r) {
			return true
		}
	}
	return false
}

// puts reports whether an Apply of d leaves the row there, or owns where it is.
func (d *desired) puts(r *relationship) bool {
	if d.scope != nil {
		return d.scope.has(&r.Row)
	}
	return slices.ContainsFunc(d.want, func(w relationship) bool { return w.key == r.key })
}

// difference is one row that is not as desired. One of there and want may be nil.
type difference struct{ there, want *relationship }

// differences compares what was found with d, of which rows that are ours and not
// desired are no part.
func (q *request) differences(d *desired, found rows, ours func(*relationship) bool) (diffs []difference) {
	want := make(map[string]bool, len(d.want))
	for i := range d.want {
		w := &d.want[i]
		want[w.key] = true
		if there := found[w.key]; there == nil || !there.sameTraits(w) {
			diffs = append(diffs, difference{there, w})
		}
	}
	unwanted := make(map[string]bool, len(d.unwanted))
	for i := range d.unwanted {
		unwanted[d.unwanted[i].key] = true
	}
	for key, there := range found {
		if !want[key] && (unwanted[key] || d.scope != nil && d.scope.has(&there.Row) || ours(there)) {
			diffs = append(diffs, difference{there: there})
		}
	}
	return diffs
}

// String names the row and what is wrong with it, without the values of a caveat's context.
func (d *difference) String() string {
	switch {
	case d.there == nil:
		return d.want.key + " is missing"
	case d.want == nil:
		return d.there.key + " is not desired"
	case d.there.sameExpiry(d.want):
		return d.want.key + " has another caveat"
	}
	return d.want.key + " has another expiration"
}

// maxDiffering bounds how many differences are told.
const maxDiffering = 100

func describe(diffs []difference) (out []string) {
	for i := range diffs {
		out = append(out, diffs[i].String())
	}
	slices.Sort(out)
	if more := len(out) - maxDiffering; more > 0 {
		out = append(out[:maxDiffering], "and "+strconv.Itoa(more)+" more")
	}
	return out
}

// Observe looks at the resource's rows and compares them with r.
func (a *adapter) Observe(ctx context.Context, r *pawl.Request) (o pawl.Observation, err error) {
	if r.Saga != nil && a.cfg.sagas {
		return a.observeStep(ctx, r)
	}
	q, err := a.cfg.readRequest(r)
	if err != nil {
		return o, err
	}
	found, err := a.look(ctx, r, q.scopes(), q.keys())
	if err != nil {
		return o, asError(err)
	}
	return q.observe(a.cfg, found)
}

// observe compares what was found.
func (q *request) observe(cfg *config, found rows) (o pawl.Observation, err error) {
	if q.Acked != nil {
		o.Ref = q.Acked.Ref
	}
	if q.desired == nil {
		return q.observeTombstone(o, found)
	}
	d := q.desired
	diffs := q.differences(d, found, q.ours)
	o.Exists = len(d.want) == 0
	var leftover []string
	for _, there := range found {
		if owned := q.ours(there); owned || d.puts(there) {
			o.Exists = true
			if owned && !d.puts(there) {
				leftover = append(leftover, there.key)
			}
		}
	}
	if !o.Exists {
		return pawl.Observation{}, nil
	}
	o.MatchDesired, o.Differing, o.Object = pawl.TriOf(len(diffs) == 0), describe(diffs), cfg.object(d)
	o.MatchAcked = q.matchAcked(found)
	o.MatchAttempted = q.matchAttempted(found, o.MatchDesired)
	s := d.state(leftover)
	o.AsFound = s.sum(found)
	o.AdapterState, err = s.encode()
	return o, err
}

// observeTombstone tells what is left of what we put.
func (q *request) observeTombstone(o pawl.Observation, found rows) (pawl.Observation, error) {
	for _, there := range found {
		o.Exists = o.Exists || q.ours(there)
	}
	if !o.Exists {
		return pawl.Observation{}, nil
	}
	o.MatchAcked = q.matchAcked(found)
	o.AsFound = q.acked.sum(found)
	if q.Acked != nil {
		o.AdapterState = q.Acked.AdapterState
	}
	return o, nil
}

// sum sums up what was found of the resource's business.
func (s *state) sum(found rows) string {
	var f asFound
	for _, there := range found {
		if s.minds(there) {
			f.add(there)
		}
	}
	return f.String()
}

func (q *request) matchAcked(found rows) pawl.Tri {
	if q.Acked == nil || q.Acked.AsFound == "" {
		return pawl.Unknown
	}
	return pawl.TriOf(q.acked.sum(found) == q.Acked.AsFound)
}

// matchAttempted joins what is known of several attempts: one match is enough, and
// "no" needs all of them to be known.
func (q *request) matchAttempted(found rows, desired pawl.Tri) (match pawl.Tri) {
	known := true
	for i, d := range q.attempts {
		same := pawl.Unknown
		switch at := &q.Attempted[i]; {
		case bytes.Equal(at.ContentHash, q.ContentHash):
			same = desired
		case d != nil:
			same = pawl.TriOf(len(q.differences(d, found, q.acked.owns)) == 0)
		}
		if same == pawl.Yes {
			return pawl.Yes
		}
		known = known && same == pawl.No
		match = pawl.No
	}
	if !known {
		return pawl.Unknown
	}
	return match
}

// object is the identity that two resources must not share: rows that are pruned
// have one owner. Resources that prune nothing may name the same object.
func (cfg *config) object(d *desired) string {
	switch {
	case d.scope == nil:
		return ""
	case cfg.pruneScope == scopeRelation:
		return d.scope.object() + "#" + d.scope.relations[0]
	}
	return d.scope.object()
}
