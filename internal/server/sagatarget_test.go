package server

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/memory"
	"github.com/pawlsync/pawl/engine/saga"
	"github.com/pawlsync/pawl/engine/sink"
)

// target takes part in sagas: it keeps objects and the runs that wrote them.
type target struct {
	mu      sync.Mutex
	objects map[string]string
	marks   map[string]string // run and step, by object; of one that was deleted too

	// fault, where set, is asked before each call: what it returns, if not nil, is
	// the answer, and nothing is done.
	fault func(op string, r *sink.Request) *sink.Result
}

func newTarget() *target { return &target{objects: map[string]string{}, marks: map[string]string{}} }

func (t *target) Manifest() sink.Manifest {
	return sink.Manifest{Name: "memory", Observes: true, Deletes: true, ApplyConfirms: true, ApplyIdempotent: true,
		Marks: true, Locks: true, RestoresApply: true, RestoresDelete: true}
}

func (t *target) Close(context.Context) error { return nil }

// become changes what the target answers.
func (t *target) become(fault func(op string, r *sink.Request) *sink.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fault = fault
}

func (t *target) call(op string, r *sink.Request, do func(name, mark string) sink.Result) sink.Result {
	mark := ""
	if r.Run != nil {
		mark = fmt.Sprintf("%s-%d", r.Run.ID, r.Run.Step)
	}
	t.mu.Lock()
	fault := t.fault
	t.mu.Unlock()
	if fault != nil {
		if res := fault(op, r); res != nil {
			return *res
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return do(r.Key.Name, mark)
}

func (t *target) Observe(_ context.Context, r *sink.Request) sink.Result {
	return t.call("observe", r, func(name, mark string) sink.Result {
		content, ok := t.objects[name]
		o := &sink.Observation{Exists: ok, CID: content, Content: []byte(content),
			MatchDesired: sink.TriOf(content == string(r.Payload)), Ours: sink.TriOf(mark != "" && t.marks[name] == mark)}
		if !ok {
			return sink.Result{Status: sink.NotFound, Observation: o}
		}
		return sink.Result{Status: sink.OK, Observation: o}
	})
}

func (t *target) Apply(_ context.Context, r *sink.Request) sink.Result {
	return t.call("apply", r, func(name, mark string) sink.Result {
		if _, ok := t.objects[name]; ok && r.Mode == sink.CreateOnly {
			return sink.Result{Status: sink.AlreadyExists, Message: "there is one"}
		}
		t.objects[name], t.marks[name] = string(r.Payload), mark
		return sink.Result{Status: sink.OK}
	})
}

func (t *target) Delete(_ context.Context, r *sink.Request) sink.Result {
	return t.call("delete", r, func(name, mark string) sink.Result {
		delete(t.objects, name)
		t.marks[name] = mark
		return sink.Result{Status: sink.OK}
	})
}

func (t *target) Restore(_ context.Context, r *sink.Request) sink.Result {
	return t.call("restore", r, func(name, mark string) sink.Result {
		if t.marks[name] != mark {
			return sink.Result{Status: sink.Conflict, Message: "changed since"}
		}
		delete(t.objects, name)
		if b := r.Run.Before; b.Exists {
			t.objects[name] = string(b.Content)
		}
		delete(t.marks, name)
		return sink.Result{Status: sink.OK}
	})
}

func (t *target) Unlock(_ context.Context, r *sink.Request) sink.Result {
	return t.call("unlock", r, func(string, string) sink.Result { return sink.Result{Status: sink.OK} })
}

func (t *target) names() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.objects))
}

func (t *target) content(name string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.objects[name]
}

// refuses answers every write so.
func refuses(status sink.Status, message string) func(string, *sink.Request) *sink.Result {
	return func(op string, _ *sink.Request) *sink.Result {
		if op != "apply" && op != "delete" {
			return nil
		}
		return &sink.Result{Status: status, Message: message, NotSent: !status.Answered()}
	}
}

// sagas is an API over a real engine with two targets that take part in sagas.
type sagas struct {
	permissions, cluster *target
	url                  string
	server               *Server
	manager              *saga.Manager
}

func startSagas(t *testing.T, o Options) *sagas {
	t.Helper()
	s := &sagas{permissions: newTarget(), cluster: newTarget(), manager: saga.New(saga.Options{RetryBase: time.Millisecond, RetryMax: 5 * time.Millisecond})}
	e, err := engine.Open(t.Context(), engine.Options{
		Store: func(obs outbox.Observer) (outbox.Store, error) {
			return memory.Open(memory.NewDisk(), memory.Options{Observer: obs})
		},
		Prepare: s.manager.Prepare,
		Sinks: []engine.SinkOptions{
			{Name: "permissions", Sink: s.permissions, DriftInterval: -1, RetryBase: time.Millisecond},
			{Name: "cluster", Sink: s.cluster, DriftInterval: -1, RetryBase: time.Millisecond},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.manager.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	o.Engine, o.Sagas = e, s.manager
	server, _, hs := start(t, o)
	s.url, s.server = hs.URL, server
	return s
}
