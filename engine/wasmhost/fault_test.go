package wasmhost_test

import (
	"context"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/engine/wasmhost/abi"

	asm "github.com/pawlsync/pawl/internal/wasmasm"
)

func TestWhatAGuestDoesWrongIsItsFaultAlone(t *testing.T) {
	const far = 1 << 30
	badStatus, badText := "\x08\x63", "\x08\x01\x12\x01\xff"
	for _, c := range []struct {
		name string
		body asm.Code
		kind wasmhost.FaultKind
	}{
		{"unreachable", asm.Unreachable, wasmhost.FaultTrap},
		{"reads outside of its memory", asm.Seq(asm.I32(far), asm.Load64, asm.Drop), wasmhost.FaultTrap},
		{"recurses for ever", asm.Seq(asm.Get(0), asm.Get(1), asm.Call(asm.OwnFunc("pawl_start")), asm.Drop), wasmhost.FaultDepth},
		{"an answer outside of its memory", asm.Answer(1, far, 8), wasmhost.FaultContract},
		{"an answer across the end of its memory", asm.Answer(1, 2*65536-4, 8), wasmhost.FaultContract},
		{"input to outside of its memory", asm.Seq(asm.I32(far), asm.CallImport("input_read")), wasmhost.FaultContract},
		{"an answer for an unknown call", asm.Seq(asm.I64(99), asm.I32(asm.AtOK), asm.I32(2), asm.CallImport("result"), asm.Drop), wasmhost.FaultContract},
		{"an answer for call 0", asm.Seq(asm.I64(0), asm.I32(asm.AtOK), asm.I32(2), asm.CallImport("result"), asm.Drop), wasmhost.FaultContract},
		{"I/O for an unknown call", asm.Seq(asm.I64(99), asm.I32(1), asm.I32(asm.AtHTTP), asm.I32(2), asm.CallImport("io_start"), asm.Drop), wasmhost.FaultContract},
		{"a request outside of its memory", asm.Seq(asm.Get(1), asm.I32(1), asm.I32(far), asm.I32(2), asm.CallImport("io_start"), asm.Drop), wasmhost.FaultContract},
		{"a blocking request outside of its memory", asm.Seq(asm.Get(1), asm.I32(1), asm.I32(far), asm.I32(2), asm.CallImport("io_call"), asm.Drop), wasmhost.FaultContract},
		{"cancels an unknown I/O", asm.Seq(asm.I64(7), asm.CallImport("io_cancel")), wasmhost.FaultContract},
		{"a log line outside of its memory", asm.Seq(asm.Get(1), asm.I32(1), asm.I32(far), asm.I32(2), asm.CallImport("log")), wasmhost.FaultContract},
		{"entropy to outside of its memory", asm.Seq(asm.I32(far), asm.I32(8), asm.CallImport("random_get"), asm.Drop), wasmhost.FaultContract},
		{"stderr from outside of its memory", asm.Seq(asm.I32(2), asm.I32(far), asm.I32(1), asm.I32(0), asm.CallImport("fd_write"), asm.Drop), wasmhost.FaultContract},
		{"the time to outside of its memory", asm.Seq(asm.I32(0), asm.I64(0), asm.I32(far), asm.CallImport("clock_time_get"), asm.Drop), wasmhost.FaultContract},
		{"polls outside of its memory", asm.Seq(asm.I32(far), asm.I32(0), asm.I32(1), asm.I32(0), asm.CallImport("poll_oneoff"), asm.Drop), wasmhost.FaultContract},
		{"an answer that does not decode", asm.Answer(1, 700, 2), wasmhost.FaultMalformed},
		{"an unknown status", asm.Answer(1, 600, len(badStatus)), wasmhost.FaultMalformed},
		{"no status", asm.Answer(1, 600, 0), wasmhost.FaultMalformed},
		{"text that is no UTF-8", asm.Answer(1, 640, len(badText)), wasmhost.FaultMalformed},
		{"a request that does not decode", asm.Seq(asm.Get(1), asm.I32(1), asm.I32(700), asm.I32(2), asm.CallImport("io_start"), asm.Drop), wasmhost.FaultMalformed},
		{"ends itself", asm.Seq(asm.I32(3), asm.CallImport("proc_exit")), wasmhost.FaultExit},
		{"returns 3", asm.Want(3), wasmhost.FaultContract},
		{"returns -1", asm.Want(-1), wasmhost.FaultContract},
		{"holds the call and wants nothing", asm.Want(0), wasmhost.FaultStuck},
		{"holds the call and waits for no I/O", asm.Want(1), wasmhost.FaultStuck},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := asm.Misbehave(c.body)
			g.Data = map[int]string{600: badStatus, 640: badText, 700: "\xff\xff"}
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
func faulty() asm.Guest {
	short := asm.SleepMessage(20)
	return asm.Guest{
		Data: map[int]string{4096: short},
		Start: asm.Seq(
			asm.OnOp(3, asm.Seq(asm.Park(1, asm.AtHTTP, len(asm.HTTPPut)), asm.Want(1))),
			asm.OnOp(4, asm.Seq(asm.Park(2, 4096, len(short)), asm.Want(1))),
			asm.OnOp(6, asm.Seq(asm.Park(2, asm.AtSleep, len(asm.SleepMessage(60_000))), asm.Want(1))),
			asm.Unreachable),
		Resume: asm.Seq(asm.ResumeOK, asm.I32(1)),
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
	s := openASM(t, faulty(), wasmhost.SinkConfig{})
	parked := s.Start(t.Context(), abi.OpApplyBatch, request("parked", ""))
	for _, key := range []string{"bad", "bad too"} { // each new, so that neither runs alone
		if r := s.Start(t.Context(), abi.OpDelete, request(key, ""))(); r.Status != sink.Fault || r.Suspect {
			t.Errorf("%+v", r)
		}
	}
	if r := parked(); r.Status != sink.Fault || !r.Suspect {
		t.Errorf("%+v", r)
	}
	if n := s.Stats().Restarts; n != 1 {
		t.Errorf("%d restarts", n)
	}
}

// Of a fault in a poll nobody knows whose it is, but who did nothing: the calls
// that wait for host I/O. Were the others not made to run alone, they would
// fault together for ever, and none of them be charged.
func TestCallsThatWaitForAPollAreSuspectsOfItsFault(t *testing.T) {
	g := faulty() // observe asks to be polled
	g.Start = asm.Seq(asm.OnOp(3, asm.Want(2)), g.Start)
	g.Poll = asm.Unreachable
	s := openASM(t, g, wasmhost.SinkConfig{})
	parked := s.Start(t.Context(), abi.OpApply, request("parked", ""))
	var polled []func() sink.Result
	for _, key := range []string{"a", "b"} {
		polled = append(polled, s.Start(t.Context(), abi.OpObserve, request(key, "")))
	}
	for _, wait := range polled {
		if r := wait(); r.Status != sink.Fault || !r.Suspect {
			t.Errorf("together: %+v", r)
		}
	}
	if r := parked(); r.Status != sink.OK {
		t.Errorf("the one that waited for I/O: %+v", r)
	}
	for _, key := range []string{"a", "b"} {
		if r := s.Observe(t.Context(), request(key, "")); r.Status != sink.Fault || r.Suspect || !strings.Contains(r.Message, `key "`+key+`"`) {
			t.Errorf("alone: %+v", r)
		}
	}
}

// An adapter with goroutines runs other calls' code in an entry: the calls that
// took part by an import are suspects.
func TestCallsThatTookPartInTheFaultingEntryAreSuspects(t *testing.T) {
	g := faulty()
	// delete logs for call 2 (configure is 1), then traps.
	g.Start = asm.Seq(
		asm.OnOp(5, asm.Seq(asm.I64(2), asm.I32(0), asm.I32(0), asm.I32(0), asm.CallImport("log"), asm.Unreachable)),
		g.Start)
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
	g := asm.Guest{Start: asm.Unreachable}
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

// An instance that faults before it came to a call, though configure had said
// OK: were its calls moved to another one, they would move for ever.
func TestAFaultAfterConfigureHasAnsweredEndsTheCallsThatWait(t *testing.T) {
	for _, c := range []struct {
		name string
		then asm.Code
		kind wasmhost.FaultKind
	}{
		{"returns 7", asm.Want(7), wasmhost.FaultContract},
		{"traps", asm.Unreachable, wasmhost.FaultTrap},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := asm.Guest{Configure: asm.Seq(asm.AnswerOK(1), c.then), Start: asm.Seq(asm.AnswerOK(1), asm.Want(0))}
			s := openASM(t, g, wasmhost.SinkConfig{})
			for range 2 {
				r := s.Apply(t.Context(), request("a", ""))
				if r.Status != sink.Fault || r.Suspect || !strings.Contains(r.Message, "did not start") {
					t.Errorf("got %+v", r)
				}
			}
			if n := s.Stats().Faults[c.kind]; n > 3 {
				t.Errorf("%d faults for Open and two calls", n)
			}
		})
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
	g := asm.Guest{
		// A failure is longer than the answer: 2 bytes of status.
		Configure: asm.Seq(asm.Get(1), asm.I32(1), asm.I32(asm.AtHTTP), asm.I32(len(asm.HTTPPut)), asm.CallImport("io_call"),
			asm.I32(4), asm.I32GtS, asm.If(nil, asm.Unreachable), asm.AnswerOK(1), asm.Want(0)),
		Start: asm.Seq(asm.OnOp(5, asm.Unreachable), asm.AnswerOK(1), asm.Want(0)),
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
