package wasmhost_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/engine/wasmhost/abi"

	asm "github.com/pawlsync/pawl/internal/wasmasm"
)

// count is a little work, for loops.
var count = asm.Seq(asm.GlobalGet(0), asm.I32(1), asm.I32Add, asm.GlobalSet(0))

func counting(g asm.Guest) asm.Guest {
	g.Extend = func(m *asm.Module) { m.Global(asm.TypeI32, true, asm.I32(0)) }
	return g
}

func spinner() asm.Guest { return counting(asm.Misbehave(asm.Forever(count))) }

func TestAnEndlessLoopIsStoppedWithinTwiceItsBudget(t *testing.T) {
	const budget = 100 * time.Millisecond
	s := openASM(t, spinner(), wasmhost.SinkConfig{Limits: wasmhost.Limits{EntryCPU: budget}})
	least := time.Hour // that this process needed; others of its threads work too
	for i := range 3 {
		before, process := s.Stats().CPU, cpuTime(t)
		r := s.Apply(t.Context(), request("the-key", ""))
		used := s.Stats().CPU - before
		process = cpuTime(t) - process
		least = min(least, process)
		t.Logf("stopped after %v of CPU time; the process used %v", used, process)
		if used < budget || used > 2*budget || used > process*11/10 {
			t.Errorf("it used %v by its meter, and the process %v", used, process)
		}
		if r.Status != sink.Fault || r.Suspect || !r.NotSent {
			t.Errorf("%+v", r)
		}
		for _, part := range []string{`plugin "asm"`, `sink "test"`, `key "the-key"`, "budget fault", "entry_cpu of 100ms"} {
			if !strings.Contains(r.Message, part) {
				t.Errorf("the message does not name %s: %s", part, r.Message)
			}
		}
		if n := s.Stats().Faults[wasmhost.FaultBudget]; n != int64(i+1) {
			t.Errorf("%d faults", n)
		}
	}
	if least > 2*budget {
		t.Errorf("to stop it took %v of CPU time", least)
	}
	if r := s.Observe(t.Context(), request("another", "")); r.Status != sink.OK {
		t.Errorf("afterwards: %+v", r)
	}
}

func TestAnEndlessLoopIsStoppedWhereverItIs(t *testing.T) {
	limits := wasmhost.Limits{EntryCPU: 50 * time.Millisecond}
	loop := asm.Seq(asm.Forever(count), asm.Unreachable)
	parked := func(g asm.Guest, milliseconds uint64) asm.Guest {
		message := asm.SleepMessage(milliseconds)
		g.Start = asm.Seq(asm.OnOp(asm.OpApply, asm.Park(asm.IOSleep, 700, len(message)), asm.Want(1)), asm.AnswerOK(1), asm.Want(1))
		g.Data = map[int]string{700: message}
		return counting(g)
	}
	for _, c := range []struct {
		name string
		g    asm.Guest
	}{
		{"resume", parked(asm.Guest{Resume: loop}, 1)},
		{"poll", counting(asm.Guest{Start: asm.Seq(asm.OnOp(asm.OpApply, asm.Want(2)), asm.AnswerOK(1), asm.Want(0)), Poll: loop})},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openASM(t, c.g, wasmhost.SinkConfig{Limits: limits})
			if r := s.Apply(t.Context(), request("k", "")); r.Status != sink.Fault || s.Stats().Faults[wasmhost.FaultBudget] != 1 {
				t.Errorf("%+v %v", r, s.Stats().Faults)
			}
		})
	}
	t.Run("cancel", func(t *testing.T) {
		s := openASM(t, parked(asm.Guest{Cancel: loop}, 3_600_000), wasmhost.SinkConfig{Limits: limits})
		ctx, cancel := context.WithCancel(t.Context())
		wait := s.Start(ctx, abi.OpApply, request("k", ""))
		if r := s.Observe(t.Context(), request("barrier", "")); r.Status != sink.OK {
			t.Fatalf("%+v", r)
		}
		cancel()
		wait()
		gone := s.Gone()[0]
		<-gone
		if n := s.Stats().Faults[wasmhost.FaultBudget]; n != 1 {
			t.Errorf("%d faults", n)
		}
	})
	t.Run("configure", func(t *testing.T) {
		p := load(t, asmHost(t, nil), "asm", counting(asm.Guest{Configure: loop}).Bytes())
		_, err := p.Open(t.Context(), wasmhost.SinkConfig{Name: "test", Limits: limits})
		if !errors.Is(err, wasmhost.ErrFault) || !strings.Contains(err.Error(), "entry_cpu") {
			t.Error(err)
		}
	})
	if testing.Short() {
		return // describe and _initialize have the default budget
	}
	for name, g := range map[string]asm.Guest{"describe": {Describe: loop}, "_initialize": {Init: loop}} {
		t.Run(name, func(t *testing.T) {
			_, err := asmHost(t, nil).Load(t.Context(), counting(g).Bytes(), "asm")
			if !errors.Is(err, wasmhost.ErrFault) || !strings.Contains(err.Error(), "entry_cpu") {
				t.Error(err)
			}
		})
	}
}

// What the host does for a guest is work too: none of these loops burns much
// fuel of its own.
func TestALoopThatKeepsTheHostBusyIsStoppedToo(t *testing.T) {
	call := func(name string, args ...asm.Code) asm.Code { return asm.Seq(asm.Seq(args...), asm.CallImport(name)) }
	for _, c := range []struct {
		name string
		body asm.Code
	}{
		{"input_read", call("input_read", asm.I32(65536))},
		{"random_get", asm.Seq(call("random_get", asm.I32(0), asm.I32(65536)), asm.Drop)},
		{"log", asm.Log(asm.AtManifest, 2000)},
		{"fd_write", asm.Seq(call("fd_write", asm.I32(2), asm.I32(700), asm.I32(1), asm.I32(800)), asm.Drop)},
		{"io_start and io_cancel", asm.Seq(asm.Get(1), asm.I32(asm.IOSleep), asm.I32(asm.AtSleep), asm.I32(len(asm.SleepMessage(60_000))), asm.CallImport("io_start"), asm.CallImport("io_cancel"))},
		{"poll_oneoff that sleeps", asm.Seq(call("poll_oneoff", asm.I32(4096), asm.I32(16384), asm.I32(1), asm.I32(800)), asm.Drop)},
		{"memory.grow that is refused", asm.Seq(asm.I32(60_000), asm.MemoryGrow, asm.Drop)},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := counting(asm.Misbehave(asm.Forever(count, c.body)))
			g.Pages = 300
			// An iovec of 2000 bytes at 0, and a subscription for the monotonic clock in 1s.
			g.Data = map[int]string{700: "\x00\x00\x00\x00\xd0\x07\x00\x00", 4096 + 16: "\x01\x00\x00\x00\x00\x00\x00\x00\x00\xca\x9a\x3b"}
			const budget = 100 * time.Millisecond
			s := openASM(t, g, wasmhost.SinkConfig{Limits: wasmhost.Limits{EntryCPU: budget}})
			payload := ""
			if c.name == "input_read" {
				payload = strings.Repeat("x", 16<<20)
			}
			r := s.Apply(t.Context(), request("k", payload))
			if r.Status != sink.Fault || s.Stats().Faults[wasmhost.FaultBudget] != 1 {
				t.Fatalf("%+v", r)
			}
			if used := s.Stats().CPU; used > 4*budget {
				t.Errorf("it used %v", used)
			}
			if n := s.Stats().IOs; n != 0 {
				t.Errorf("%d I/Os are left", n)
			}
		})
	}
}

func TestAGuestThatComputesLetsOthersAndTheCollectorRun(t *testing.T) {
	h := asmHost(t, nil)
	busy := open(t, load(t, h, "asm", spinner().Bytes()), wasmhost.SinkConfig{Name: "busy", Limits: wasmhost.Limits{EntryCPU: time.Hour, CallTimeout: time.Hour}})
	other := open(t, load(t, h, "asm", asm.Misbehave(asm.Nop).Bytes()), wasmhost.SinkConfig{Name: "other"})
	ctx, cancel := context.WithCancel(t.Context())
	var waits []func() sink.Result
	for i := range runtime.GOMAXPROCS(0) {
		waits = append(waits, busy.Start(ctx, abi.OpApply, request(fmt.Sprint(i), "")))
	}
	for i := range 50 {
		if r := other.Apply(t.Context(), request(fmt.Sprint(i), "")); r.Status != sink.OK {
			t.Fatalf("%+v", r)
		}
		if i%10 == 0 {
			runtime.GC() // stops the world, and would wait for the guest
		}
	}
	if n := busy.Stats().Faults[wasmhost.FaultBudget]; n != 0 {
		t.Errorf("%d faults", n)
	}
	// And a sink that closes does not wait for the guest.
	if err := busy.Close(t.Context()); err != nil {
		t.Error(err)
	}
	cancel()
	for _, wait := range waits {
		if r := wait(); r.Status != sink.Unreachable {
			t.Errorf("%+v", r)
		}
	}
	if f := busy.Stats().Faults; f[wasmhost.FaultBudget]+f[wasmhost.FaultTrap] != 0 {
		t.Errorf("closing was charged as a fault: %v", f)
	}
}

func TestShortEntriesAreChargedToo(t *testing.T) {
	s := openASM(t, counting(asm.Misbehave(asm.Times(1000, 3, count))), wasmhost.SinkConfig{})
	for i := range 2000 {
		if r := s.Apply(t.Context(), request(fmt.Sprint(i%10), "")); r.Status != sink.OK {
			t.Fatalf("%+v", r)
		}
	}
	if s.Stats().CPU == 0 {
		t.Error("2000 calls of some thousand instructions each used no CPU time")
	}
}

// With nothing free for all, a sink that is not alone has its share and no more.
func TestASinkThatIsNotAloneHasItsShareOfAProcessor(t *testing.T) {
	const share = 0.05
	h := asmHost(t, nil)
	wasmhost.LeaveNothingFree(h)
	p := load(t, h, "asm", spinner().Bytes())
	limits := wasmhost.Limits{EntryCPU: 200 * time.Millisecond, CPUShare: share}
	greedy := open(t, p, wasmhost.SinkConfig{Name: "greedy", Limits: limits})
	greedy.Apply(t.Context(), request("a", ""))
	if st := greedy.Stats(); st.Throttled != 0 || st.CPU < limits.EntryCPU {
		t.Errorf("alone it was held back: %+v", st)
	}
	// One goroutine stays within two processors, however its short entries are estimated.
	other := open(t, p, wasmhost.SinkConfig{Name: "other", Limits: wasmhost.Limits{CPUShare: 2}})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				other.Observe(context.Background(), request("b", ""))
			}
		}
	})
	before, began := greedy.Stats().CPU, time.Now()
	greedy.Apply(t.Context(), request("a", ""))
	took, st := time.Since(began), greedy.Stats()
	close(stop)
	wg.Wait()
	used := st.CPU - before
	t.Logf("%v of CPU time in %v; held back for %v", used, took, st.Throttled)
	// What it may have saved is a second's share; a slice comes before the first look.
	if most := time.Duration(share*float64(took+time.Second)) + 20*time.Millisecond; used > most {
		t.Errorf("it used %v, more than %v", used, most)
	}
	if st.Throttled == 0 || other.Stats().Throttled != 0 {
		t.Errorf("held back: the greedy one for %v, the other for %v", st.Throttled, other.Stats().Throttled)
	}
}

func TestACallThatIsHeldBackSeesItsCancellation(t *testing.T) {
	h := asmHost(t, nil)
	wasmhost.LeaveNothingFree(h)
	p := load(t, h, "asm", spinner().Bytes())
	// At this share it would be held back for days.
	greedy := open(t, p, wasmhost.SinkConfig{Name: "greedy", Limits: wasmhost.Limits{EntryCPU: 50 * time.Millisecond, CPUShare: 1e-7, CallTimeout: time.Hour}})
	other := open(t, p, wasmhost.SinkConfig{Name: "other"})
	ctx, cancel := context.WithCancel(t.Context())
	wait := greedy.Start(ctx, abi.OpApply, request("a", ""))
	for greedy.Stats().CPU == 0 || !wasmhost.HeldBack(greedy) {
		other.Observe(t.Context(), request("b", ""))
	}
	cancel()
	done := make(chan sink.Result, 1)
	go func() { done <- wait() }()
	for {
		select {
		case r := <-done:
			if r.Status != sink.Fault && r.Status != sink.Unreachable {
				t.Errorf("%+v", r)
			}
			return
		default:
			other.Observe(t.Context(), request("b", ""))
		}
	}
}
