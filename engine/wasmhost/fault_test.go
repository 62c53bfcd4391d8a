package wasmhost_test

import (
	"context"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/engine/wasmhost/abi"
)

// misbehave makes apply run body and every other op answer OK.
func misbehave(body code) guest {
	return guest{start: seq(when(opIs(4), body), answerOK(1), ret(0))}
}

func TestWhatAGuestDoesWrongIsItsFaultAlone(t *testing.T) {
	const far = 1 << 30
	badStatus, badText := "\x08\x63", "\x08\x01\x12\x01\xff"
	for _, c := range []struct {
		name string
		body code
		kind wasmhost.FaultKind
	}{
		{"unreachable", unreachable, wasmhost.FaultTrap},
		{"reads outside of its memory", seq(i32c(far), load64, drop), wasmhost.FaultTrap},
		{"recurses for ever", seq(get(0), get(1), code{0x10}, uleb(len(asmImports)+1), drop), wasmhost.FaultTrap},
		{"an answer outside of its memory", answer(1, far, 8), wasmhost.FaultContract},
		{"an answer across the end of its memory", answer(1, 2*65536-4, 8), wasmhost.FaultContract},
		{"input to outside of its memory", seq(i32c(far), callf("input_read")), wasmhost.FaultContract},
		{"an answer for an unknown call", seq(i64c(99), i32c(atOK), i32c(2), callf("result"), drop), wasmhost.FaultContract},
		{"an answer for call 0", seq(i64c(0), i32c(atOK), i32c(2), callf("result"), drop), wasmhost.FaultContract},
		{"I/O for an unknown call", seq(i64c(99), i32c(1), i32c(atHTTP), i32c(2), callf("io_start"), drop), wasmhost.FaultContract},
		{"a request outside of its memory", seq(get(1), i32c(1), i32c(far), i32c(2), callf("io_start"), drop), wasmhost.FaultContract},
		{"a blocking request outside of its memory", seq(get(1), i32c(1), i32c(far), i32c(2), callf("io_call"), drop), wasmhost.FaultContract},
		{"cancels an unknown I/O", seq(i64c(7), callf("io_cancel")), wasmhost.FaultContract},
		{"a log line outside of its memory", seq(get(1), i32c(1), i32c(far), i32c(2), callf("log")), wasmhost.FaultContract},
		{"entropy to outside of its memory", seq(i32c(far), i32c(8), callf("random_get"), drop), wasmhost.FaultContract},
		{"stderr from outside of its memory", seq(i32c(2), i32c(far), i32c(1), i32c(0), callf("fd_write"), drop), wasmhost.FaultContract},
		{"the time to outside of its memory", seq(i32c(0), i64c(0), i32c(far), callf("clock_time_get"), drop), wasmhost.FaultContract},
		{"polls outside of its memory", seq(i32c(far), i32c(0), i32c(1), i32c(0), callf("poll_oneoff"), drop), wasmhost.FaultContract},
		{"an answer that does not decode", answer(1, 700, 2), wasmhost.FaultMalformed},
		{"an unknown status", answer(1, 600, len(badStatus)), wasmhost.FaultMalformed},
		{"no status", answer(1, 600, 0), wasmhost.FaultMalformed},
		{"text that is no UTF-8", answer(1, 640, len(badText)), wasmhost.FaultMalformed},
		{"a request that does not decode", seq(get(1), i32c(1), i32c(700), i32c(2), callf("io_start"), drop), wasmhost.FaultMalformed},
		{"ends itself", seq(i32c(3), callf("proc_exit")), wasmhost.FaultExit},
		{"returns 3", ret(3), wasmhost.FaultContract},
		{"returns -1", ret(-1), wasmhost.FaultContract},
		{"holds the call and wants nothing", ret(0), wasmhost.FaultStuck},
		{"holds the call and waits for no I/O", ret(1), wasmhost.FaultStuck},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := misbehave(c.body)
			g.data = map[int]string{600: badStatus, 640: badText, 700: "\xff\xff"}
			s := openASM(t, g, wasmhost.SinkConfig{})
			r := s.Apply(t.Context(), request("the-key", "SECRET"))
			if r.Status != sink.Fault || r.Suspect {
				t.Fatalf("got %v (suspect %v): %s", r.Status, r.Suspect, r.Message)
			}
			for _, part := range []string{`plugin "asm"`, `sink "test"`, `key "the-key"`, string(c.kind)} {
				if !strings.Contains(r.Message, part) {
					t.Errorf("the message does not name %s: %s", part, r.Message)
				}
			}
			if strings.Contains(r.Message, "SECRET") {
				t.Errorf("the message holds payload: %s", r.Message)
			}
			if n := s.Stats().Faults[c.kind]; n != 1 {
				t.Errorf("%d faults of kind %s counted", n, c.kind)
			}
			if r := s.Observe(t.Context(), request("another", "")); r.Status != sink.OK {
				t.Errorf("afterwards: %v: %s", r.Status, r.Message)
			}
			if r := s.Observe(t.Context(), request("the-key", "")); r.Status != sink.OK {
				t.Errorf("the same key: %v: %s", r.Status, r.Message)
			}
		})
	}
}

// faulty: observe parks in HTTP, apply parks in a short sleep, delete traps.
func faulty() guest {
	short := sleepMessage(20)
	return guest{
		data: map[int]string{4096: short},
		start: seq(
			when(opIs(3), seq(park(1, atHTTP, len(httpGet)), ret(1))),
			when(opIs(4), seq(park(2, 4096, len(short)), ret(1))),
			when(opIs(6), seq(park(2, atSleep, len(sleepMessage(60_000))), ret(1))),
			unreachable),
		resume: seq(resumeOK, i32c(1)),
	}
}

func TestCallsThatSentNothingSurviveTheFaultOfAnother(t *testing.T) {
	s := openASM(t, faulty(), wasmhost.SinkConfig{})
	var others []func() sink.Result
	for _, key := range []string{"a", "b", "c"} {
		others = append(others, s.Start(t.Context(), abi.OpApply, request(key, "{}")))
	}
	if r := s.Start(t.Context(), abi.OpDelete, request("bad", ""))(); r.Status != sink.Fault || r.Suspect || !r.NotSent {
		t.Errorf("the guilty one: %+v", r)
	}
	for _, wait := range others {
		if r := wait(); r.Status != sink.OK {
			t.Errorf("another one: %v: %s", r.Status, r.Message)
		}
	}
	if n := s.Stats().Restarts; n != 3 {
		t.Errorf("%d calls were restarted, not 3", n)
	}
}

func TestCallsThatMayHaveSentAreLookedAtAfterTheFaultOfAnother(t *testing.T) {
	for _, sent := range []bool{false, true} {
		up := &fakeUpstream{name: "target", do: func(ctx context.Context, _ *upstream.Request) (*upstream.Response, *upstream.Failure) {
			<-ctx.Done()
			return nil, &upstream.Failure{Kind: upstream.FailCancelled, MaybeSent: sent}
		}}
		s := openASM(t, faulty(), wasmhost.SinkConfig{Upstreams: []wasmhost.Upstream{up}})
		other := s.Start(t.Context(), abi.OpObserve, request("a", "{}"))
		if r := s.Start(t.Context(), abi.OpDelete, request("bad", ""))(); r.Status != sink.Fault || r.Suspect {
			t.Errorf("the guilty one: %+v", r)
		}
		if r := other(); r.Status != sink.Fault || !r.Suspect || r.NotSent == sent {
			t.Errorf("sent %v: the other one: %+v", sent, r)
		}
	}
}

func TestASuspectRunsAloneNext(t *testing.T) {
	s := openASM(t, faulty(), wasmhost.SinkConfig{})
	if r := s.Delete(t.Context(), request("bad", "")); r.Status != sink.Fault {
		t.Fatalf("got %+v", r)
	}
	// It traps again, and the bystander in the other instance does not notice.
	bystander := s.Start(t.Context(), abi.OpApply, request("a", "{}"))
	if r := s.Delete(t.Context(), request("bad", "")); r.Status != sink.Fault || r.Suspect {
		t.Errorf("the second time: %+v", r)
	}
	if r := bystander(); r.Status != sink.OK {
		t.Errorf("the bystander: %+v", r)
	}
	if n := s.Stats().Restarts; n != 0 {
		t.Errorf("the bystander was restarted")
	}
	// Once they behaved, they are like any other again: in flight together.
	if r := s.Delete(t.Context(), request("bad too", "")); r.Status != sink.Fault {
		t.Fatalf("got %+v", r)
	}
	for _, want := range []int{1, 2} {
		one := s.Start(t.Context(), abi.OpApply, request("bad", "{}"))
		two := s.Start(t.Context(), abi.OpApply, request("bad too", "{}"))
		if st := s.Stats(); st.InFlight != want || st.Waiting != 2-want {
			t.Errorf("%d in flight, %d waiting", st.InFlight, st.Waiting)
		}
		if r := one(); r.Status != sink.OK {
			t.Errorf("%+v", r)
		}
		if r := two(); r.Status != sink.OK {
			t.Errorf("%+v", r)
		}
	}
}

func TestBystandersAreRestartedOnceOnly(t *testing.T) {
	g := faulty() // a poll, which observe asks for, traps with two calls in the guest
	g.start = seq(when(opIs(3), ret(2)), g.start)
	g.poll = unreachable
	s := openASM(t, g, wasmhost.SinkConfig{})
	one := s.Start(t.Context(), abi.OpApplyBatch, request("parked", ""))
	two := s.Start(t.Context(), abi.OpObserve, request("polled", ""))
	for _, wait := range []func() sink.Result{one, two} {
		if r := wait(); r.Status != sink.Fault || !r.Suspect {
			t.Errorf("%+v", r)
		}
	}
	if n := s.Stats().Restarts; n != 2 {
		t.Errorf("%d restarts", n)
	}
}

// An adapter with goroutines runs other calls' code in an entry: the calls that
// took part by an import are suspects.
func TestCallsThatTookPartInTheFaultingEntryAreSuspects(t *testing.T) {
	g := faulty()
	// delete logs for call 2 (configure is 1), then traps.
	g.start = seq(
		when(opIs(5), seq(i64c(2), i32c(0), i32c(0), i32c(0), callf("log"), unreachable)),
		g.start)
	s := openASM(t, g, wasmhost.SinkConfig{})
	touched := s.Start(t.Context(), abi.OpApply, request("touched", "{}"))
	other := s.Start(t.Context(), abi.OpApply, request("other", "{}"))
	if r := s.Start(t.Context(), abi.OpDelete, request("bad", ""))(); r.Status != sink.Fault || r.Suspect {
		t.Errorf("the guilty one: %+v", r)
	}
	if r := touched(); r.Status != sink.Fault || !r.Suspect {
		t.Errorf("the one that took part: %+v", r)
	}
	if r := other(); r.Status != sink.OK {
		t.Errorf("the other one: %+v", r)
	}
}

func TestABatchThatFaultsIsASuspect(t *testing.T) {
	g := guest{start: unreachable}
	s := openASM(t, g, wasmhost.SinkConfig{})
	rs, whole := s.ApplyBatch(t.Context(), []*sink.Request{request("a", ""), request("b", "")})
	if whole || len(rs) != 2 {
		t.Fatalf("%d results, whole %v", len(rs), whole)
	}
	for _, r := range rs {
		if r.Status != sink.Fault || !r.Suspect {
			t.Errorf("got %+v", r)
		}
	}
}

func TestAnInstanceThatDoesNotStartIsAFaultOfItsCalls(t *testing.T) {
	// configure traps from the second instance on, when the upstream refuses.
	answers := make(chan *upstream.Response, 1)
	answers <- &upstream.Response{Status: 200}
	up := &fakeUpstream{name: "target", do: func(context.Context, *upstream.Request) (*upstream.Response, *upstream.Failure) {
		select {
		case r := <-answers:
			return r, nil
		default:
			return nil, &upstream.Failure{Kind: upstream.FailConnect, Message: "no more"}
		}
	}}
	g := guest{
		// A failure is longer than the answer: 2 bytes of status.
		configure: seq(get(1), i32c(1), i32c(atHTTP), i32c(len(httpGet)), callf("io_call"),
			i32c(4), code{0x4a}, code{0x04, 0x40}, unreachable, code{0x0b}, answerOK(1), ret(0)),
		start: seq(when(opIs(5), unreachable), answerOK(1), ret(0)),
	}
	s := openASM(t, g, wasmhost.SinkConfig{Upstreams: []wasmhost.Upstream{up}})
	if r := s.Delete(t.Context(), request("bad", "")); r.Status != sink.Fault {
		t.Fatalf("got %+v", r)
	}
	if r := s.Apply(t.Context(), request("a", "")); r.Status != sink.Fault || r.Suspect || !strings.Contains(r.Message, "did not start") {
		t.Errorf("got %+v", r)
	}
	if st := s.Stats(); st.Faults[wasmhost.FaultTrap] != 2 || st.Faults[wasmhost.FaultStart] != 0 || st.InFlight != 0 {
		t.Errorf("%+v", st)
	}
}
