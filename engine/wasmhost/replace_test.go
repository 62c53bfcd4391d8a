package wasmhost_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/memory"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/engine/wasmhost/abi"

	asm "github.com/pawlsync/pawl/internal/wasmasm"
)

// versionOf is a plugin whose Apply sends PUT /vN, and when that is answered says
// OK with the ref vN: so one sees at both ends which version it was.
func versionOf(n int) []byte {
	name := fmt.Sprint("v", n)
	put := asm.HTTPMessage("target", "PUT", "/"+name)
	observation := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
	observation = protowire.AppendString(protowire.AppendTag(observation, 2, protowire.BytesType), name)
	ok := string(protowire.AppendBytes(protowire.AppendTag([]byte(asm.OKResult), 5, protowire.BytesType), observation))
	manifest := asm.Manifest(0)
	for _, flag := range []protowire.Number{6, 7} { // apply_confirms, apply_idempotent
		manifest = protowire.AppendVarint(protowire.AppendTag(manifest, flag, protowire.VarintType), 1)
	}
	manifest = protowire.AppendString(protowire.AppendTag(manifest, 2, protowire.BytesType), name)
	const atPut, atAnswer = 4096, 5120
	return asm.Guest{
		Manifest: manifest,
		Data:     map[int]string{atPut: put, atAnswer: ok},
		Start:    asm.Seq(asm.Park(asm.IOHTTP, atPut, len(put)), asm.Want(1)),
		Resume:   asm.Seq(asm.ResumeAnswer(atAnswer, len(ok)), asm.I32(1)),
	}.Bytes()
}

// gate is a target that holds its requests until it is opened, and counts them.
type gate struct {
	open chan struct{}

	mu      sync.Mutex
	arrived map[string]int
	wait    map[string]chan struct{} // closed when so many have come as a test waits for
	most    int
}

func newGate(most int) *gate {
	return &gate{open: make(chan struct{}), arrived: map[string]int{}, wait: map[string]chan struct{}{}, most: most}
}

// all is closed when all requests of a path are there.
func (g *gate) all(path string) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.allLocked(path)
}

func (g *gate) allLocked(path string) chan struct{} {
	if g.wait[path] == nil {
		g.wait[path] = make(chan struct{})
	}
	return g.wait[path]
}

func (g *gate) do(ctx context.Context, r *upstream.Request) (*upstream.Response, *upstream.Failure) {
	g.mu.Lock()
	g.arrived[r.Path]++
	if g.arrived[r.Path] == g.most {
		close(g.allLocked(r.Path))
	}
	g.mu.Unlock()
	select {
	case <-g.open:
		return &upstream.Response{Status: 200}, nil
	case <-ctx.Done():
		return nil, &upstream.Failure{Kind: upstream.FailCancelled, MaybeSent: true}
	}
}

func openEngine(t *testing.T, s sink.Sink) *engine.Engine {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{
		Sinks: []engine.SinkOptions{{Name: "test", Sink: s, MaxInFlight: 100_000, DriftInterval: -1}},
		Store: func(o outbox.Observer) (outbox.Store, error) {
			return memory.Open(memory.NewDisk(), memory.Options{Observer: o})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close(context.Background()) })
	return e
}

// loadVersion returns a plugin that the test closes itself.
func loadVersion(t *testing.T, h *wasmhost.Host, wasm []byte) *wasmhost.Plugin {
	t.Helper()
	p, err := h.Load(t.Context(), wasm, "asm")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func openVersion(t *testing.T, p *wasmhost.Plugin, do func(context.Context, *upstream.Request) (*upstream.Response, *upstream.Failure), old *wasmhost.Sink) *wasmhost.Sink {
	t.Helper()
	s, err := p.Open(t.Context(), wasmhost.SinkConfig{Name: "test", Upstreams: upstreams(do), Replaces: old,
		Limits: wasmhost.Limits{CallTimeout: 1 << 50}}) // it is the gate that decides
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Twenty swaps, each while the calls of all versions before are in flight: every
// call is answered once, by the version that it began with.
func TestSwappingAPluginUnderLoadLosesNoCallAndRepeatsNone(t *testing.T) {
	swaps, each := 20, 200
	if testing.Short() {
		swaps, each = 5, 50
	}
	h, g := asmHost(t, nil), newGate(each)
	p := loadVersion(t, h, versionOf(0))
	s := openVersion(t, p, g.do, nil)
	e := openEngine(t, s)
	key := func(version, n int) record.Key {
		return record.Key{Sink: "test", Name: fmt.Sprintf("%d/%d", version, n)}
	}
	put := func(version int) {
		for n := range each {
			if _, err := e.Put(t.Context(), engine.Put{Key: key(version, n), Payload: []byte(`{}`)}); err != nil {
				t.Fatal(err)
			}
		}
		<-g.all(fmt.Sprint("/v", version))
	}
	put(0)
	var replaced sync.WaitGroup
	for version := 1; version <= swaps; version++ {
		next := loadVersion(t, h, versionOf(version))
		old, oldPlugin := s, p
		s, p = openVersion(t, next, g.do, old), next
		retired, err := e.ReplaceSink("test", s)
		if err != nil {
			t.Fatal(err)
		}
		replaced.Go(func() { // when the last call of the old one has ended
			if err := <-retired; err != nil {
				t.Error(err)
			}
			if err := oldPlugin.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		if got := e.Sinks()[0].Plugin; got != fmt.Sprintf("asm v%d", version) {
			t.Errorf("status names %q after version %d took its place", got, version)
		}
		put(version)
	}
	if n := e.Sinks()[0].InFlight; n != (swaps+1)*each {
		t.Errorf("%d calls are in flight, want %d", n, (swaps+1)*each)
	}
	close(g.open)
	for version := range swaps + 1 {
		for n := range each {
			if w, err := e.Wait(t.Context(), key(version, n), 1); err != nil || !w.Done {
				t.Fatalf("%v: %+v, %v", key(version, n), w, err)
			}
			r, err := e.Get(t.Context(), key(version, n))
			if err != nil || r.Status.Acked == nil || r.Status.Acked.Ref != fmt.Sprint("v", version) || r.Status.Attempts != 0 {
				t.Fatalf("%v is acknowledged by %+v after %d attempts, want v%d, %v", key(version, n), r.Status.Acked, r.Status.Attempts, version, err)
			}
		}
	}
	replaced.Wait()
	for path, n := range g.arrived {
		if n != each {
			t.Errorf("%d requests for %s, want %d", n, path, each)
		}
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAHundredSwapsLeaveNothingBehind(t *testing.T) {
	h, g := asmHost(t, nil), newGate(0)
	close(g.open)
	modules := [][]byte{versionOf(0), versionOf(1)}
	p := loadVersion(t, h, modules[0])
	s := openVersion(t, p, g.do, nil)
	e := openEngine(t, s)
	var put uint64
	swap := func(n int) {
		next := loadVersion(t, h, modules[(n+1)%2])
		s = openVersion(t, next, g.do, s)
		retired, err := e.ReplaceSink("test", s)
		if err != nil {
			t.Fatal(err)
		}
		if err := <-retired; err != nil {
			t.Fatal(err)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		p = next
		for range 10 {
			put++
			key := record.Key{Sink: "test", Name: "k"}
			r, err := e.Put(t.Context(), engine.Put{Key: key, Payload: fmt.Append(nil, put)})
			if err != nil {
				t.Fatal(err)
			}
			if w, err := e.Wait(t.Context(), key, r.Generation); err != nil || !w.Done {
				t.Fatalf("%+v, %v", w, err)
			}
		}
	}
	for n := range 20 {
		swap(n)
	}
	before := left()
	for n := range 100 {
		swap(n)
	}
	after := left()
	for range 10_000 { // the last call's goroutine may still be about to end
		if after.goroutines <= before.goroutines {
			break
		}
		runtime.Gosched()
		after = left()
	}
	t.Logf("before %+v, after %+v", before, after)
	if after.goroutines > before.goroutines || after.code > 2*before.code { // code goes when a finalizer has run
		t.Errorf("before %+v, after %+v", before, after)
	}
	if after.heap > before.heap*3/2 {
		t.Errorf("the heap grew from %d to %d bytes", before.heap, after.heap)
	}
}

// remains are what a swap could leave behind.
type remains struct {
	goroutines int
	heap       uint64
	code       int64 // bytes of compiled code; 0 where there is no /proc
}

func left() remains {
	runtime.GC()
	runtime.GC() // what has a finalizer goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	r := remains{goroutines: runtime.NumGoroutine(), heap: m.HeapAlloc}
	maps, _ := os.ReadFile("/proc/self/maps")
	for line := range strings.Lines(string(maps)) { // executable, and no file's
		var from, to int64
		if n, _ := fmt.Sscanf(line, "%x-%x r-xp 00000000 00:00 0", &from, &to); n == 2 && strings.Contains(line, " r-xp 00000000 00:00 0") && !strings.Contains(line, "[") {
			r.code += to - from
		}
	}
	return r
}

func TestASuspectStaysOneWhenThePluginIsReplaced(t *testing.T) {
	p := load(t, asmHost(t, nil), "asm", faulty().Bytes())
	old := open(t, p, wasmhost.SinkConfig{})
	if r := old.Delete(t.Context(), request("bad", "")); r.Status != sink.Fault {
		t.Fatalf("got %+v", r)
	}
	s := open(t, p, wasmhost.SinkConfig{Replaces: old})
	bystander := s.Start(t.Context(), abi.OpApply, request("a", "{}"))
	if r := s.Delete(t.Context(), request("bad", "")); r.Status != sink.Fault || r.Suspect {
		t.Errorf("got %+v", r)
	}
	if r := bystander(); r.Status != sink.OK {
		t.Errorf("a bystander in the new sink: %v: %s", r.Status, r.Message)
	}
	if n := s.Stats().Restarts; n != 0 {
		t.Errorf("%d calls were restarted: the suspect did not run alone", n)
	}
	// And one that the old sink suspects while it drains.
	if r := old.Delete(t.Context(), request("worse", "")); r.Status != sink.Fault {
		t.Fatalf("got %+v", r)
	}
	bystander = s.Start(t.Context(), abi.OpApply, request("a", "{}"))
	s.Delete(t.Context(), request("worse", ""))
	if r := bystander(); r.Status != sink.OK || s.Stats().Restarts != 0 {
		t.Errorf("a bystander: %v: %s, %d restarts", r.Status, r.Message, s.Stats().Restarts)
	}
}

func TestWhatStandsInForASinkThatIsNotReadyKnowsAllButItsTarget(t *testing.T) {
	const refused = "\x08\x0a\x12\x12connection refused" // status UNREACHABLE
	p := load(t, asmHost(t, nil), "asm", asm.Guest{
		Data: map[int]string{512: refused}, Configure: asm.Seq(asm.Answer(1, 512, len(refused)), asm.Want(0)),
	}.Bytes())
	_, err := p.Open(t.Context(), wasmhost.SinkConfig{Name: "s"})
	if !errors.Is(err, wasmhost.ErrUnready) {
		t.Fatal(err)
	}
	s := p.Unready(err)
	m := s.Manifest()
	digest := p.Digest()
	if m.Name != "asm" || !m.Observes || !m.Deletes || m.BatchMax != 10 || m.Target != "" || m.Digest != fmt.Sprintf("%x", digest) {
		t.Errorf("got %+v", m)
	}
	if m.NotReady != "target not ready: unreachable: connection refused" {
		t.Errorf("it says %q", m.NotReady)
	}
	if r := s.Apply(t.Context(), request("k", "")); r.Status != sink.Unreachable || !r.NotSent || !strings.Contains(r.Message, "connection refused") {
		t.Errorf("a call: %+v", r)
	}
}
