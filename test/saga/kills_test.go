package saga

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
)

// many is n where all is played, else few.
func many(n, few int) int {
	if *wholeFlag {
		return n
	}
	return few
}

// load is what callers do in one round: each a saga on an object of its own, or on one
// that others want too.
type load struct {
	*play
	op      *operation
	mode    string
	refused bool
	user    string // of a hot object: who would own it
	outcome string
}

// hotCreate and hotDelete fight for one object: whoever owns the object's grant is the
// one that the object says. The mode that takes locks is theirs.
var (
	hotCreate = &operation{steps: []step{
		{sink: grants, verb: "create", key: "owner/NAME", payload: `{"relationships":["namespace:NAME#owner@user:USER"]}`},
		{sink: objects, verb: "create", key: mapKey, payload: manifest(`{"owner":"USER"}`)}}}
	hotDelete = &operation{steps: []step{deleteGrant("namespace:NAME"), deleteObject}}
)

func (l *load) request(id string) api.SagaRequest {
	req := l.op.request(l.mode, l.name, l.refused)
	req.ID = id
	for i := range req.Steps {
		if l.user != "" {
			req.Steps[i].After = "forget"
			if p := req.Steps[i].Payload; p != nil {
				req.Steps[i].Payload = []byte(strings.ReplaceAll(string(p), "USER", l.user))
			}
		}
	}
	return req
}

// owned claims that an object and the grant of its owner are both there, or neither.
func (p *play) owned() {
	p.Helper()
	rows, err := p.w.rows(p.Context(), "namespace:"+p.name)
	must(p.T, err)
	o, err := p.w.object(p.Context(), p.name)
	must(p.T, err)
	var want []string
	if o != nil {
		want = []string{"namespace:" + p.name + "#owner@user:" + o.Data["owner"]}
	}
	if !slices.Equal(rows, want) {
		p.Errorf("%s: SpiceDB holds %q; the object: %+v", p.name, rows, o)
	}
}

// ownLoad is a saga on an object of its own.
func (w *world) ownLoad(t *testing.T, rnd *rand.Rand) *load {
	t.Helper()
	l := &load{play: w.play(t, nil), mode: bothModes[rnd.IntN(2)], op: &operations[rnd.IntN(5)], refused: rnd.IntN(3) == 0}
	l.begin(l.op, l.refused)
	return l
}

// judge claims that the servers hold what the caller was told.
func (l *load) judge() {
	l.Helper()
	switch {
	case l.user != "":
		l.owned()
	case l.outcome == api.SagaCommitted && !l.refused:
		l.holds(l.op.afterRows, l.op.afterData)
	case l.outcome == api.SagaRolledBack && (l.refused || l.mode == "optimistic"):
		l.holds(l.op.rows, l.op.before(l.refused))
	default:
		l.Errorf("%s %s, refused: %v: the outcome is %q", l.mode, l.op.name, l.refused, l.outcome)
	}
}

// A daemon is killed at any moment while many sagas run, over and over.
func TestKills(t *testing.T) {
	w, rnd := open(t), random(t)
	d := running(t, w)
	hot := []*play{w.play(t, nil), w.play(t, nil)}
	for round := range many(100, 5) {
		var loads []*load
		for i := range 12 {
			if i < 4 {
				loads = append(loads, &load{play: hot[i%2], mode: "pessimistic", op: []*operation{hotCreate, hotDelete}[rnd.IntN(2)], user: fmt.Sprintf("u%d-%d", round, i)})
			} else {
				loads = append(loads, w.ownLoad(t, rnd))
			}
		}
		rnd.Shuffle(len(loads), func(i, j int) { loads[i], loads[j] = loads[j], loads[i] })
		killRound(t, d, rnd, round, loads)
		for _, l := range loads {
			l.judge()
		}
		if held, err := w.rows(t.Context(), "lock"); err != nil || len(held) > 0 {
			t.Errorf("there are locks or marks: %q %v", held, err)
		}
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
}

// killRound begins all sagas, kills the daemon after a random time, runs it again, and
// asks for each until it has ended. Who finds a hot object taken is refused, and gains
// nothing.
func killRound(t *testing.T, d *daemon, rnd *rand.Rand, round int, loads []*load) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var wg sync.WaitGroup
	again := make(chan struct{})
	for i, l := range loads {
		pause := time.Duration(rnd.IntN(300)) * time.Millisecond
		wg.Go(func() {
			req, answers := l.request(fmt.Sprintf("kill-%d-%d", round, i)), told{}
			time.Sleep(pause) // a load, not a volley
			v, err := d.RunSaga(ctx, req)
			if err == nil {
				err = answers.hear(v)
			}
			<-again
			if err == nil || errors.Is(err, client.ErrUnreachable) {
				v, err = d.settle(ctx, req, &answers)
			}
			switch l.outcome = v.Outcome; {
			case err != nil && l.user != "" && (api.CodeOf(err) == api.CodeHeld || api.CodeOf(err) == api.CodeBusy):
			case err != nil:
				t.Errorf("%s: %v", req.ID, err)
			}
		})
	}
	for range 1 + rnd.IntN(2) { // also while it takes up what it left
		time.Sleep(time.Duration(rnd.IntN(800)) * time.Millisecond)
		d.kill()
		if err := d.start(ctx, ""); err != nil {
			t.Errorf("it does not start again: %v", err)
		}
	}
	close(again)
	wg.Wait()
}

// The API server itself is killed while sagas run, and comes back with what etcd has.
func TestTheClusterDies(t *testing.T) {
	w, rnd := open(t), random(t)
	d := running(t, w)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for range many(5, 1) {
		var loads []*load
		var wg sync.WaitGroup
		for range 24 {
			l := w.ownLoad(t, rnd)
			pause := time.Duration(rnd.IntN(600)) * time.Millisecond
			loads = append(loads, l)
			wg.Go(func() {
				time.Sleep(pause)
				req, limit := l.request(l.name), api.Duration(2*time.Minute) // the server takes its time to start
				req.Timeout = &limit
				v, err := d.settle(ctx, req, &told{})
				if l.outcome = v.Outcome; err != nil {
					t.Errorf("%s: %v", l.name, err)
				}
			})
		}
		time.Sleep(time.Duration(rnd.IntN(600)) * time.Millisecond)
		w.kube.KillAPI()
		must(t, w.kube.StartAPI(ctx))
		wg.Wait()
		for _, l := range loads {
			l.judge()
		}
		if held, err := w.rows(t.Context(), "lock"); err != nil || len(held) > 0 {
			t.Errorf("there are locks or marks: %q %v", held, err)
		}
	}
}
