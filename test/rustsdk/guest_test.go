package rustsdk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
)

// apply starts a call and returns how to wait for its result.
func apply(ctx context.Context, s *wasmhost.Sink, r *sink.Request) func() sink.Result {
	done := make(chan sink.Result, 1)
	go func() { done <- s.Apply(ctx, r) }()
	return func() sink.Result { return <-done }
}

func TestAThousandCallsParkInOneInstanceAndGoOnInAnyOrder(t *testing.T) {
	const calls, steps = 1000, 3
	rnd := random(t)
	g := newGate()
	s := open(t, guest(t), g.config(), nil)
	results := make([]func() sink.Result, calls)
	for i := range results {
		results[i] = apply(t.Context(), s, request(fmt.Sprintf("steps-%d", i), fmt.Sprint(steps)))
	}
	waiting := g.take(calls)
	if st := s.Stats(); st.Instances != 1 || st.InFlight != calls {
		t.Errorf("%+v", st)
	}
	for n := calls * steps; n > 0; n-- {
		i := rnd.IntN(len(waiting))
		h := waiting[i]
		waiting[i] = waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		close(h.let)
		if !strings.HasSuffix(h.path, fmt.Sprintf("/%d", steps-1)) {
			waiting = append(waiting, g.take(1)...)
		}
	}
	for i, wait := range results {
		want := ""
		for step := range steps {
			want += fmt.Sprintf("/steps-%d/%d;", i, step)
		}
		if r := wait(); r.Status != sink.OK || r.Observation.Ref != want {
			t.Fatalf("%d: %+v", i, r)
		}
	}
}

func TestTenThousandCallsParkInUnder32MiB(t *testing.T) {
	const calls = 10_000
	g := newGate()
	c := g.config()
	c.Limits = wasmhost.Limits{MaxCalls: calls, CallTimeout: time.Hour}
	s := open(t, guest(t), c, nil)
	ctx, cancel := context.WithCancel(t.Context())
	results := make([]func() sink.Result, calls)
	payload := "1" + strings.Repeat(" ", 1023)
	for i := range results {
		results[i] = apply(ctx, s, request(fmt.Sprintf("steps-%d", i), payload))
	}
	g.take(calls)
	st := s.Stats()
	t.Logf("%d calls in flight in %d instance(s) of %.1f MiB", st.InFlight, st.Instances, float64(st.MemoryBytes)/(1<<20))
	if st.Instances != 1 || st.InFlight != calls || st.MemoryBytes >= 32<<20 {
		t.Errorf("%+v", st)
	}
	cancel()
	for _, wait := range results {
		if r := wait(); r.Status != sink.Unreachable {
			t.Fatalf("%+v", r)
		}
	}
	// What they held is free again: as many calls more need no more memory.
	for range 2 {
		var wg sync.WaitGroup
		for i := range calls {
			wg.Go(func() {
				if r := s.Apply(t.Context(), request(fmt.Sprintf("ok-%d", i), payload)); r.Status != sink.OK {
					t.Errorf("%+v", r)
				}
			})
		}
		wg.Wait()
	}
	if after := s.Stats(); after.MemoryBytes != st.MemoryBytes || after.Instances != 1 {
		t.Errorf("the instance grew from %d to %d bytes", st.MemoryBytes, after.MemoryBytes)
	}
}

func TestIOsOfOneCallAreUnderWayAtOnce(t *testing.T) {
	g := newGate()
	s := open(t, guest(t), g.config(), nil)
	const all, most = 40, 16 // that the host allows to one call
	result := apply(t.Context(), s, request("fan", fmt.Sprint(all)))
	waiting := g.take(most)
	for n := all; n > 0; n-- {
		last := len(waiting) - 1
		close(waiting[last].let)
		if waiting = waiting[:last]; n > most {
			waiting = append(waiting, g.take(1)...)
		}
	}
	want := ""
	for i := range all {
		want += fmt.Sprintf("/fan/%d;", i)
	}
	if r := result(); r.Status != sink.OK || r.Observation.Ref != want {
		t.Errorf("%+v", r)
	}
}

func TestMoreIOsThanTheSinkMayHaveTakeTurns(t *testing.T) {
	const calls = 200
	c := answers(func(_ context.Context, path string) (string, *upstream.Failure) { return path, nil }).config()
	c.Limits.SinkIOs = 3
	s := open(t, guest(t), c, nil)
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			if r := s.Apply(t.Context(), request(fmt.Sprintf("fan-%d", i), "5")); r.Status != sink.OK {
				t.Errorf("%+v", r)
			}
		})
	}
	wg.Wait()
	if st := s.Stats(); st.Limited[wasmhost.LimitSinkIOs] == 0 {
		t.Errorf("the limit held nobody back: %+v", st)
	}
}

func TestWhatLosesARaceIsCancelled(t *testing.T) {
	g := newGate()
	s := open(t, guest(t), g.config(), nil)
	result := apply(t.Context(), s, request("race", ""))
	slow := g.take(1)[0]
	<-slow.ctx.Done()
	fast := g.take(1)[0]
	close(fast.let)
	if r := result(); r.Status != sink.OK || r.Observation.Ref != "/fast;" {
		t.Errorf("%+v", r)
	}
}

func TestACancelledCallIsDroppedInTheGuest(t *testing.T) {
	g := newGate()
	s := open(t, guest(t), g.config(), nil)
	ctx, cancel := context.WithCancel(t.Context())
	var results []func() sink.Result
	for i := range 10 {
		results = append(results, apply(ctx, s, request(fmt.Sprintf("both-%d", i), "")))
	}
	// The requests are answered, so that it is not their end that ends the calls.
	for _, h := range g.take(10) {
		close(h.let)
	}
	cancel()
	for _, wait := range results {
		if r := wait(); r.Status != sink.Unreachable {
			t.Errorf("%+v", r)
		}
	}
	if r := s.Apply(t.Context(), request("cancelled", "")); r.Status != sink.OK || r.Observation.Ref != "10" {
		t.Errorf("%+v: %+v", r, r.Observation)
	}
	// One that the host can't cancel any more: its deadline has passed.
	late := open(t, guest(t), wasmhost.SinkConfig{Limits: wasmhost.Limits{CallTimeout: 10 * time.Millisecond}}, nil)
	if r := late.Apply(t.Context(), request("park", "3600000")); r.Status != sink.Unreachable || !r.NotSent {
		t.Errorf("%+v", r)
	}
}

func TestTheBlockingFormGetsAnInstanceForEachCall(t *testing.T) {
	g := newGate()
	c := g.config()
	c.Limits.MaxInstances = 4
	s := open(t, guest(t), c, nil)
	var results []func() sink.Result
	for i := range 8 {
		results = append(results, apply(t.Context(), s, request(fmt.Sprintf("block-%d", i), "")))
	}
	first := g.take(4)
	if st := s.Stats(); st.Instances != 4 || st.InFlight != 4 || st.Waiting != 4 {
		t.Errorf("%+v", st)
	}
	for _, h := range first {
		close(h.let)
	}
	for _, h := range g.take(4) {
		close(h.let)
	}
	for i, wait := range results {
		if r := wait(); r.Status != sink.OK || r.Observation.Ref != fmt.Sprintf("/block-%d;", i) {
			t.Errorf("%d: %+v", i, r)
		}
	}
}

func TestABatchHasAnOutcomeForEachRequest(t *testing.T) {
	g := newGate()
	s := open(t, guest(t), g.config(), nil)
	if m := s.Manifest(); m.BatchMax != 100 {
		t.Fatalf("%+v", m)
	}
	go func() {
		for range 2 {
			close(g.take(1)[0].let)
		}
	}()
	rs, whole := s.ApplyBatch(t.Context(), []*sink.Request{request("steps", "2"), request("what", ""), request("ok", "")})
	if whole || len(rs) != 3 || rs[0].Status != sink.OK || rs[0].Observation.Ref != "/steps/0;/steps/1;" ||
		rs[1].Status != sink.Rejected || !strings.Contains(rs[1].Message, `"what"`) || rs[2].Status != sink.OK {
		t.Errorf("whole %v: %+v", whole, rs)
	}
}

func TestTheFieldsOfASagaArrive(t *testing.T) {
	s := open(t, guest(t), wasmhost.SinkConfig{}, nil)
	r := request("saga", "{}")
	if got := s.Apply(t.Context(), r); got.Status != sink.OK || got.Observation.Ref != "None" {
		t.Errorf("outside of sagas: %+v, %+v", got, got.Observation)
	}
	r.Run = &sink.Run{ID: "0f", Step: 3, Locks: []string{"0a", "0b"}, Held: true,
		Before: &sink.Image{Exists: true, CID: "c", UID: "u", Content: []byte{0, 255}}}
	const want = `Some(SagaRun { id: "0f", step: 3, locks: ["0a", "0b"], held: true, ` +
		`before: Some(Image { exists: true, cid: "c", uid: "u", content: [0, 255] }) })`
	if got := s.Apply(t.Context(), r); got.Status != sink.OK || got.Observation.Ref != want {
		t.Errorf("apply: %+v, %+v", got, got.Observation)
	}
	if got := s.Restore(t.Context(), r); got.Status != sink.OK || got.Observation.Ref != want {
		t.Errorf("restore: %+v, %+v", got, got.Observation)
	}
	if got := s.Unlock(t.Context(), r); got.Status != sink.Retry || got.Message != want {
		t.Errorf("unlock: %+v", got)
	}
}

func TestTooMuchStateIsTold(t *testing.T) {
	s := open(t, guest(t), wasmhost.SinkConfig{}, nil)
	if r := s.Apply(t.Context(), request("state", "")); r.Status != sink.Rejected || !strings.Contains(r.Message, "65537 bytes of state") {
		t.Errorf("%+v", r)
	}
}

// lines is a log that tests can read.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *lines) find(parts ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(strings.Split(l.all.String(), "\n"), func(line string) bool {
		return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(line, p) })
	})
}

func TestFaults(t *testing.T) {
	wasm := guest(t)
	for word, kind := range map[string]wasmhost.FaultKind{
		"panic": wasmhost.FaultTrap, "grow": wasmhost.FaultTrap, "recurse": wasmhost.FaultDepth,
		"hang": wasmhost.FaultStuck, "spin": wasmhost.FaultBudget,
	} {
		t.Run(word, func(t *testing.T) {
			log := &lines{}
			c := wasmhost.SinkConfig{Limits: wasmhost.Limits{MemoryBytes: 32 << 20, EntryCPU: 10 * time.Second}}
			if word == "spin" {
				c.Limits.EntryCPU = 200 * time.Millisecond
			}
			s := open(t, wasm, c, slog.New(slog.NewTextHandler(log, nil)))
			r := s.Apply(t.Context(), request(word, ""))
			if r.Status != sink.Fault || r.Suspect || !r.NotSent {
				t.Errorf("%+v", r)
			}
			if st := s.Stats(); st.Faults[kind] != 1 {
				t.Errorf("%s: %v", r.Message, st.Faults)
			}
			if word == "panic" && !log.find("level=ERROR", "key=panic", "panicked at", "told to", "src/lib.rs:") {
				t.Errorf("the panic is not in the log:\n%s", &log.all)
			}
			if r := s.Apply(t.Context(), request("ok", "")); r.Status != sink.OK {
				t.Errorf("afterwards: %+v", r)
			}
		})
	}
}

func TestAPanicHarmsNoOtherCall(t *testing.T) {
	g := newGate()
	s := open(t, guest(t), g.config(), nil)
	parked := make([]func() sink.Result, 20)
	for i := range parked {
		parked[i] = apply(t.Context(), s, request(fmt.Sprintf("steps-%d", i), "1"))
	}
	g.take(len(parked))
	if r := s.Apply(t.Context(), request("panic", "")); r.Status != sink.Fault || r.Suspect {
		t.Errorf("%+v", r)
	}
	// Their requests may have reached the target, so they are told to look again, uncharged.
	for i, wait := range parked {
		if r := wait(); r.Status != sink.Fault || !r.Suspect {
			t.Errorf("%d: %+v", i, r)
		}
	}
}

func TestAConfigureThatFails(t *testing.T) {
	for config, want := range map[string]struct {
		err  error
		says string
	}{
		`{"fail":"told to"}`: {wasmhost.ErrConfig, "told to"},
		`{"fail":"panic"}`:   {wasmhost.ErrFault, "configure"},
		`{"fail":`:           {wasmhost.ErrConfig, "no valid JSON: an unexpected end at byte 8"},
	} {
		_, err := load(t, guest(t), nil).Open(t.Context(), wasmhost.SinkConfig{Name: "test", Config: []byte(config)})
		if !errors.Is(err, want.err) || !strings.Contains(err.Error(), want.says) {
			t.Errorf("%s: got %v", config, err)
		}
	}
}

func TestALineOfTheLogHasItsCallsKey(t *testing.T) {
	log := &lines{}
	s := open(t, guest(t), wasmhost.SinkConfig{}, slog.New(slog.NewTextHandler(log, nil)))
	if r := s.Apply(t.Context(), request("log-1", "hear, hear")); r.Status != sink.OK {
		t.Errorf("%+v", r)
	}
	if !log.find("level=WARN", "key=log-1", "hear, hear") {
		t.Errorf("%s", &log.all)
	}
}
