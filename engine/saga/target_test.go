package saga_test

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/pawlsync/pawl/engine/sink"
)

// target is a server that takes part in sagas, in memory. Its faults are those
// that a real one can't be made to have at a given instant.
type target struct {
	name string

	mu      sync.Mutex
	objects map[string]object
	locks   map[string]string // lock → run
	next    int
	writes  int

	// fault, where set, is asked before each call: what it returns, if not nil, is
	// the answer, and the call is carried out first if do is true.
	fault func(op string, r *sink.Request) (do bool, res *sink.Result)
}

type object struct {
	content string
	uid     string
	cid     string
	mark    string
}

func newTarget(name string) *target {
	return &target{name: name, objects: map[string]object{}, locks: map[string]string{}}
}

func (t *target) Manifest() sink.Manifest {
	return sink.Manifest{Name: "memory", Target: t.name, Observes: true, Deletes: true, ApplyConfirms: true, ApplyIdempotent: true,
		ReportsUID: true, Marks: true, Locks: true, RestoresApply: true, RestoresDelete: true}
}

func (t *target) Close(context.Context) error { return nil }

func mark(r *sink.Run) string { return fmt.Sprintf("%s/%d", r.ID, r.Step) }

func (t *target) call(op string, r *sink.Request, do func() sink.Result) sink.Result {
	var faulted *sink.Result
	carryOut := true
	if t.fault != nil {
		carryOut, faulted = t.fault(op, r)
	}
	if faulted != nil && !carryOut {
		return *faulted
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	res := do()
	if faulted != nil {
		return *faulted
	}
	return res
}

func (t *target) seen(r *sink.Request) sink.Result {
	o, ok := t.objects[r.Key.Name]
	obs := &sink.Observation{Exists: ok, UID: o.uid, CID: o.cid, Content: []byte(o.content), MatchDesired: sink.TriOf(ok && o.content == string(r.Payload))}
	if r.Run != nil {
		obs.Ours = sink.TriOf(ok && o.mark == mark(r.Run) || t.locks["done/"+mark(r.Run)] != "")
	}
	if !ok {
		return sink.Result{Status: sink.NotFound, Observation: obs}
	}
	return sink.Result{Status: sink.OK, Observation: obs}
}

func (t *target) Observe(_ context.Context, r *sink.Request) sink.Result {
	return t.call("observe", r, func() sink.Result { return t.seen(r) })
}

// admit checks locks and image, and takes the locks.
func (t *target) admit(r *sink.Request) *sink.Result {
	if r.Run == nil {
		return nil
	}
	for _, l := range r.Run.Locks {
		if owner := t.locks[l]; owner != "" && owner != r.Run.ID || r.Run.Held && owner == "" {
			return &sink.Result{Status: sink.Conflict, Message: "locked by " + owner}
		}
	}
	o, ok := t.objects[r.Key.Name]
	if ok && r.Mode == sink.CreateOnly {
		return &sink.Result{Status: sink.AlreadyExists, Message: "there is one"}
	}
	if b := r.Run.Before; b != nil && (b.Exists != ok || b.CID != o.cid) {
		return &sink.Result{Status: sink.Conflict, Message: "changed meanwhile"}
	}
	for _, l := range r.Run.Locks {
		t.locks[l] = r.Run.ID
	}
	t.locks["done/"+mark(r.Run)] = r.Run.ID
	return nil
}

func (t *target) set(name, content, mark string) {
	t.next++
	o, ok := t.objects[name]
	if !ok {
		o.uid = fmt.Sprint("u", t.next)
	}
	o.content, o.cid, o.mark = content, fmt.Sprint("c", t.next), mark
	t.objects[name] = o
	t.writes++
}

func (t *target) Apply(_ context.Context, r *sink.Request) sink.Result {
	return t.call("apply", r, func() sink.Result {
		if refused := t.admit(r); refused != nil {
			return *refused
		}
		m := ""
		if r.Run != nil {
			m = mark(r.Run)
		} else if o, ok := t.objects[r.Key.Name]; ok && o.content == string(r.Payload) {
			return t.seen(r)
		}
		t.set(r.Key.Name, string(r.Payload), m)
		return t.seen(r)
	})
}

func (t *target) Delete(_ context.Context, r *sink.Request) sink.Result {
	return t.call("delete", r, func() sink.Result {
		if refused := t.admit(r); refused != nil {
			return *refused
		}
		delete(t.objects, r.Key.Name)
		t.writes++
		return sink.Result{Status: sink.OK}
	})
}

func (t *target) Restore(_ context.Context, r *sink.Request) sink.Result {
	return t.call("restore", r, func() sink.Result {
		o, ok := t.objects[r.Key.Name]
		b := r.Run.Before
		wrote := len(r.Payload) > 0
		switch {
		case ok == b.Exists && o.content == string(b.Content) && o.mark != mark(r.Run):
			return sink.Result{Status: sink.OK} // as it was already
		case wrote && (!ok || o.mark != mark(r.Run)), !wrote && ok:
			return sink.Result{Status: sink.Conflict, Message: "changed since"}
		case b.Exists:
			t.set(r.Key.Name, string(b.Content), "")
		default:
			delete(t.objects, r.Key.Name)
		}
		return sink.Result{Status: sink.OK}
	})
}

func (t *target) Unlock(_ context.Context, r *sink.Request) sink.Result {
	return t.call("unlock", r, func() sink.Result {
		maps.DeleteFunc(t.locks, func(_, run string) bool { return run == r.Run.ID })
		return sink.Result{Status: sink.OK}
	})
}

// content returns what the object called name holds, "" where there is none.
func (t *target) content(name string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.objects[name].content
}

func (t *target) locked() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.locks)
}
