package wasmhost_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/engine/wasmhost/abi"

	asm "github.com/pawlsync/pawl/internal/wasmasm"
)

// parking parks every call in HTTP and answers OK when it is resumed.
func parking() asm.Guest {
	return asm.Guest{
		Start:  asm.Seq(asm.Park(1, asm.AtHTTP, len(asm.HTTPPut)), asm.Want(1)),
		Resume: asm.Seq(asm.ResumeOK, asm.I32(1)),
	}
}

func upstreams(do func(ctx context.Context, r *upstream.Request) (*upstream.Response, *upstream.Failure)) []wasmhost.Upstream {
	return []wasmhost.Upstream{&fakeUpstream{name: "target", do: do}}
}

func TestManyCallsParkInOneInstance(t *testing.T) {
	const calls = 200
	var arrived sync.WaitGroup
	arrived.Add(calls)
	s := openASM(t, parking(), wasmhost.SinkConfig{Upstreams: upstreams(
		func(_ context.Context, r *upstream.Request) (*upstream.Response, *upstream.Failure) {
			if r.Method != "PUT" || r.Path != "/x" {
				t.Errorf("got %+v", r)
			}
			arrived.Done()
			arrived.Wait() // answers only when all of them are here
			return &upstream.Response{Status: 200, Body: []byte("body")}, nil
		})})
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			if r := s.Apply(t.Context(), request(fmt.Sprint(i), "{}")); r.Status != sink.OK || r.NotSent {
				t.Errorf("%+v", r)
			}
		})
	}
	wg.Wait()
	if st := s.Stats(); st.Instances != 1 || st.InFlight != 0 || st.HeldBytes != 0 {
		t.Errorf("%+v", st)
	}
}

func TestADeadlineWithIOPendingIsUnreachable(t *testing.T) {
	for _, sent := range []bool{false, true} {
		g := parking()
		g.Cancel = asm.Seq(asm.I64(0), asm.I32(1), asm.I32(512), asm.I32(9), asm.CallImport("log"), asm.I32(0))
		g.Data = map[int]string{512: "cancelled"}
		log := make(lines, 100)
		p := load(t, asmHost(t, slog.New(slog.NewTextHandler(log, nil))), "asm", g.Bytes())
		s := open(t, p, wasmhost.SinkConfig{
			Limits: wasmhost.Limits{CallTimeout: 20 * time.Millisecond},
			Upstreams: upstreams(func(ctx context.Context, _ *upstream.Request) (*upstream.Response, *upstream.Failure) {
				<-ctx.Done()
				<-log // ends after the call, not before
				return nil, &upstream.Failure{Kind: upstream.FailTimeout, MaybeSent: sent}
			})})
		if r := s.Apply(t.Context(), request("k", "{}")); r.Status != sink.Unreachable || r.NotSent == sent {
			t.Errorf("sent %v: %+v", sent, r)
		}
		if n := s.Stats().Faults[wasmhost.FaultDeadline]; n != 0 {
			t.Errorf("%d faults", n)
		}
	}
}

func TestADeadlineWithoutIOIsAFaultOfThatCallAlone(t *testing.T) {
	g := asm.Guest{ // apply runs for ever in the guest's own time; poll finishes nothing
		Start: asm.Seq(asm.OnOp(4, asm.Want(2)), asm.AnswerOK(1), asm.Want(2)),
		Poll:  asm.I32(2), Cancel: asm.I32(0),
	}
	s := openASM(t, g, wasmhost.SinkConfig{Limits: wasmhost.Limits{CallTimeout: 20 * time.Millisecond}})
	gone := s.Gone()
	if r := s.Apply(t.Context(), request("k", "{}")); r.Status != sink.Fault || r.Suspect || !r.NotSent {
		t.Errorf("%+v", r)
	}
	if n := s.Stats().Faults[wasmhost.FaultDeadline]; n != 1 {
		t.Errorf("%d faults", n)
	}
	if r := s.Observe(t.Context(), request("k", "{}")); r.Status != sink.OK {
		t.Errorf("%+v", r)
	}
	select {
	case <-gone[0]:
		t.Error("the instance was discarded")
	default:
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	arrived := make(chan struct{})
	s := openASM(t, parking(), wasmhost.SinkConfig{
		Limits: wasmhost.Limits{MaxCalls: 1},
		Upstreams: upstreams(func(ctx context.Context, _ *upstream.Request) (*upstream.Response, *upstream.Failure) {
			close(arrived)
			<-ctx.Done()
			return nil, &upstream.Failure{Kind: upstream.FailCancelled, MaybeSent: true}
		})})
	ctx, cancel := context.WithCancel(t.Context())
	parked := s.Start(ctx, abi.OpApply, request("parked", "{}"))
	<-arrived
	waitCtx, cancelWait := context.WithCancel(t.Context())
	waiting := s.Start(waitCtx, abi.OpApply, request("waiting", "{}"))
	if st := s.Stats(); st.InFlight != 1 || st.Waiting != 1 {
		t.Errorf("%+v", st)
	}
	cancelWait()
	if r := waiting(); r.Status != sink.Unreachable || !r.NotSent {
		t.Errorf("waiting: %+v", r)
	}
	cancel()
	// The guest may hear of the cancelled request before the call is cancelled.
	if r := parked(); r.Status != sink.OK && (r.Status != sink.Unreachable || r.NotSent) {
		t.Errorf("parked: %+v", r)
	}
}

func TestACallThatWaitsForAnInstanceToStartEndsWithItsContext(t *testing.T) {
	started, release := make(chan struct{}, 2), make(chan struct{}, 2)
	g := asm.Guest{
		Configure: asm.Seq(asm.Park(1, asm.AtHTTP, len(asm.HTTPPut)), asm.Want(1)),
		Resume:    asm.Seq(asm.ResumeOK, asm.I32(0)),
		Start:     asm.Seq(asm.OnOp(5, asm.Unreachable), asm.AnswerOK(1), asm.Want(0)),
	}
	release <- struct{}{} // Open passes
	s := openASM(t, g, wasmhost.SinkConfig{Upstreams: upstreams(func(context.Context, *upstream.Request) (*upstream.Response, *upstream.Failure) {
		started <- struct{}{}
		<-release
		return &upstream.Response{Status: 200}, nil
	})})
	<-started
	if r := s.Delete(t.Context(), request("bad", "")); r.Status != sink.Fault {
		t.Fatalf("%+v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := s.Start(ctx, abi.OpApply, request("k", ""))
	patient := s.Start(t.Context(), abi.OpApply, request("patient", ""))
	<-started
	cancel()
	if r := result(); r.Status != sink.Unreachable || !r.NotSent {
		t.Errorf("%+v", r)
	}
	release <- struct{}{}
	if r := patient(); r.Status != sink.OK {
		t.Errorf("%+v", r)
	}
}

// lines is a log's output, a message at a time.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

func TestTheKeyOfACancelledCallIsFreeWhenItsIOHasEnded(t *testing.T) {
	g := parking()
	g.Cancel = asm.Seq(asm.I64(0), asm.I32(1), asm.I32(512), asm.I32(9), asm.CallImport("log"), asm.I32(1))
	g.Data = map[int]string{512: "cancelled"}
	log := make(lines, 100)
	arrived, release := make(chan struct{}, 2), make(chan struct{})
	p := load(t, asmHost(t, slog.New(slog.NewTextHandler(log, nil))), "asm", g.Bytes())
	s := open(t, p, wasmhost.SinkConfig{Upstreams: upstreams(func(context.Context, *upstream.Request) (*upstream.Response, *upstream.Failure) {
		arrived <- struct{}{}
		<-release // does not heed its context
		return &upstream.Response{Status: 200}, nil
	})})
	ctx, cancel := context.WithCancel(t.Context())
	wait := s.Start(ctx, abi.OpApply, request("k", "{}"))
	other := s.Start(t.Context(), abi.OpApply, request("other", "{}"))
	<-arrived
	<-arrived
	cancel()
	done := make(chan sink.Result, 1)
	go func() { done <- wait() }()
	if line := <-log; !strings.Contains(line, "line=cancelled") { // the guest was told
		t.Errorf("the log has %q", line)
	}
	select {
	case r := <-done:
		t.Errorf("answered while its request was under way: %+v", r)
	default:
	}
	close(release)
	if r := <-done; r.Status != sink.Unreachable || r.NotSent {
		t.Errorf("its request was answered, so it was sent: %+v", r)
	}
	if r := other(); r.Status != sink.OK {
		t.Errorf("%+v", r)
	}
}

func TestAnUpstreamThatWasNotGrantedIsDenied(t *testing.T) {
	var got []byte
	g := parking()
	// The response is logged: failure DENIED is field 5, value 5.
	g.Resume = asm.Seq(asm.I32(20000), asm.CallImport("input_read"),
		asm.I64(0), asm.I32(1), asm.I32(20000), asm.CallImport("input_len"), asm.CallImport("log"), asm.ResumeOK, asm.I32(0))
	var log bytes.Buffer
	p := load(t, asmHost(t, slog.New(slog.NewTextHandler(&log, nil))), "asm", g.Bytes())
	s := open(t, p, wasmhost.SinkConfig{})
	s.Apply(t.Context(), request("k", "{}"))
	if got = log.Bytes(); !bytes.Contains(got, []byte("is not granted to sink")) {
		t.Errorf("got %s", got)
	}
}

func TestABlockingGuestScalesOverInstances(t *testing.T) {
	const calls, most = 24, 4
	var now, peak atomic.Int64
	together := make(chan struct{})
	meet := sync.OnceFunc(func() { close(together) })
	g := asm.Guest{Start: asm.Seq(asm.Get(1), asm.I32(1), asm.I32(asm.AtHTTP), asm.I32(len(asm.HTTPPut)), asm.CallImport("io_call"), asm.Drop, asm.AnswerOK(1), asm.Want(0))}
	s := openASM(t, g, wasmhost.SinkConfig{
		Limits: wasmhost.Limits{MaxInstances: most},
		Upstreams: upstreams(func(context.Context, *upstream.Request) (*upstream.Response, *upstream.Failure) {
			n := now.Add(1)
			defer now.Add(-1)
			if n > peak.Load() {
				peak.Store(n)
			}
			if n == most {
				meet()
			}
			<-together
			return &upstream.Response{Status: 200}, nil
		})})
	var results []func() sink.Result
	for i := range calls {
		results = append(results, s.Start(t.Context(), abi.OpApply, request(fmt.Sprint(i), "{}")))
		if i == most-1 {
			<-together
		}
	}
	for _, wait := range results {
		if r := wait(); r.Status != sink.OK {
			t.Errorf("%+v", r)
		}
	}
	if n := s.Stats().Instances; n != most {
		t.Errorf("%d instances, not %d", n, most)
	}
}

func TestAdmissionIsBoundedByBytesAndCalls(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	small := wasmhost.Limits{InFlightBytes: 5 << 19} // two of 1 MiB, not three
	image := func(key string) *sink.Request {
		r := request(key, "")
		r.Run = &sink.Run{Before: &sink.Image{Content: []byte(big)}}
		return r
	}
	payload := func(key string) *sink.Request { return request(key, big) }
	for name, c := range map[string]struct {
		limits  wasmhost.Limits
		request func(key string) *sink.Request
	}{
		"bytes of payloads": {small, payload}, "bytes of images": {small, image}, "calls": {wasmhost.Limits{MaxCalls: 2}, payload},
	} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			s := openASM(t, parking(), wasmhost.SinkConfig{Limits: c.limits,
				Upstreams: upstreams(func(context.Context, *upstream.Request) (*upstream.Response, *upstream.Failure) {
					<-release
					return &upstream.Response{Status: 200}, nil
				})})
			var results []func() sink.Result
			for i := range 10 {
				results = append(results, s.Start(t.Context(), abi.OpApply, c.request(fmt.Sprint(i))))
			}
			if st := s.Stats(); st.InFlight != 2 || st.Waiting != 8 {
				t.Errorf("%+v", st)
			}
			close(release)
			for _, wait := range results {
				if r := wait(); r.Status != sink.OK {
					t.Errorf("%+v", r)
				}
			}
		})
	}
	s := openASM(t, asm.Guest{Start: asm.Seq(asm.AnswerOK(1), asm.Want(0))}, wasmhost.SinkConfig{Limits: wasmhost.Limits{InFlightBytes: 10}})
	if r := s.Apply(t.Context(), request("larger than the budget", big)); r.Status != sink.OK {
		t.Errorf("%+v", r)
	}
}

func TestAnIdleInstanceIsReleased(t *testing.T) {
	s := openASM(t, asm.Guest{Start: asm.Seq(asm.AnswerOK(1), asm.Want(0))}, wasmhost.SinkConfig{Limits: wasmhost.Limits{IdleTimeout: time.Millisecond}})
	for range 3 {
		if r := s.Apply(t.Context(), request("k", "")); r.Status != sink.OK {
			t.Fatalf("%+v", r)
		}
		for _, gone := range s.Gone() {
			<-gone
		}
	}
	if st := s.Stats(); st.Instances != 0 || st.MemoryBytes != 0 {
		t.Errorf("%+v", st)
	}
}

func TestAnInstanceThatGrewIsReplaced(t *testing.T) {
	grow := asm.Seq(asm.I32(16), asm.MemoryGrow, asm.Drop) // by 1 MiB
	g := asm.Guest{Start: asm.Seq(grow, asm.AnswerOK(1), asm.Want(0))}
	s := openASM(t, g, wasmhost.SinkConfig{Limits: wasmhost.Limits{RecycleBytes: 3 << 20}})
	first := s.Gone()[0]
	for i := range 20 {
		if r := s.Apply(t.Context(), request(fmt.Sprint(i), "")); r.Status != sink.OK {
			t.Fatalf("%+v", r)
		}
	}
	<-first
	if n := s.Stats().Recycled; n < 4 {
		t.Errorf("%d instances recycled", n)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	// memory.grow answers -1 at the limit, and the guest rejects the call then.
	grow := asm.Seq(asm.I32(16), asm.MemoryGrow, asm.I32(-1), asm.I32Eq)
	g := asm.Guest{Start: asm.Seq(asm.If(grow, asm.Seq(asm.Answer(1, 512, 2), asm.Want(0))), asm.AnswerOK(1), asm.Want(0)), Data: map[int]string{512: "\x08\x05"}}
	s := openASM(t, g, wasmhost.SinkConfig{Limits: wasmhost.Limits{MemoryBytes: 4 << 20, RecycleBytes: 4 << 20}})
	for i := range 3 {
		if r := s.Apply(t.Context(), request(fmt.Sprint(i), "")); r.Status != sink.OK {
			t.Fatalf("%d: %+v", i, r)
		}
	}
	if r := s.Apply(t.Context(), request("one too many", "")); r.Status != sink.Rejected {
		t.Errorf("%+v", r)
	}
}

func TestAGuestThatAsksForItIsPolled(t *testing.T) {
	// start notes the call at 600; the third poll answers it.
	g := asm.Guest{
		Start: asm.Seq(asm.I32(600), asm.Get(1), asm.Store64, asm.Want(2)),
		Poll: asm.Seq(asm.I32(608), asm.I32(608), asm.Load64, asm.I64(1), asm.I64Add, asm.Store64,
			asm.If(asm.Seq(asm.I32(608), asm.Load64, asm.I64(3), asm.I64Eq), asm.Seq(asm.I32(600), asm.Load64, asm.Set(0), asm.AnswerOK(0), asm.Want(0))),
			asm.I32(2)),
	}
	s := openASM(t, g, wasmhost.SinkConfig{})
	if r := s.Apply(t.Context(), request("k", "")); r.Status != sink.OK {
		t.Errorf("%+v", r)
	}
}

func TestABatchIsAnsweredByItemOrWhole(t *testing.T) {
	items := "\x0a\x02\x08\x01\x0a\x02\x08\x05" // OK, REJECTED
	whole := "\x12\x02\x08\x09"                 // RETRY
	for name, message := range map[string]string{"items": items, "whole": whole} {
		g := asm.Guest{Start: asm.Seq(asm.Answer(1, 512, len(message)), asm.Want(0)), Data: map[int]string{512: message}}
		s := openASM(t, g, wasmhost.SinkConfig{})
		if m := s.Manifest(); m.BatchMax != 10 || !m.Observes || !m.Deletes {
			t.Errorf("%+v", m)
		}
		rs, w := s.ApplyBatch(t.Context(), []*sink.Request{request("a", ""), request("b", "")})
		switch {
		case w != (name == "whole"):
			t.Errorf("%s: whole is %v", name, w)
		case w && (len(rs) != 1 || rs[0].Status != sink.Retry):
			t.Errorf("%+v", rs)
		case !w && (len(rs) != 2 || rs[0].Status != sink.OK || rs[1].Status != sink.Rejected):
			t.Errorf("%+v", rs)
		}
		if name == "items" { // three results are one too few
			rs, _ = s.ApplyBatch(t.Context(), []*sink.Request{request("a", ""), request("b", ""), request("c", "")})
			if len(rs) != 3 || rs[0].Status != sink.Fault {
				t.Errorf("%+v", rs)
			}
		}
	}
}

func TestAnEndedCallIsNoFault(t *testing.T) {
	// Answers twice, logs, starts I/O and cancels for a call that has ended.
	g := asm.Guest{Start: asm.Seq(asm.AnswerOK(1), asm.AnswerOK(1),
		asm.Get(1), asm.I32(1), asm.I32(0), asm.I32(0), asm.CallImport("log"),
		asm.Get(1), asm.I32(1), asm.I32(asm.AtHTTP), asm.I32(len(asm.HTTPPut)), asm.CallImport("io_start"), asm.I64(-1), asm.I64Ne, asm.If(nil, asm.Unreachable),
		asm.Want(0))}
	s := openASM(t, g, wasmhost.SinkConfig{})
	for range 2 {
		if r := s.Apply(t.Context(), request("k", "")); r.Status != sink.OK {
			t.Errorf("%+v", r)
		}
	}
	if st := s.Stats(); st.Faults[wasmhost.FaultTrap]+st.Faults[wasmhost.FaultContract] != 0 {
		t.Errorf("%+v", st)
	}
}

func TestIOIsRefusedBeyondItsLimits(t *testing.T) {
	start := func(kind, n int) asm.Code {
		return asm.Seq(asm.Get(1), asm.I32(kind), asm.I32(asm.AtHTTP), asm.I32(n), asm.CallImport("io_start"))
	}
	expect := func(c asm.Code, v int64) asm.Code {
		return asm.Seq(c, asm.I64(v), asm.I64Ne, asm.If(nil, asm.Unreachable))
	}
	g := asm.Guest{Start: asm.Seq(
		expect(start(1, 2000), -3), // too large
		expect(start(9, 4), -4),    // no such kind
		expect(start(1, len(asm.HTTPPut)), 1), expect(start(1, len(asm.HTTPPut)), 2),
		expect(start(1, len(asm.HTTPPut)), -2), // too many
		asm.AnswerOK(1), asm.Want(0)), Resume:  asm.I32(0)}
	s := openASM(t, g, wasmhost.SinkConfig{Limits: wasmhost.Limits{CallIOs: 2, MessageBytes: 1000}})
	if r := s.Apply(t.Context(), request("k", "")); r.Status != sink.OK {
		t.Errorf("%+v", r)
	}
}

func TestAnAnswerBeyondTheLimitIsMalformed(t *testing.T) {
	result := "\x08\x01\x12\xe8\x07" + strings.Repeat("m", 1000)
	g := asm.Guest{Start: asm.Seq(asm.Answer(1, 20000, len(result)), asm.Want(0)), Data: map[int]string{20000: result}}
	if r := openASM(t, g, wasmhost.SinkConfig{}).Apply(t.Context(), request("k", "")); r.Status != sink.OK || len(r.Message) != 1000 {
		t.Errorf("%+v", r)
	}
	s := openASM(t, g, wasmhost.SinkConfig{Limits: wasmhost.Limits{MessageBytes: 1000}})
	if r := s.Apply(t.Context(), request("k", "")); r.Status != sink.Fault || s.Stats().Faults[wasmhost.FaultMalformed] != 1 {
		t.Errorf("%+v", r)
	}
}

func TestABlockingGuestsRequestsCountAsSent(t *testing.T) {
	g := asm.Guest{
		Start: asm.Seq(asm.Get(1), asm.I32(1), asm.I32(asm.AtHTTP), asm.I32(len(asm.HTTPPut)), asm.CallImport("io_call"), asm.Drop, asm.Answer(1, 512, 2), asm.Want(0)),
		Data:  map[int]string{512: "\x08\x0a"}, // UNREACHABLE
	}
	for _, sent := range []bool{false, true} {
		s := openASM(t, g, wasmhost.SinkConfig{Upstreams: upstreams(func(context.Context, *upstream.Request) (*upstream.Response, *upstream.Failure) {
			return nil, &upstream.Failure{Kind: upstream.FailConnect, MaybeSent: sent}
		})})
		if r := s.Apply(t.Context(), request("k", "")); r.Status != sink.Unreachable || r.NotSent == sent {
			t.Errorf("sent %v: %+v", sent, r)
		}
	}
}

func TestAClosedSinkAnswersThatNothingWasSent(t *testing.T) {
	p := load(t, asmHost(t, nil), "asm", parking().Bytes())
	s, err := p.Open(t.Context(), wasmhost.SinkConfig{Name: "s", Upstreams: upstreams(
		func(ctx context.Context, _ *upstream.Request) (*upstream.Response, *upstream.Failure) {
			<-ctx.Done()
			return nil, &upstream.Failure{Kind: upstream.FailCancelled}
		})})
	if err != nil {
		t.Fatal(err)
	}
	under := s.Start(t.Context(), abi.OpApply, request("under way", ""))
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := under(); r.Status != sink.Unreachable || !r.NotSent {
		t.Errorf("%+v", r)
	}
	if r := s.Apply(t.Context(), request("late", "")); r.Status != sink.Unreachable || !r.NotSent {
		t.Errorf("%+v", r)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

func TestCloseEndsWithItsContext(t *testing.T) {
	release := make(chan struct{})
	p := load(t, asmHost(t, nil), "asm", parking().Bytes())
	s, err := p.Open(t.Context(), wasmhost.SinkConfig{Name: "s", Upstreams: upstreams(
		func(context.Context, *upstream.Request) (*upstream.Response, *upstream.Failure) {
			<-release
			return &upstream.Response{Status: 200}, nil
		})})
	if err != nil {
		t.Fatal(err)
	}
	under := s.Start(t.Context(), abi.OpApply, request("k", ""))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(release)
	under()
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWhatIsForPeopleIsCut(t *testing.T) {
	differing := strings.Repeat("\x42\x01p", 300)                                                  // 900 bytes
	result := "\x08\x05" + "\x12\xb8\x17" + strings.Repeat("é", 1500) + "\x2a\x84\x07" + differing // 3000 and 900 bytes
	g := asm.Guest{Start: asm.Seq(asm.Answer(1, 20000, len(result)), asm.Want(0)), Data: map[int]string{20000: result}}
	r := openASM(t, g, wasmhost.SinkConfig{}).Apply(t.Context(), request("k", ""))
	if r.Status != sink.Rejected || len(r.Message) > 2052 || !strings.HasSuffix(r.Message, "é…") {
		t.Errorf("%v: a message of %d bytes", r.Status, len(r.Message))
	}
	if o := r.Observation; o == nil || len(o.Differing) != 257 || !strings.Contains(o.Differing[256], "44 more") {
		t.Errorf("%+v", o)
	}
}

func TestASinkWithoutConfigIsConfiguredWithAnEmptyObject(t *testing.T) {
	// Sink "s" and config "{}" take 7 bytes.
	g := asm.Guest{Configure: asm.Seq(asm.If(asm.Seq(asm.CallImport("input_len"), asm.I32(7), asm.I32Ne), asm.Unreachable), asm.AnswerOK(1), asm.Want(0))}
	openASM(t, g, wasmhost.SinkConfig{Name: "s"})
}
