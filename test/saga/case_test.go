package saga

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
)

// The faults.
const (
	killed     = "killed"             // SIGKILL
	twice      = "killed twice"       // and again where the next process comes by the same failpoint
	killedLate = "killed, then late"  // SIGKILL, and the request lands when the daemon runs again
	lost       = "answer lost"        // the request landed
	late       = "late"               // the stream is reset, and the request lands shortly before its deadline
	down       = "down for a while"   // the target, from this request on
	away       = "down past deadline" // the saga's
)

// How long they last.
const (
	lateness    = callTimeout * 3 / 4
	downtime    = 1500 * time.Millisecond
	longTimeout = 30 * time.Second // of a saga that has time enough
	timeout     = 3 * time.Second  // of one whose target is away past it
	patience    = 90 * time.Second // ends what hangs
)

// trial is one case: what is done, and what goes wrong where.
type trial struct {
	mode    string
	op      *operation
	refused bool   // its last step is, by the target
	point   string // for people, and a failpoint where at is zero
	at      at     // the request that the fault befalls
	fault   string
}

func (c *trial) String() string {
	undo := ""
	if c.refused {
		undo = " refused"
	}
	return fmt.Sprintf("%s %s%s, %s %s", c.mode, c.op.name, undo, c.point, c.fault)
}

// kills reports whether the case needs a daemon of its own.
func (c *trial) kills() bool { return c.fault == killed || c.fault == twice || c.fault == killedLate }

var (
	named_    atomic.Int64 // objects so far
	errPoint  = errors.New("the point was never reached")
	errBroken = errors.New("the promise is broken")
)

func newName(kind string) string { return fmt.Sprintf("case-%s-%d", kind, named_.Add(1)) }

// watch tells both gates of an object.
func (w *world) watch(name string, plan func(target string, q *request) verdict) (trails []*trail, forget func()) {
	for _, g := range []*gate{w.grants, w.objects} {
		trails = append(trails, g.watch(name, func(q *request) verdict {
			if plan == nil {
				return verdict{}
			}
			return plan(g.target, q)
		}))
	}
	return trails, func() { w.grants.forget(name); w.objects.forget(name) }
}

// plan is what the gates do in a case; reached tells that it came to that.
func (c *trial) plan(d *daemon, reached *atomic.Bool) func(string, *request) verdict {
	var until atomic.Pointer[time.Time]
	return func(target string, q *request) (v verdict) {
		if begun := until.Load(); begun != nil && target == c.at.target {
			return verdict{refuse: time.Now().Before(*begun)}
		}
		if (at{target, q.kind, q.nth}) != c.at || reached.Swap(true) {
			return v
		}
		switch c.fault {
		case killed:
			v.after = d.kill
		case killedLate:
			v.before, v.late = d.kill, lateness
		case lost:
			v.lose = true
		case late:
			v.late = lateness
		case down, away:
			end := time.Now().Add(downtime)
			if c.fault == away {
				end = time.Now().Add(timeout + time.Second)
			}
			until.Store(&end)
			v.refuse = true
		}
		return v
	}
}

// run plays the case against d, which runs already unless the point is a failpoint,
// and returns the outcome.
func (c *trial) run(ctx context.Context, d *daemon) (outcome string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	name, reached := newName("matrix"), atomic.Bool{}
	trails, forget := d.w.watch(name, c.plan(d, &reached))
	defer forget()
	if err := c.op.prepare(ctx, d.w, name, c.refused); err != nil {
		return "", err
	}
	uid := ""
	if o, err := d.w.object(ctx, name); err != nil {
		return "", err
	} else if o != nil {
		uid = o.Metadata.UID
	}
	if c.at == (at{}) {
		if err := d.start(ctx, c.point+"=kill@1"); err != nil {
			return "", err
		}
	}
	req := c.op.request(c.mode, name, c.refused)
	limit := api.Duration(longTimeout)
	if c.fault == away {
		limit = api.Duration(timeout)
	}
	req.Timeout = &limit
	var t told
	v, err := d.RunSaga(ctx, req)
	if err == nil {
		err = t.hear(v)
	}
	if c.kills() {
		if err := c.bury(ctx, d, req, &t, err); err != nil {
			return "", err
		}
		reached.Store(true)
	}
	if v, err = d.settle(ctx, req, &t); err != nil {
		return "", err
	}
	if !reached.Load() {
		return "", errPoint
	}
	for _, tr := range trails {
		tr.under.Wait() // whatever is still on its way has arrived
	}
	if err := c.judge(ctx, d.w, name, uid, v.Outcome, trails); err != nil {
		return "", err
	}
	return v.Outcome, d.keeps(ctx, req, v.Outcome)
}

// keeps checks that what a committed saga wrote is an ordinary resource from then on,
// and that Pawl knows nothing of what it deleted, or did not write after all.
func (d *daemon) keeps(ctx context.Context, req api.SagaRequest, outcome string) error {
	for _, s := range req.Steps {
		key, want := record.Key{Sink: s.Sink, Name: s.Key}, outcome == api.SagaCommitted && s.Verb != "delete"
		var phase record.Phase
		err := poll(ctx, func() (bool, error) {
			r, err := d.Get(ctx, key, client.GetOptions{})
			if api.CodeOf(err) == api.CodeNotFound {
				err = nil
			}
			phase = r.Status.Phase
			return !want || phase == record.AckedPhase, err
		})
		if err != nil || (phase != "") != want {
			return fmt.Errorf("%w: resource %s is %q, acked is to be %v: %v", errBroken, key, phase, want, err)
		}
	}
	return nil
}

// bury waits for the death of the daemon that the case is about, and runs it again.
func (c *trial) bury(ctx context.Context, d *daemon, req api.SagaRequest, t *told, err error) error {
	if err != nil && !errors.Is(err, client.ErrUnreachable) {
		return err
	}
	select { // after the outcome was told it may still be at its release
	case <-d.running.Load().died:
	case <-time.After(10 * time.Second):
		return errPoint
	}
	if c.fault == twice {
		if err = d.start(ctx, c.point+"=kill@1"); err == nil {
			_, err = d.settle(ctx, req, t)
		}
		if err == nil && !d.isDead() {
			return nil // it never came by that point again
		}
		if err != nil && !errors.Is(err, client.ErrUnreachable) && !errors.Is(err, errStart) {
			return err
		}
		<-d.running.Load().died
	}
	return d.start(ctx, "")
}

// settle asks for the saga, with the same id and content, until it has ended.
func (d *daemon) settle(ctx context.Context, req api.SagaRequest, t *told) (v api.Saga, err error) {
	err = poll(ctx, func() (bool, error) {
		if v, err = d.RunSaga(ctx, req); err != nil {
			return false, err
		}
		if v.Stuck != "" {
			return false, fmt.Errorf("%w: it is stuck: %s", errBroken, v.Stuck)
		}
		return v.Phase == api.SagaEnded, t.hear(v)
	})
	if err != nil {
		if x, e := d.ExplainSaga(context.WithoutCancel(ctx), req.ID); e == nil {
			err = fmt.Errorf("%w; %s", err, x.Text)
		}
	}
	return v, err
}

// judge compares what the servers hold with what the caller was told.
func (c *trial) judge(ctx context.Context, w *world, name, uid, outcome string, trails []*trail) error {
	rows, data := c.op.afterRows, c.op.afterData
	if outcome == api.SagaRolledBack {
		rows, data = c.op.rows, c.op.before(c.refused)
	}
	wants := outcome
	switch {
	case c.refused:
		wants = api.SagaRolledBack
	case c.mode == "pessimistic" && c.fault != away:
		wants = api.SagaCommitted
	}
	if outcome != wants {
		return fmt.Errorf("%w: the outcome is %q, want %q", errBroken, outcome, wants)
	}
	if outcome == api.SagaCommitted || data == nil {
		uid = "" // also that of one which was created
	}
	if outcome == api.SagaRolledBack || !c.kills() { // else a later apply takes it away
		if err := w.unmarked(ctx, name); err != nil {
			return err
		}
	}
	return w.holds(ctx, name, of(name, rows), data, uid, trails)
}

// holds checks that the servers hold this of an object, and nothing of a saga. uid is
// the object's; "": whichever.
func (w *world) holds(ctx context.Context, name string, rows []string, data map[string]string, uid string, trails []*trail) error {
	slices.Sort(rows)
	got, err := w.rows(ctx, "namespace:"+name)
	if err != nil {
		return err
	}
	if !slices.Equal(got, rows) {
		return fmt.Errorf("%w: SpiceDB holds %q, want %q", errBroken, got, rows)
	}
	o, err := w.object(ctx, name)
	switch {
	case err != nil:
		return err
	case (o != nil) != (data != nil):
		return fmt.Errorf("%w: an object is there: %v, want %v; SpiceDB holds %q", errBroken, o != nil, data != nil, got)
	case o != nil && !maps.Equal(o.Data, data):
		return fmt.Errorf("%w: the object holds %v, want %v", errBroken, o.Data, data)
	case o != nil && uid != "" && o.Metadata.UID != uid:
		return fmt.Errorf("%w: it is another object", errBroken)
	}
	return w.unlocked(ctx, trails)
}

// unmarked waits until the object has no mark: the ordinary apply that follows a
// saga takes it away.
func (w *world) unmarked(ctx context.Context, name string) error {
	err := poll(ctx, func() (bool, error) {
		o, err := w.object(ctx, name)
		return err == nil && (o == nil || o.Metadata.Annotations["pawl.dev/saga"] == ""), err
	})
	if err != nil {
		return fmt.Errorf("%w: the mark stays: %w", errBroken, err)
	}
	return nil
}

// unlocked checks that no run that the gates saw holds anything.
func (w *world) unlocked(ctx context.Context, trails []*trail) error {
	held, err := w.rows(ctx, "lock")
	if err != nil {
		return err
	}
	for _, t := range trails {
		for _, run := range t.runs {
			for _, r := range held {
				if strings.Contains(r, run) {
					return fmt.Errorf("%w: it ended, and %s is left", errBroken, r)
				}
			}
		}
	}
	return nil
}
