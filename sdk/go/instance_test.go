package pawl

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeHost plays the host's part of the ABI. The entries are called one at a
// time, as a host does, by the test.
type fakeHost struct {
	mu      sync.Mutex
	in      []byte
	results map[int64]string
	started []started
	cancels []int64
	logs    []string
	refuse  int64 // answer of ioStart, where negative
}

type started struct {
	id, call int64
	kind     int32
	msg      string
}

func (h *fakeHost) input() []byte { return slices.Clone(h.in) }

func (h *fakeHost) result(call int64, msg []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, again := h.results[call]; again {
		panic("a second result")
	}
	h.results[call] = string(msg)
}

func (h *fakeHost) ioStart(call int64, kind int32, msg []byte) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuse < 0 {
		return h.refuse
	}
	id := int64(100 + len(h.started))
	h.started = append(h.started, started{id, call, kind, string(msg)})
	return id
}

func (h *fakeHost) ioCancel(io int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cancels = append(h.cancels, io)
}

func (h *fakeHost) log(_ int64, _ int32, line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.logs = append(h.logs, line)
}

// rig is an instance with its host. Natively goroutines run on threads, so an
// entry may return before all of them are parked; until enters again then.
type rig struct {
	t    *testing.T
	host *fakeHost
	*instance
}

func newRig(t *testing.T, a Adapter) *rig {
	h := &fakeHost{results: map[int64]string{}}
	return &rig{t, h, newInstance(newPlugin(Manifest{Name: "t"}, a), h)}
}

func (r *rig) enter(op Op, call int64, in []byte) {
	r.host.in = in
	r.start(int32(op), call)
}

func (r *rig) respond(io int64, in []byte) {
	r.host.in = in
	r.resume(io)
}

func (r *rig) until(what string, cond func() bool) {
	r.t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		r.host.mu.Lock()
		ok := cond()
		r.host.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("it never came to this: %s", what)
		}
		r.settle(false)
	}
}

// untilWants waits without the host's lock, as until has it: the instance takes its
// own first.
func (r *rig) untilWants(want int32) {
	r.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); r.want() != want; r.settle(false) {
		if time.Now().After(deadline) {
			r.t.Fatalf("the instance wants %d, and never %d", r.want(), want)
		}
	}
}

type funcAdapter struct {
	Unimplemented
	apply func(ctx context.Context, r *Request) (Observation, error)
}

func (a funcAdapter) Apply(ctx context.Context, r *Request) (Observation, error) {
	return a.apply(ctx, r)
}

func request(key string) []byte { return appendString(nil, 2, key) }

func TestACallThatParksEndsWhenItsIOIsComplete(t *testing.T) {
	r := newRig(t, funcAdapter{apply: func(ctx context.Context, r *Request) (Observation, error) {
		resp, err := Do(ctx, &HTTPRequest{Upstream: "u", Method: "PUT", Path: "/" + r.Key})
		if err != nil {
			return Observation{}, err
		}
		return Observation{Exists: true, Ref: string(resp.Body)}, Sleep(ctx, time.Second)
	}})
	r.enter(OpApply, 1, request("a"))
	r.enter(OpApply, 2, request("b"))
	r.until("both wait for HTTP", func() bool { return len(r.host.started) == 2 })
	r.untilWants(wantIO)
	for _, s := range slices.Clone(r.host.started) {
		if want := string(appendHTTPRequest(nil, &HTTPRequest{Upstream: "u", Method: "PUT", Path: "/" + string("ab"[s.call-1])})); s.msg != want || s.kind != ioHTTP {
			t.Errorf("call %d asked for %q, want %q", s.call, s.msg, want)
		}
		r.respond(s.id, appendBytes(appendUint(nil, 1, 200), 3, []byte("answer")))
	}
	r.until("both sleep", func() bool { return len(r.host.started) == 4 })
	for _, s := range slices.Clone(r.host.started[2:]) {
		if s.kind != ioSleep || s.msg != string(appendSleep(nil, time.Second)) {
			t.Errorf("call %d asked for kind %d %q", s.call, s.kind, s.msg)
		}
		r.respond(s.id, nil)
	}
	r.until("both have ended", func() bool { return len(r.host.results) == 2 })
	r.untilWants(wantNothing)
	want := string(appendResult(nil, &Observation{Exists: true, Ref: "answer"}, nil, ""))
	if r.host.results[1] != want || r.host.results[2] != want {
		t.Errorf("results are %q and %q, want %q each", r.host.results[1], r.host.results[2], want)
	}
}

func TestACallThatWaitsForSomethingElseAsksToBePolled(t *testing.T) {
	release := make(chan bool)
	r := newRig(t, funcAdapter{apply: func(context.Context, *Request) (Observation, error) {
		<-release
		return Observation{}, nil
	}})
	r.enter(OpApply, 1, request("a"))
	r.untilWants(wantPoll)
	close(release)
	r.untilWants(wantNothing)
}

func TestACancelledCallIsReleasedAndAnswersNothing(t *testing.T) {
	errs := make(chan error, 3)
	r := newRig(t, funcAdapter{apply: func(ctx context.Context, r *Request) (Observation, error) {
		_, err := Do(ctx, &HTTPRequest{Upstream: "u"})
		errs <- err
		errs <- ctx.Err()
		_, err = Do(ctx, &HTTPRequest{Upstream: "u"})
		errs <- err
		return Observation{}, nil
	}})
	r.enter(OpApply, 1, request("a"))
	r.until("it waits", func() bool { return len(r.host.started) == 1 })
	r.cancel(1)
	r.untilWants(wantNothing)
	for i := range 3 {
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("error %d is %v, want context.Canceled", i, err)
		}
	}
	r.respond(100, appendUint(nil, 1, 200)) // too late: no fault
	r.cancel(1)
	if len(r.host.results) != 0 || len(r.host.started) != 1 {
		t.Errorf("results %v, I/O %v: want no result, and no I/O after the end", r.host.results, r.host.started)
	}
}

func TestDoneIsClosedByCancelAndByTheResult(t *testing.T) {
	ended := make(chan string, 2)
	r := newRig(t, funcAdapter{apply: func(ctx context.Context, r *Request) (Observation, error) {
		if r.Key == "leaves something behind" {
			done := ctx.Done()
			go func() { <-done; ended <- r.Key }()
			return Observation{}, nil
		}
		<-ctx.Done()
		ended <- r.Key
		return Observation{}, ctx.Err()
	}})
	r.enter(OpApply, 1, request("waits"))
	r.untilWants(wantPoll)
	r.cancel(1)
	if got := <-ended; got != "waits" {
		t.Errorf("%q ended first", got)
	}
	r.enter(OpApply, 2, request("leaves something behind"))
	if got := <-ended; got != "leaves something behind" {
		t.Errorf("%q ended", got)
	}
}

func TestADerivedContextGivesUpItsIOAndKeepsTheCall(t *testing.T) {
	r := newRig(t, funcAdapter{apply: func(ctx context.Context, r *Request) (Observation, error) {
		sub, cancel := context.WithCancel(ctx)
		go cancel()
		_, err := Do(sub, &HTTPRequest{Upstream: "u"})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Do returned %v, want context.Canceled", err)
		}
		return Observation{Exists: true}, nil
	}})
	r.enter(OpApply, 1, request("a"))
	r.until("the call has ended", func() bool { return len(r.host.results) == 1 })
	if len(r.host.started) != len(r.host.cancels) {
		t.Errorf("%d I/O started, %d cancelled", len(r.host.started), len(r.host.cancels))
	}
}

func TestADerivedDeadlineGoesToTheHost(t *testing.T) {
	r := newRig(t, funcAdapter{apply: func(ctx context.Context, r *Request) (Observation, error) {
		sub, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err := Do(sub, &HTTPRequest{Upstream: "u"})
		return Observation{}, err
	}})
	r.enter(OpApply, 1, appendUint(request("a"), 12, 3_600_000))
	r.until("it waits", func() bool { return len(r.host.started) == 1 })
	d := decoder{b: []byte(r.host.started[0].msg)}
	var ms uint64
	for f, ok := d.next(); ok; f, ok = d.next() {
		if f == 7 {
			ms = d.uint()
		} else {
			d.skip()
		}
	}
	if ms == 0 || ms > 60_000 {
		t.Errorf("the request's timeout is %d ms, want at most a minute", ms)
	}
	r.cancel(1)
	r.untilWants(wantNothing)
}

func TestARefusedIOIsAnErrorThatSaysWhy(t *testing.T) {
	for code, want := range map[int64]struct {
		status  Status
		message string
	}{
		-1: {StatusUnreachable, "cancelled"}, -2: {StatusRetry, "too many"}, // it is nobody's fault, and passes
		-3: {StatusRejected, "larger"}, -4: {StatusRejected, "refused"},
	} {
		r := newRig(t, funcAdapter{apply: func(ctx context.Context, r *Request) (Observation, error) {
			_, err := Do(ctx, &HTTPRequest{Upstream: "u"})
			if got := AsError(err).Status; got != want.status {
				t.Errorf("code %d is %v, want %v", code, got, want.status)
			}
			return Observation{}, err
		}})
		r.host.refuse = code
		r.enter(OpApply, 1, request("a"))
		r.until("the call has ended", func() bool { return len(r.host.results) == 1 })
		if !strings.Contains(r.host.results[1], want.message) {
			t.Errorf("code %d: result %q does not say %q", code, r.host.results[1], want.message)
		}
	}
}

func TestAPanicIsLoggedAndGoesOn(t *testing.T) {
	r := newRig(t, funcAdapter{apply: func(context.Context, *Request) (Observation, error) { panic("told to") }})
	c := &call{in: r.instance, id: 7, op: OpApply, input: request("a")}
	defer func() {
		if p := recover(); p != "told to" {
			t.Errorf("recovered %v, want the panic itself", p)
		}
		if len(r.host.logs) != 1 || r.host.logs[0] != "panic: told to" {
			t.Errorf("logged %q", r.host.logs)
		}
	}()
	r.run(c)
}

func TestGoroutinesAreReused(t *testing.T) {
	r := newRig(t, funcAdapter{apply: func(context.Context, *Request) (Observation, error) { return Observation{}, nil }})
	var first *worker
	for id := range int64(100) {
		r.enter(OpApply, id, request("a"))
		// Not under the host's lock, as until has it: the instance takes that one second.
		var idle []*worker
		for deadline := time.Now().Add(10 * time.Second); len(idle) != 1; r.settle(false) {
			r.instance.mu.Lock()
			idle = slices.Clone(r.idle)
			r.instance.mu.Unlock()
			if time.Now().After(deadline) {
				t.Fatal("the worker is not idle again")
			}
		}
		if first == nil {
			first = idle[0]
		}
		if idle[0] != first {
			t.Fatalf("call %d ran on a goroutine of its own", id)
		}
	}
}

func TestOutsideOfACallThereIsAClearError(t *testing.T) {
	if _, err := Do(context.Background(), &HTTPRequest{}); !errors.Is(err, ErrNoCall) {
		t.Errorf("Do: %v, want ErrNoCall", err)
	}
	if err := Sleep(context.Background(), 1); !errors.Is(err, ErrNoCall) {
		t.Errorf("Sleep: %v, want ErrNoCall", err)
	}
	Log(context.Background(), LevelInfo, "lost")
}
