package engine_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/memory"
	"github.com/pawlsync/pawl/engine/record"
)

var seed = flag.Uint64("seed", 0, "of the tests with randomness; 0: a new one")

// chooser returns a random source whose seed is printed.
func chooser(t *testing.T) *rand.Rand {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("again with -seed %d", s)
	return rand.New(rand.NewPCG(s, 7))
}

// Sinks come, change and go at random while callers put: whatever was accepted is
// applied once in the end, no sink is called after its end, and none twice at a time for
// one resource.
func TestR12_SinksThatComeAndGoUnderLoadLoseAndRepeatNothing(t *testing.T) {
	const names, keys, steps = 4, 40, 300
	random := chooser(t)
	shop := &rota{targets: map[string]*fakeTarget{}, there: map[string]bool{}}
	disk := memory.NewDisk()
	e, err := engine.Open(t.Context(), engine.Options{
		Store: func(o outbox.Observer) (outbox.Store, error) { return memory.Open(disk, memory.Options{Observer: o}) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	for i := range names {
		target := newTarget()
		target.latency = time.Millisecond
		shop.targets[fmt.Sprint("s", i)] = target
	}
	stop := make(chan struct{})
	var callers sync.WaitGroup
	newest := make([]map[record.Key]uint64, names)
	for i := range names {
		newest[i] = map[record.Key]uint64{}
		callers.Go(func() { keepPutting(t, e, fmt.Sprint("s", i), keys, stop, newest[i]) })
	}
	for range steps {
		shop.step(t, e, random, fmt.Sprint("s", random.IntN(names)))
	}
	close(stop)
	callers.Wait()
	for name := range shop.targets {
		if !shop.there[name] {
			shop.add(t, e, random, name)
		}
	}
	for _, mine := range newest {
		for key, generation := range mine {
			if res, err := e.Wait(t.Context(), key, generation); err != nil || !res.Done {
				t.Fatalf("%s: %+v, %v", key, res, err)
			}
		}
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, done := range shop.retiring {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	shop.judge(t)
}

// keepPutting puts keys of one sink until stop, whether it is there or not, and notes
// the generations that were accepted.
func keepPutting(t *testing.T, e *engine.Engine, sinkName string, keys int, stop <-chan struct{}, newest map[record.Key]uint64) {
	for n := 0; ; n++ {
		for k := range keys {
			select {
			case <-stop:
				return
			default:
			}
			key := record.Key{Sink: sinkName, Name: fmt.Sprint("k", k)}
			res, err := e.Put(t.Context(), engine.Put{Key: key, Payload: fmt.Appendf(nil, `%d`, n)})
			switch {
			case errors.Is(err, engine.ErrUnknownSink):
			case err != nil:
				t.Error(err)
				return
			default:
				newest[key] = res.Generation
			}
		}
	}
}

// rota knows which sinks are there and which ever were.
type rota struct {
	targets  map[string]*fakeTarget
	there    map[string]bool
	versions []*version
	retiring []<-chan error
}

func (r *rota) step(t *testing.T, e *engine.Engine, random *rand.Rand, name string) {
	t.Helper()
	var retired <-chan error
	var err error
	switch what := random.IntN(4); {
	case !r.there[name]:
		r.add(t, e, random, name)
		return
	case what == 0:
		r.there[name] = false
		retired, err = e.RemoveSink(name)
	case what == 1:
		retired, err = e.ReplaceSink(name, r.next(name))
	case what == 2:
		retired, err = e.ChangeSink(r.options(random, name))
	default:
		o := r.options(random, name)
		o.Sink = r.next(name)
		retired, err = e.ChangeSink(o)
	}
	if err != nil {
		t.Fatal(err)
	}
	if random.IntN(2) == 0 {
		if err := <-retired; err != nil {
			t.Fatal(err)
		}
		return
	}
	r.retiring = append(r.retiring, retired)
}

func (r *rota) add(t *testing.T, e *engine.Engine, random *rand.Rand, name string) {
	t.Helper()
	o := r.options(random, name)
	o.Sink = r.next(name)
	if err := e.AddSink(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	r.there[name] = true
}

func (r *rota) options(random *rand.Rand, name string) engine.SinkOptions {
	return engine.SinkOptions{Name: name, MaxInFlight: 1 + random.IntN(20), DriftInterval: time.Duration(1+random.IntN(3)) * time.Hour, SkipStartupCheck: true}
}

func (r *rota) next(name string) *version {
	v := next(r.targets[name], nil)
	r.versions = append(r.versions, v)
	return v
}

// judge says what went wrong, when all is over.
func (r *rota) judge(t *testing.T) {
	t.Helper()
	for i, v := range r.versions {
		if v.closed.Load() != 1 || v.late.Load() != 0 {
			t.Errorf("version %d: closed %d times, %d calls after that", i, v.closed.Load(), v.late.Load())
		}
	}
	for name, target := range r.targets {
		applied := map[string]int{}
		for _, c := range target.calls {
			if c.op == "apply" {
				applied[fmt.Sprint(c.key, "/", c.generation)]++
			}
		}
		for g, n := range applied {
			if n != 1 {
				t.Errorf("%s: %s was applied %d times", name, g, n)
			}
		}
		if len(target.overlap) > 0 {
			t.Errorf("%s: two calls at once about %v", name, target.overlap)
		}
	}
}
