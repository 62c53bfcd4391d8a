package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/memory"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/engine/wasmhost/meter"
	asm "github.com/pawlsync/pawl/internal/wasmasm"
)

// Names in every trial.
const (
	goodSink   = "good"
	badSink    = "bad"
	badPlugin  = "hostile"
	victimName = "victim-%d"
)

// arena is one process with both sinks in one engine on one host.
type arena struct {
	ctx       context.Context
	host      *wasmhost.Host
	log       *journal
	engine    *engine.Engine
	bad       *tap // nil where its plugin was refused
	neighbour *neighbour
	plugins   []*wasmhost.Plugin
}

// newArena makes the host; its compile cache is in dir. Untrusted modules are
// compiled by c, or where that has no command, in this process.
func newArena(ctx context.Context, dir string, c wasmhost.Compiler) (*arena, error) {
	a := &arena{ctx: ctx, log: &journal{}}
	var err error
	a.host, err = wasmhost.New(ctx, wasmhost.Options{
		CacheDir: filepath.Join(dir, "cache"), Compiler: c, Module: meter.Limits{Depth: stackBytes},
		Logger: slog.New(slog.NewTextHandler(a.log, nil)),
	})
	return a, err
}

// stackBytes is a quarter of the default. wazero grows a guest's stack by copying
// it on Go's heap; at the default of 16 MiB, which adapters need for JSON that is
// nested 10,000 deep, a guest that is called fifty times a second and recurses to
// the limit each time costs the neighbour four to eight times its 99th percentile.
// Retries and the breaker, which the trials do without, call it far less often.
const stackBytes = 4 << 20

// apart compiles in a process of its own, with little of everything.
func apart() (wasmhost.Compiler, error) {
	self, err := os.Executable()
	return wasmhost.Compiler{Command: []string{self, compileArg}, CPU: 2 * time.Second, MemoryBytes: 512 << 20, Timeout: time.Minute}, err
}

// plugin loads a module; it is closed with the arena.
func (a *arena) plugin(name string, wasm []byte) (*wasmhost.Plugin, error) {
	return a.keep(a.host.Load(a.ctx, wasm, name))
}

func (a *arena) keep(p *wasmhost.Plugin, err error) (*wasmhost.Plugin, error) {
	if err == nil {
		a.plugins = append(a.plugins, p)
	}
	return p, err
}

// open opens the engine with the neighbour's sink and, where there is one, the
// hostile one.
func (a *arena) open(bad *wasmhost.Sink) error {
	p, err := a.keep(a.host.LoadTrusted(a.ctx, goodModule(), "neighbour"))
	if err != nil {
		return err
	}
	good, err := p.Open(a.ctx, wasmhost.SinkConfig{Name: goodSink, Upstreams: []wasmhost.Upstream{near{}}})
	if err != nil {
		return err
	}
	sinks := []engine.SinkOptions{{Name: goodSink, Sink: good, DriftInterval: -1}}
	if bad != nil {
		a.bad = &tap{Sink: bad, plugin: bad, heard: map[string]chan sink.Result{}}
		sinks = append(sinks, engine.SinkOptions{
			Name: badSink, Sink: a.bad, DriftInterval: -1, Timeout: 10 * time.Second,
			// It is called again and again, whatever it does.
			RetryBase: attackPace, RetryMax: attackPace, MaxAttempts: 1 << 20, BreakerAfter: 1 << 20,
		})
	}
	a.neighbour = newNeighbour(func(key string) error {
		_, err := a.engine.Put(a.ctx, engine.Put{Key: record.Key{Sink: goodSink, Name: key}, Payload: []byte(`{"a":1}`)})
		return err
	})
	a.engine, err = engine.Open(a.ctx, engine.Options{
		Store:    func(o outbox.Observer) (outbox.Store, error) { return memory.New(memory.Options{Observer: o}), nil },
		Sinks:    sinks,
		Observer: bell{a.neighbour},
		Logger:   slog.New(slog.NewTextHandler(a.log, nil)),
	})
	return err
}

// close closes all, and says what was left behind.
func (a *arena) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var errs []error
	if a.engine != nil {
		errs = append(errs, a.engine.Close(ctx))
	}
	if a.bad != nil {
		if st := a.bad.plugin.Stats(); st.Instances != 0 || st.MemoryBytes != 0 || st.InFlight != 0 || st.Waiting != 0 || st.HeldBytes != 0 || st.IOs != 0 {
			errs = append(errs, fmt.Errorf("the hostile sink left something behind: %+v", st))
		}
	}
	for _, p := range a.plugins {
		errs = append(errs, p.Close(ctx))
	}
	if n := a.host.Stats().MemoryBytes; n != 0 {
		errs = append(errs, fmt.Errorf("%d bytes of guests' memory are still set aside", n))
	}
	return errors.Join(errs...)
}

// tap is the hostile sink as the engine sees it; it hands every result to the
// attacker whose resource it is about.
type tap struct {
	sink.Sink
	plugin *wasmhost.Sink

	mu    sync.Mutex
	heard map[string]chan sink.Result
}

func (s *tap) Apply(ctx context.Context, r *sink.Request) sink.Result {
	res := s.Sink.Apply(ctx, r)
	select {
	case s.results(r.Key.Name) <- res:
	default: // the attacker has not yet looked at the one before
	}
	return res
}

func (s *tap) results(key string) chan sink.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heard[key] == nil {
		s.heard[key] = make(chan sink.Result, 1)
	}
	return s.heard[key]
}

// Attackers are paced, so that the harm is done by the module and not by how
// often it is called.
const (
	attackers  = 4
	attackPace = 20 * time.Millisecond
)

// attack puts work on the hostile sink from several attackers until ctx ends, and
// hands each result to judge, at least until that says that one tells something.
func (a *arena) attack(ctx context.Context, t *testing.T, judge func(key string, r sink.Result) bool) {
	if err := a.engine.ResumeSink(ctx, badSink); err != nil && !errors.Is(err, engine.ErrNothingToDo) {
		t.Error(err)
	}
	var heard atomic.Bool
	end := time.After(patience)
	var wg sync.WaitGroup
	for i := range attackers {
		wg.Go(func() {
			key := record.Key{Sink: badSink, Name: fmt.Sprintf(victimName, i)}
			results := a.bad.results(key.Name)
			for n := 0; ctx.Err() == nil || !heard.Load(); n++ {
				payload := fmt.Sprintf(`{"n":%d,"secret":%q}`, time.Now().UnixNano(), payloadSecret)
				if _, err := a.engine.Put(a.ctx, engine.Put{Key: key, Payload: []byte(payload)}); err != nil {
					t.Errorf("put %v: %v", key, err)
					return
				}
				over := ctx.Done()
				if !heard.Load() {
					over = nil
				}
				select {
				case r := <-results:
					if judge(key.Name, r) {
						heard.Store(true)
					}
					<-time.After(attackPace)
				case <-over:
					return
				case <-time.After(phaseLength): // somebody else may have heard
				case <-end:
					t.Errorf("%v: no call ended in a way that tells something", key)
					return
				}
			}
		})
	}
	wg.Wait()
}

// calm holds the hostile sink back and waits until it has come to rest.
func (a *arena) calm(t *testing.T) {
	if a.bad == nil {
		return
	}
	if err := a.engine.SuspendSink(a.ctx, badSink); err != nil {
		t.Error(err)
	}
	eventually(t, "the hostile sink's calls have ended", func() bool {
		st := a.bad.plugin.Stats()
		return st.InFlight == 0 && st.Waiting == 0
	})
}

// payloadSecret is in every payload, and must be in no message.
const payloadSecret = "PAYLOAD-IS-NOT-FOR-LOGS"

// goodModule parks every call in a request to its target.
func goodModule() []byte {
	return asm.Guest{
		Manifest: manifest("neighbour"), Pages: 64,
		Start:  asm.Seq(asm.Park(asm.IOHTTP, asm.AtHTTP, len(asm.HTTPPut)), asm.Want(1)),
		Resume: asm.Seq(asm.ResumeOK, asm.I32(1)),
	}.Bytes()
}

// manifest is of an adapter that applies and deletes, and confirms at once: so
// every delivery is one call.
func manifest(name string) []byte {
	b := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
	for _, field := range [][2]uint64{{3, asm.OpApply}, {3, asm.OpDelete}, {6, 1}, {7, 1}, {8, 1}} {
		b = protowire.AppendVarint(protowire.AppendTag(b, protowire.Number(field[0]), protowire.VarintType), field[1])
	}
	return b
}

// near is a target that answers everything a little later.
type near struct{}

func (near) Name() string    { return "target" }
func (near) Kind() string    { return "http" }
func (near) BaseURL() string { return "http://target.test" }
func (near) Do(ctx context.Context, _ *upstream.Request) (*upstream.Response, *upstream.Failure) {
	select {
	case <-time.After(targetLatency):
		return &upstream.Response{Status: 200}, nil
	case <-ctx.Done():
		return nil, &upstream.Failure{Upstream: "target", Kind: upstream.FailCancelled, Message: ctx.Err().Error(), MaybeSent: true}
	}
}

// journal keeps what was logged, up to a bound: a flood of lines is a finding.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const journalMost = 64 << 20

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.buf.Len() < journalMost {
		j.buf.Write(b)
	}
	return len(b), nil
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.String()
}

func (j *journal) size() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Len()
}

// highWater runs do and returns by how much the process grew meanwhile, at most.
func (a *arena) highWater(do func()) int64 {
	runtime.GC()
	inUse := func() int64 { return goMemory() + a.host.Stats().MemoryBytes }
	before, peak := inUse(), int64(0)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			peak = max(peak, inUse()-before)
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	do()
	close(stop)
	<-stopped
	return peak
}

// goMemory is what the Go runtime has mapped and neither given back nor holds
// free.
func goMemory() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64() - s[2].Value.Uint64())
}

// eventually looks until ok is true: for what follows soon after something that
// the test has seen, and which tells nobody. Looking is to cost little beside
// what is measured.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.After(patience)
	for !ok() {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-end:
			t.Errorf("it never came to pass: %s", what)
			return
		}
	}
}
