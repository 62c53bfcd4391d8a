package wasmhost_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/engine/wasmhost/abi"
)

func TestGoGuestAnswersACall(t *testing.T) {
	s := open(t, load(t, newHost(t, nil), "null", goGuest(t, "null")), wasmhost.SinkConfig{})
	if r := s.Apply(t.Context(), request("a", "{}")); r.Status != sink.OK {
		t.Errorf("%v: %s", r.Status, r.Message)
	}
	if r := s.Observe(t.Context(), request("a", "{}")); r.Status != sink.OK || r.Observation.MatchDesired != sink.Yes {
		t.Errorf("%+v", r)
	}
	if r := s.Delete(t.Context(), request("a", "")); r.Status != sink.OK {
		t.Errorf("%+v", r)
	}
	if m := s.Manifest(); m.Name != "null" || !m.ApplyConfirms || !m.Observes || !m.Deletes {
		t.Errorf("%+v", m)
	}
}

func TestFiveThousandCallsOfAGoGuestParkInUnder64MiB(t *testing.T) {
	const calls = 5000
	p := load(t, newHost(t, nil), "park", goGuest(t, "park"))
	s := open(t, p, wasmhost.SinkConfig{Limits: wasmhost.Limits{MaxCalls: calls + 1, CallTimeout: time.Hour}})
	ctx, cancel := context.WithCancel(t.Context())
	results := make([]func() sink.Result, calls)
	for i := range results {
		r := request(fmt.Sprint(i), "1h")
		r.IdempotencyKey = strings.Repeat("x", 1024) // in the place of a payload of 1 KiB
		results[i] = s.Start(ctx, abi.OpApply, r)
	}
	// Entries are in order: when this one is answered, the others are parked.
	if r := s.Apply(t.Context(), request("barrier", "0s")); r.Status != sink.OK {
		t.Fatalf("%+v", r)
	}
	st := s.Stats()
	t.Logf("%d calls in flight in %d instance(s) of %.1f MiB", st.InFlight, st.Instances, float64(st.MemoryBytes)/(1<<20))
	if st.Instances != 1 || st.InFlight != calls || st.MemoryBytes > 64<<20 {
		t.Errorf("%+v", st)
	}
	cancel()
	for _, wait := range results {
		if r := wait(); r.Status != sink.Unreachable || !r.NotSent {
			t.Fatalf("%+v", r)
		}
	}
}

func TestAGoGuestsTimersAreServedByPolls(t *testing.T) {
	s := open(t, load(t, newHost(t, nil), "park", goGuest(t, "park")), wasmhost.SinkConfig{})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if r := s.Apply(t.Context(), request(fmt.Sprint(i), "guest 5ms")); r.Status != sink.OK {
				t.Errorf("%+v", r)
			}
		})
	}
	wg.Wait()
}

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0: a new one")

func TestHammer(t *testing.T) {
	seed := cmp.Or(*seedFlag, rand.Uint64())
	t.Logf("again with -seed %d", seed)
	p := load(t, newHost(t, nil), "trap", goGuest(t, "trap"))
	s := open(t, p, wasmhost.SinkConfig{Limits: wasmhost.Limits{CallTimeout: 5 * time.Second, IdleTimeout: 5 * time.Millisecond}})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(i)))
			for n := range 20 {
				kind := []string{"ok", "ok", "ok", "ok", "ok", "ok", "ok", "panic", "nil", "exit"}[rnd.IntN(10)]
				r := s.Apply(t.Context(), request(fmt.Sprintf("%s-%d-%d", kind, i, n), "{}"))
				// A bystander was answered, or is told to be run again.
				if kind == "ok" && r.Status != sink.OK && !r.Suspect || kind != "ok" && r.Status != sink.Fault {
					t.Errorf("%s: %+v", kind, r)
				}
			}
		})
	}
	wg.Wait()
	if st := s.Stats(); st.InFlight != 0 || st.Waiting != 0 || st.HeldBytes != 0 {
		t.Errorf("%+v", st)
	}
}

func TestFaultsOfAGoGuest(t *testing.T) {
	p := load(t, newHost(t, nil), "trap", goGuest(t, "trap"))
	for key, kind := range map[string]wasmhost.FaultKind{
		// Go's runtime ends a panic by an unreachable instruction.
		"panic": wasmhost.FaultTrap, "nil": wasmhost.FaultTrap, "goexit": wasmhost.FaultTrap, "grow": wasmhost.FaultTrap,
		"recurse": wasmhost.FaultDepth, "exit": wasmhost.FaultExit, "hang": wasmhost.FaultDeadline,
	} {
		t.Run(key, func(t *testing.T) {
			s := open(t, p, wasmhost.SinkConfig{Limits: wasmhost.Limits{CallTimeout: 500 * time.Millisecond, MemoryBytes: 32 << 20}})
			r := s.Apply(t.Context(), request(key, "{}"))
			if r.Status != sink.Fault || r.Suspect || !r.NotSent {
				t.Errorf("%+v", r)
			}
			if st := s.Stats(); st.Faults[kind] != 1 {
				t.Errorf("%s: %v", r.Message, st.Faults)
			}
			if r := s.Apply(t.Context(), request("fine", "{}")); r.Status != sink.OK {
				t.Errorf("afterwards: %+v", r)
			}
		})
	}
}
