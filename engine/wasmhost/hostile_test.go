package wasmhost_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"

	asm "github.com/pawlsync/pawl/internal/wasmasm"
)

// Units that cost nothing make the estimate of what a unit costs fall; entries
// that end before their second checkpoint are charged by that estimate.
func TestCheapUnitsDontHideDearOnes(t *testing.T) {
	cheap := asm.Times(20, 3, asm.I32(60_000), asm.MemoryGrow, asm.Drop)
	// A function's reference costs few units and a way out of the guest's code.
	work := asm.Times(10_000, 3, asm.RefFunc(asm.OwnFunc("pawl_abi")), asm.Drop)
	g := asm.Misbehave(cheap)
	g.Start = asm.Seq(asm.OnOp(asm.OpObserve, work), g.Start)
	s := openASM(t, g, wasmhost.SinkConfig{})
	for range 5 {
		if r := s.Apply(t.Context(), request("cheap", "")); r.Status != sink.OK {
			t.Fatalf("%+v", r)
		}
	}
	before, process := s.Stats().CPU, cpuTime(t)
	for range 500 {
		if r := s.Observe(t.Context(), request("dear", "")); r.Status != sink.OK {
			t.Fatalf("%+v", r)
		}
	}
	used := s.Stats().CPU - before
	process = cpuTime(t) - process
	t.Logf("%v by its meter, %v of the process", used, process)
	if used < process/4 {
		t.Errorf("its meter says %v, and the process used %v", used, process)
	}
}

// Whoever loads a plugin may lose patience while it runs. It does not run on in a
// plugin that was closed.
func TestALoadThatIsCancelledWaitsForTheGuestToEnd(t *testing.T) {
	h := asmHost(t, nil)
	g := counting(asm.Guest{Describe: asm.Want(2), Poll: asm.I32(2), Cancel: asm.Seq(asm.Forever(count), asm.I32(0))})
	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(100*time.Millisecond, cancel).Stop()
	if _, err := h.Load(ctx, g.Bytes(), "asm"); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	if n := h.Stats().MemoryBytes; n != 0 {
		t.Errorf("an instance still holds %d bytes", n)
	}
}

// Requests that wait for the upstream are the host's memory.
func TestRequestsUnderWayAreBoundedInBytes(t *testing.T) {
	const size = 1 << 20
	start := asm.Seq(asm.Get(1), asm.I32(asm.IOHTTP), asm.I32(1<<20), asm.I32(size), asm.CallImport("io_start"))
	message := asm.HTTPMessage("target", "PUT", "/x") + "\x2a" + string(asm.ULEB(size-len(asm.HTTPPut)-4))
	g := asm.Guest{
		Pages: 40, Data: map[int]string{1 << 20: message},
		Start:  asm.Seq(asm.Repeat(10, asm.Seq(start, asm.Drop)), asm.Want(1)),
		Resume: asm.I32(1),
	}
	ended := make(chan struct{})
	up := &fakeUpstream{name: "target", do: func(ctx context.Context, r *upstream.Request) (*upstream.Response, *upstream.Failure) {
		<-ctx.Done()
		return nil, &upstream.Failure{Kind: upstream.FailTimeout, Message: "no answer"}
	}}
	s := openASM(t, g, wasmhost.SinkConfig{Upstreams: []wasmhost.Upstream{up}, Limits: wasmhost.Limits{InFlightBytes: 2 * size}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		s.Apply(ctx, request("k", ""))
		close(ended)
	}()
	for s.Stats().Limited[wasmhost.LimitInFlight] < 6 && ctx.Err() == nil {
		select {
		case <-ended:
			t.Fatal("the call ended")
		case <-time.After(time.Millisecond):
		}
	}
	if st := s.Stats(); st.IOs != 4 {
		t.Errorf("%d requests of %d bytes are under way", st.IOs, size)
	}
	cancel()
	<-ended
	if st := s.Stats(); st.HeldBytes != 0 {
		t.Errorf("afterwards %d bytes are held", st.HeldBytes)
	}
}
