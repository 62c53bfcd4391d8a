package saga

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/api"
)

// The faults S1 to S14 of the model that sagas start from, each on the real servers.
// What the core alone can be asked is in engine/saga/known_test.go; S13 is TestRivals.

// play is one object, and what is done about it through one daemon or several.
type play struct {
	*testing.T
	w      *world
	name   string
	trails []*trail
}

func (w *world) play(t *testing.T, plan func(target string, q *request) verdict) *play {
	t.Helper()
	p := &play{T: t, w: w, name: newName("known")}
	var forget func()
	p.trails, forget = w.watch(p.name, plan)
	t.Cleanup(forget)
	return p
}

// begin prepares what op starts from.
func (p *play) begin(op *operation, refused bool) *play {
	p.Helper()
	must(p.T, op.prepare(p.Context(), p.w, p.name, refused))
	return p
}

// ends runs a saga to its end, and claims its outcome.
func (p *play) ends(d *daemon, req api.SagaRequest, outcome string) api.Saga {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	v, err := d.settle(ctx, req, &told{})
	must(p.T, err)
	if v.Outcome != outcome {
		p.Fatalf("the outcome is %s (%s), want %s", v.Outcome, v.Cause, outcome)
	}
	for _, tr := range p.trails {
		tr.under.Wait()
	}
	return v
}

// holds claims what the servers hold in the end.
func (p *play) holds(rows []string, data map[string]string) {
	p.Helper()
	if err := p.w.holds(p.Context(), p.name, of(p.name, rows), data, "", p.trails); err != nil {
		p.Error(err)
	}
}

// on returns a plan for one request.
func on(a at, v verdict) func(string, *request) verdict {
	return func(target string, q *request) verdict {
		if (at{target, q.kind, q.nth}) == a {
			return v
		}
		return verdict{}
	}
}

// opNamed returns an operation of the matrix.
func opNamed(name string) *operation {
	i := slices.IndexFunc(operations, func(o operation) bool { return o.name == name })
	return &operations[i]
}

var (
	create, update, deletion = opNamed("create"), opNamed("update"), opNamed("delete")
	bothModes                = []string{"pessimistic", "optimistic"}
)

func running(t *testing.T, w *world) *daemon {
	t.Helper()
	d := w.newDaemon(t)
	must(t, d.start(t.Context(), ""))
	return d
}

func TestKnown(t *testing.T) {
	w := open(t)
	d, other := running(t, w), running(t, w)
	group := func(name string, f func(t *testing.T, mode string)) {
		for _, mode := range bothModes {
			t.Run(name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				f(t, mode)
			})
		}
	}

	group("S1 a refusal of the cluster takes the grant back", func(t *testing.T, mode string) {
		p := w.play(t, nil) // 422
		p.ends(d, create.request(mode, p.name, true), api.SagaRolledBack)
		p.holds(nil, nil)

		p = w.play(t, nil).begin(deletion, true) // 403
		p.ends(d, deletion.request(mode, p.name, true), api.SagaRolledBack)
		p.holds(deletion.rows, deletion.before(true))

		p = w.play(t, nil) // 409: another hand was quicker
		theirs := map[string]string{"v": "theirs"}
		plan := on(createObject.write, verdict{before: func() { _ = w.put(context.WithoutCancel(t.Context()), p.name, theirs) }})
		p.trails, _ = w.watch(p.name, plan)
		p.ends(d, create.request(mode, p.name, false), api.SagaRolledBack)
		p.holds(nil, theirs)

		p = w.play(t, on(createObject.write, verdict{status: http.StatusInternalServerError}))
		req := create.request(mode, p.name, false)
		if mode == "optimistic" {
			p.ends(d, req, api.SagaRolledBack)
			p.holds(nil, nil)
		} else {
			p.ends(d, req, api.SagaCommitted) // it is tried again
			p.holds(create.afterRows, create.afterData)
		}
	})

	group("S2 a precondition that does not hold stops it before the cluster is written", func(t *testing.T, mode string) {
		p := w.play(t, nil)
		req := create.request(mode, p.name, false)
		req.Steps[0].Payload = []byte(named(createGrant.refused, p.name))
		p.ends(d, req, api.SagaRolledBack)
		p.holds(nil, nil)
		if n := p.trails[1].count("write"); n > 0 {
			t.Errorf("the cluster was sent %d writes", n)
		}
	})

	group("S3 a grant from before stays", func(t *testing.T, mode string) {
		p := w.play(t, nil)
		must(t, w.grant(t.Context(), of(p.name, []string{anne, carol})...))
		req := create.request(mode, p.name, true)
		req.Steps[0].Verb, req.Steps[0].Payload = "upsert", []byte(named(`{"touch":["namespace:NAME#owner@user:anne"]}`, p.name))
		p.ends(d, req, api.SagaRolledBack)
		p.holds([]string{anne, carol}, nil)
	})

	group("S4 a failed delete grants nothing", func(t *testing.T, mode string) {
		p := w.play(t, nil).begin(deletion, true)
		req := deletion.request(mode, p.name, true)
		req.Steps[0].Key = named("namespace:NAME"+bob, p.name) // who has no such grant
		p.ends(d, req, api.SagaRolledBack)
		p.holds(deletion.rows, deletion.before(true))
	})

	group("S5 a conflict is no success", func(t *testing.T, mode string) {
		var p *play
		p = w.play(t, on(updateObject.write, verdict{before: func() {
			_, _, _ = w.call(context.WithoutCancel(t.Context()), http.MethodPatch, configMaps+"/"+p.name, `{"data":{"v":"9"}}`)
		}})).begin(update, false)
		v := p.ends(d, update.request(mode, p.name, false), api.SagaRolledBack)
		if v.FailedStep != 2 || v.Steps[1].Refusal == nil || v.Steps[1].Refusal.Status != "conflict" {
			t.Errorf("the caller is told of step %d: %+v", v.FailedStep, v.Steps)
		}
		p.holds(update.rows, map[string]string{"v": "9"})
	})

	t.Run("S6 create and delete of one object exclude each other; S3 the loser of a lock takes nothing away", func(t *testing.T) {
		t.Parallel()
		for _, ops := range [][2]*operation{{create, deletion}, {deletion, create}} {
			held, over := make(chan struct{}), make(chan struct{})
			p := w.play(t, on(ops[0].steps[1].write, verdict{before: func() { close(held); <-over }})).begin(ops[0], false)
			req, ended := ops[0].request("pessimistic", p.name, false), make(chan error, 1)
			go func() {
				_, err := d.RunSaga(t.Context(), req)
				ended <- err
			}()
			<-held // the first has its locks, and is half done
			rival := ops[1].request("pessimistic", p.name, false)
			rival.ID = p.name + "-rival"
			p.ends(other, rival, api.SagaRolledBack)
			close(over)
			must(t, <-ended)
			p.ends(d, req, api.SagaCommitted)
			p.holds(ops[0].afterRows, ops[0].afterData)
		}
	})

	t.Run("S7 the lock of a dead process goes when it runs again", func(t *testing.T) {
		t.Parallel()
		mortal := w.newDaemon(t)
		must(t, mortal.start(t.Context(), "after write 1=kill@1"))
		p := w.play(t, nil)
		req := create.request("pessimistic", p.name, false)
		if _, err := mortal.RunSaga(t.Context(), req); err == nil {
			t.Fatal("it did not die")
		}
		rival := deletion.request("pessimistic", p.name, false) // there is only the grant: nothing but the lock is in its way
		rival.ID = p.name + "-rival"
		p.ends(other, rival, api.SagaRolledBack)
		must(t, mortal.start(t.Context(), ""))
		p.ends(mortal, req, api.SagaCommitted)
		p.holds(create.afterRows, create.afterData)
		after := update.request("pessimistic", p.name, false)
		after.ID = p.name + "-after"
		p.ends(other, after, api.SagaCommitted)
	})

	group("S8 an undo in vain does not spin", func(t *testing.T, mode string) {
		const away = 3 * time.Second
		var p *play
		var first time.Time // plan is called for one request of a case after the other
		p = w.play(t, func(target string, q *request) verdict {
			if target != grants || q.kind != "write" || q.nth == 1 {
				return verdict{}
			}
			if first.IsZero() {
				first = time.Now()
			}
			return verdict{refuse: time.Since(first) < away}
		})
		p.ends(d, create.request(mode, p.name, true), api.SagaRolledBack)
		p.holds(nil, nil)
		if n := p.trails[0].count("write"); n < 3 || n > 12 {
			t.Errorf("in %v it was tried %d times", away, n-1)
		}
	})

	group("S9 a look that fails is no end", func(t *testing.T, mode string) {
		p := w.play(t, on(at{objects, "read", 1}, verdict{status: http.StatusInternalServerError}))
		p.ends(d, create.request(mode, p.name, false), api.SagaCommitted)
		p.holds(create.afterRows, create.afterData)

		p = w.play(t, func(target string, q *request) verdict {
			return verdict{refuse: target == objects && q.kind == "read" && q.nth < 8}
		})
		req, limit := create.request(mode, p.name, false), api.Duration(time.Second)
		req.Timeout = &limit
		p.ends(d, req, api.SagaRolledBack)
		p.holds(nil, nil)
	})

	group("S10 a deletion that a finalizer holds was accepted", func(t *testing.T, mode string) {
		p := w.play(t, nil).begin(deletion, false)
		path := configMaps + "/" + p.name
		finalizers := func(list string) {
			status, answer, err := w.call(t.Context(), http.MethodPatch, path, `{"metadata":{"finalizers":`+list+`}}`)
			if err != nil || status != http.StatusOK {
				t.Fatalf("%d %s %v", status, answer, err)
			}
		}
		finalizers(`["example.com/hold"]`)
		p.ends(d, deletion.request(mode, p.name, false), api.SagaCommitted)
		if o, err := w.object(t.Context(), p.name); err != nil || o == nil || o.Metadata.DeletionTimestamp == "" {
			t.Errorf("it is not being deleted: %+v %v", o, err)
		}
		finalizers(`null`)
		p.holds(deletion.afterRows, nil)
	})

	group("S12 creating what is there makes nobody its owner", func(t *testing.T, mode string) {
		p := w.play(t, nil)
		must(t, w.put(t.Context(), p.name, create.afterData)) // equal content proves nothing
		p.ends(d, create.request(mode, p.name, false), api.SagaRolledBack)
		p.holds(nil, create.afterData)
	})

	group("S14 what lands after it was missing is found", func(t *testing.T, mode string) {
		for _, op := range []*operation{create, update, deletion} {
			p := w.play(t, on(op.steps[1].write, verdict{late: lateness})).begin(op, false)
			p.ends(d, op.request(mode, p.name, false), api.SagaCommitted)
			p.holds(op.afterRows, op.afterData)
		}
	})
}

// S11: no key expires under a saga that is tried again, and its id is good afterwards.
func TestKnownS11TheSameIdIsTheSameSaga(t *testing.T) {
	w := open(t)
	d := running(t, w)
	for _, refused := range []bool{false, true} {
		p := w.play(t, nil)
		req, outcome := create.request("pessimistic", p.name, refused), api.SagaCommitted
		rows, data := create.afterRows, create.afterData
		if refused {
			outcome, rows, data = api.SagaRolledBack, nil, nil
		}
		p.ends(d, req, outcome)
		must(t, w.unmarked(t.Context(), p.name))
		writes := p.trails[0].count("write") + p.trails[1].count("write")
		d.kill()
		must(t, d.start(t.Context(), ""))
		p.ends(d, req, outcome)
		if n := p.trails[0].count("write") + p.trails[1].count("write"); n != writes {
			t.Errorf("asked for again it wrote %d times more", n-writes)
		}
		p.holds(rows, data)
		if _, err := d.RunSaga(t.Context(), update.request("pessimistic", p.name, false)); api.CodeOf(err) != api.CodeSagaMismatch {
			t.Errorf("other content under the same id: %v", err)
		}
	}
}
