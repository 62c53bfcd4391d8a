package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/pawlsync/pawl/plugins/spicedb/wire"
	pawl "github.com/pawlsync/pawl/sdk/go"
)

// adapter serves one sink.
type adapter struct {
	cfg *config
	client
}

// Configure reads the sink's config.
func (a *adapter) Configure(_ context.Context, c pawl.Config) (pawl.Configured, error) {
	cfg, err := readConfig(c)
	if err != nil {
		return pawl.Configured{}, err
	}
	a.cfg, a.client = cfg, client{upstream: cfg.upstream.Name}
	return pawl.Configured{Target: cfg.upstream.BaseURL, Manifest: cfg.manifest()}, nil
}

// asError turns a failure into what the engine understands.
func asError(err error) error {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.asError()
	}
	return err
}

// plan is what an Apply does.
type plan struct {
	r             *pawl.Request
	updates       []wire.Update // what is added before what is removed
	preconditions []wire.Precondition
	done          pawl.Observation // what is known once it is done
}

// plan works out the difference. Rows that are not pruned, and of which all is known
// that we ever put, need no look: they are written as they are.
func (a *adapter) plan(ctx context.Context, r *pawl.Request) (*plan, error) {
	q, err := a.cfg.readRequest(r)
	if err != nil {
		return nil, err
	}
	d := q.desired
	if d == nil {
		return nil, pawl.Rejected("there is no payload to apply")
	}
	p := &plan{r: r, preconditions: d.preconditions}
	s := d.state(nil)
	state, err := s.encode()
	if err != nil {
		return nil, err
	}
	p.done = pawl.Observation{Exists: true, MatchDesired: pawl.Yes, Object: a.cfg.object(d), AdapterState: state}
	if r.Acked != nil {
		p.done.Ref = r.Acked.Ref
	}
	var sum asFound
	for i := range d.want {
		sum.add(&d.want[i])
	}
	p.done.AsFound = sum.String()
	add := wire.Touch
	if r.Mode == pawl.CreateOnly {
		add = wire.Create
	}
	scopes := q.scopes()
	if len(scopes) == 0 {
		p.write(add, d, q)
		return p, nil
	}
	found, err := a.look(ctx, r, scopes, q.keys())
	if err != nil {
		return nil, asError(err)
	}
	var removed []wire.Update
	for _, diff := range q.differences(d, found, q.ours) {
		if diff.want != nil {
			p.updates = append(p.updates, wire.Update{Op: add, Row: &diff.want.Row})
		} else {
			removed = append(removed, wire.Update{Op: wire.Delete, Row: &diff.there.Row})
		}
	}
	p.updates = append(p.updates, removed...)
	return p, nil
}

// write plans all that d says, and removes what it says no more.
func (p *plan) write(add wire.Op, d *desired, q *request) {
	p.updates = make([]wire.Update, 0, len(d.want)+len(d.unwanted))
	named := make(map[string]bool, len(d.want)+len(d.unwanted))
	plan := func(op wire.Op, rows []relationship) {
		for i := range rows {
			if r := &rows[i]; !named[r.key] {
				named[r.key] = true
				p.updates = append(p.updates, wire.Update{Op: op, Row: &r.Row})
			}
		}
	}
	plan(add, d.want)
	plan(wire.Delete, d.unwanted)
	plan(wire.Delete, q.leftovers())
}

// leftovers are the rows that we may have put there, by name.
func (q *request) leftovers() (rs []relationship) {
	for _, name := range q.acked.owned {
		rs = append(rs, named(name))
	}
	for _, d := range q.attempts {
		if d != nil && d.scope == nil {
			rs = append(rs, d.want...)
		}
	}
	return rs
}

// Apply writes the difference.
func (a *adapter) Apply(ctx context.Context, r *pawl.Request) (pawl.Observation, error) {
	if r.Saga != nil && a.cfg.sagas {
		return a.writeStep(ctx, r)
	}
	p, err := a.plan(ctx, r)
	if err == nil {
		err = a.carryOut(ctx, p)
	}
	if err != nil {
		return pawl.Observation{}, asError(err)
	}
	return p.done, nil
}

// carryOut writes a plan, in one request where it fits; the preconditions go with the first.
func (a *adapter) carryOut(ctx context.Context, p *plan) error {
	ps := p.preconditions
	for rest := p.updates; len(rest) > 0; {
		n := a.fitting(rest)
		token, err := a.write(ctx, p.r, rest[:n], ps)
		if err != nil {
			return err
		}
		p.done.Ref = token
		rest, ps = rest[n:], nil
	}
	return nil
}

// maxWriteBytes bounds a request below what gRPC servers take (4 MiB).
const maxWriteBytes = 3 << 20

// fitting is how many of updates go into one request.
func (a *adapter) fitting(updates []wire.Update) int {
	size := 0
	for i := range updates {
		if size += sizeOf(&updates[i]); i == a.cfg.updates || i > 0 && size > maxWriteBytes {
			return i
		}
	}
	return len(updates)
}

// sizeOf is no less than what an update takes on the wire.
func sizeOf(u *wire.Update) int {
	r := u.Row
	return 64 + len(r.ResourceType) + len(r.ResourceID) + len(r.Relation) + len(r.SubjectType) + len(r.SubjectID) +
		len(r.SubjectRelation) + len(r.Caveat) + len(r.Context)
}

// maxRepeats is how often a write is repeated at once that met another one.
const maxRepeats = 4

// write sends one WriteRelationships and returns its ZedToken. A write that lost
// against another one at the same time changed nothing, and is repeated.
func (a *adapter) write(ctx context.Context, r *pawl.Request, updates []wire.Update, ps []wire.Precondition) (token string, err error) {
	capacity := 64
	for i := range updates {
		capacity += sizeOf(&updates[i])
	}
	frame := wire.AppendWrite(newFrame(capacity), updates, ps)
	secret := slices.ContainsFunc(updates, func(u wire.Update) bool { return u.Op != wire.Delete && len(u.Row.Context) > 0 })
	for repeat := 0; ; repeat++ {
		timeout := r.TimeoutMillis
		if r.Saga != nil {
			if timeout, err = timeLeft(ctx); err != nil {
				return "", err
			}
		}
		err = a.call(ctx, methodWrite, frame, timeout, func(msg []byte) (err error) {
			token, _, err = wire.ReadToken(msg)
			return err
		})
		f, ok := errors.AsType[*failure](err)
		if ok && secret && f.Reason == "" && !f.aboutContext() {
			f.message = "its words are left out, since the request held contexts of caveats" // and what has no reason may repeat them
		}
		if !ok || !f.serialization() || repeat == maxRepeats {
			return token, err
		}
		if err := pawl.Sleep(ctx, 5*time.Millisecond<<repeat); err != nil {
			return "", err
		}
	}
}

// serialization reports whether a write met another one.
func (f *failure) serialization() bool {
	return f.code == codeAborted || f.Reason == "ERROR_REASON_SERIALIZATION_FAILURE" ||
		f.Reason == "ERROR_REASON_INMEMORY_TOO_MANY_CONCURRENT_UPDATES"
}

// Delete removes what the resource put there.
func (a *adapter) Delete(ctx context.Context, r *pawl.Request) error {
	if r.Saga != nil && a.cfg.sagas {
		_, err := a.writeStep(ctx, r)
		return err
	}
	q, err := a.cfg.readRequest(r)
	if err != nil {
		return err
	}
	if n := q.unknownAttempts(); n > 0 {
		return pawl.Rejected(strconv.Itoa(n) + " earlier content(s) of the resource may have reached SpiceDB, unanswered, and what they said is not known any more: " +
			"put the resource again and delete it once it is acknowledged, or remove what is left by hand and forget it")
	}
	for _, s := range q.scopes() {
		for _, f := range s.filters() {
			err := a.call(ctx, methodDelete, wire.AppendDelete(newFrame(256), &f), r.TimeoutMillis, func([]byte) error { return nil })
			if err != nil && !isUnknownSchema(err) {
				return asError(err)
			}
		}
	}
	var updates []wire.Update
	seen := map[string]bool{}
	for _, row := range q.leftovers() {
		if !seen[row.key] {
			seen[row.key] = true
			updates = append(updates, wire.Update{Op: wire.Delete, Row: &row.Row})
		}
	}
	return asError(a.remove(ctx, r, updates))
}

// unknownAttempts counts what was sent of which neither content nor outcome is known.
func (q *request) unknownAttempts() (n int) {
	for i, d := range q.attempts {
		at := &q.Attempted[i]
		acked := q.Acked != nil && string(q.Acked.ContentHash) == string(at.ContentHash)
		if d == nil && !at.HasPayload && len(at.ContentHash) > 0 && !acked {
			n++
		}
	}
	return n
}

// remove deletes rows. Those of which the schema knows nothing any more are gone:
// they are found by halving, since one of them spoils its whole request.
func (a *adapter) remove(ctx context.Context, r *pawl.Request, updates []wire.Update) error {
	for len(updates) > 0 {
		n := a.fitting(updates)
		_, err := a.write(ctx, r, updates[:n], nil)
		switch {
		case err == nil || isUnknownSchema(err) && n == 1:
		case isUnknownSchema(err):
			if err := a.remove(ctx, r, updates[:n/2]); err != nil {
				return err
			}
			if err := a.remove(ctx, r, updates[n/2:n]); err != nil {
				return err
			}
		default:
			return err
		}
		updates = updates[n:]
	}
	return nil
}

func isUnknownSchema(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && f.unknownSchema()
}
