package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox/badger"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/saga"
	"github.com/pawlsync/pawl/engine/sink"
)

// participant is null that takes part in sagas: whatever is asked for is there.
type participant struct {
	null
	target string
}

func (p *participant) Manifest() sink.Manifest {
	return sink.Manifest{Name: "null", Target: p.target, Observes: true, Deletes: true, ApplyConfirms: true, ApplyIdempotent: true,
		Marks: true, Locks: true, RestoresApply: true, RestoresDelete: true}
}

func (*participant) Observe(_ context.Context, r *sink.Request) sink.Result {
	if r.Run != nil && r.Run.Before != nil {
		return sink.Result{Status: sink.OK, Observation: &sink.Observation{Exists: true, Ours: sink.Yes, MatchDesired: sink.Yes}}
	}
	return sink.Result{Status: sink.NotFound}
}

func (*participant) Restore(context.Context, *sink.Request) sink.Result {
	return sink.Result{Status: sink.OK}
}

func (*participant) Unlock(context.Context, *sink.Request) sink.Result {
	return sink.Result{Status: sink.OK}
}

// sagas is an engine over two participants, and its sagas.
type sagas struct {
	*saga.Manager
	engine *engine.Engine
}

func openSagas(ctx context.Context, dir string, o saga.Options) (*sagas, error) {
	m := saga.New(o)
	opts := engine.Options{Store: badger.Opener(badger.Options{Dir: dir}), Prepare: m.Prepare}
	for _, name := range []string{"one", "two"} {
		opts.Sinks = append(opts.Sinks, engine.SinkOptions{Name: name, Sink: &participant{target: name}, DriftInterval: -1, MaxInFlight: 1024})
	}
	e, err := engine.Open(ctx, opts)
	return &sagas{m, e}, err
}

func (s *sagas) close(ctx context.Context) error {
	return errors.Join(s.Manager.Close(ctx), s.engine.Close(ctx))
}

func twoSteps(n int) saga.Spec {
	name := fmt.Sprintf("object-%08d", n)
	return saga.Spec{ID: fmt.Sprintf("saga-%08d", n), Mode: saga.Pessimistic, Timeout: time.Minute, Steps: []saga.Step{
		{Key: record.Key{Sink: "one", Name: name}, Verb: saga.Create, Payload: []byte("a small payload"), After: saga.Forget},
		{Key: record.Key{Sink: "two", Name: name}, Verb: saga.Create, Payload: []byte("a small payload"), After: saga.Forget},
	}}
}

// benchSaga runs two-step sagas beside the same as workflows on SQLite, both with
// full sync, in turns.
func benchSaga(r *report) error {
	rounds, during, open := 3, 10*time.Second, 10_000
	if r.short {
		rounds, during, open = 1, 3*time.Second, 1_000
	}
	peer, err := buildPeer(r)
	if err != nil {
		return err
	}
	for _, callers := range []int{1, 16} {
		var commits sample
		round := 0
		rates, err := interleave(rounds,
			func() (float64, error) {
				round++
				rate, n, err := sagaRate(r.ctx, filepath.Join(r.dir, fmt.Sprintf("%d-%d", callers, round)), callers, during)
				commits = append(commits, n)
				return rate, err
			},
			func() (float64, error) { return peer.rate(r, callers, during) })
		if err != nil {
			return err
		}
		r.line("%d callers: %v sagas a second, and %v as workflows", callers, rates[0], rates[1])
		r.atLeast(fmt.Sprintf("sagas ÷ workflows, %d callers", callers), rates[0].over(rates[1]).median(), 5, "")
		if callers == 16 {
			r.under("flushes to disk a saga, 16 callers", commits.median(), 1, "")
		}
	}
	return sagaRecovery(r, open)
}

// sagaRate returns how many sagas a second so many callers ran, and how many
// commits each took.
func sagaRate(ctx context.Context, dir string, callers int, during time.Duration) (rate, commits float64, err error) {
	s, err := openSagas(ctx, dir, saga.Options{})
	if err != nil {
		return 0, 0, err
	}
	before := s.engine.Stats().Store.Commits
	rate, n, err := load(callers, during, func(n int) error {
		v, err := s.Run(ctx, twoSteps(n))
		if err == nil && v.State.Outcome != saga.Committed {
			err = fmt.Errorf("saga %s: %s %s", v.Spec.ID, v.State.Outcome, v.State.Cause)
		}
		return err
	})
	commits = float64(s.engine.Stats().Store.Commits-before) / float64(max(n, 1))
	return rate, commits, errors.Join(err, s.close(ctx))
}

// sagaRecovery leaves sagas open, as a killed process does, and takes them up.
func sagaRecovery(r *report, n int) error {
	dir := filepath.Join(r.dir, "recovery")
	died := errors.New("the process dies here")
	s, err := openSagas(r.ctx, dir, saga.Options{Failpoint: func(point string) error {
		if point == "after-journal write 1" {
			return died
		}
		return nil
	}})
	if err != nil {
		return err
	}
	for i := range n {
		if _, err := s.Start(r.ctx, twoSteps(i)); err != nil {
			return err
		}
	}
	if err := s.close(r.ctx); err != nil {
		return err
	}
	began := time.Now()
	if s, err = openSagas(r.ctx, dir, saga.Options{}); err != nil {
		return err
	}
	opened := time.Since(began)
	for i := range n {
		v, err := s.Wait(r.ctx, twoSteps(i).ID)
		if err != nil || v.State.Outcome != saga.Committed {
			return fmt.Errorf("saga %d: %+v, %w", i, v.State, err)
		}
	}
	r.line("%d open sagas: started after %v, all ended after %v", n, opened.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	r.under("start with open sagas, all of them held", opened.Seconds(), 5, " s")
	return s.close(r.ctx)
}

// workflows is the peer's program.
type workflows string

// buildPeer builds the peer, which is a module of its own.
func buildPeer(r *report) (workflows, error) {
	bin := filepath.Join(r.dir, "workflows")
	cmd := exec.CommandContext(r.ctx, "go", "build", "-o", bin, "./workflows")
	cmd.Dir = "peers"
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the peer, which is to be done in the folder bench: %w\n%s", err, out)
	}
	return workflows(bin), nil
}

// rate runs the peer over a fresh database.
func (w workflows) rate(r *report, callers int, during time.Duration) (float64, error) {
	dir, err := os.MkdirTemp(r.dir, "peer-")
	if err != nil {
		return 0, err
	}
	out, err := exec.CommandContext(r.ctx, string(w), "-dir", dir, "-callers", strconv.Itoa(callers), "-for", during.String()).Output()
	if err != nil {
		return 0, fmt.Errorf("the peer: %w", err)
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}
