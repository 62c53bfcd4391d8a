package wasmhost

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/pawlsync/pawl/engine/wasmhost/abi"
	"github.com/pawlsync/pawl/engine/wasmhost/meter"
)

// Options configure a Host; the zero value works.
type Options struct {
	// CacheDir keeps compiled plugins between runs, one folder per plugin. It is
	// created with mode 0700; an existing folder that others can reach is
	// refused. What was not used for 30 days is removed. Defaults to pawl/wasm in
	// the user's cache folder; where there is none, every start compiles anew.
	CacheDir string
	// MemoryBytes is the most that an instance's memory may grow to, for every
	// sink. Defaults to 256 MiB.
	MemoryBytes int64
	// TotalMemoryBytes is the most that the memories of all instances of all sinks
	// may take together. Defaults to 4 GiB.
	TotalMemoryBytes int64
	// Module bounds what modules look like, their stack and tables among it.
	Module meter.Limits
	// Compiler says how modules are compiled that Load is given, and LoadTrusted
	// is not.
	Compiler Compiler
	// Logger gets the host's and the guests' lines. Defaults to none.
	Logger *slog.Logger
}

// Host compiles plugins. It is safe for concurrent use.
type Host struct {
	cacheDir   string // "": no disk cache
	memory     int64
	log        *slog.Logger
	module     meter.Limits
	compiler   Compiler
	compiling  sync.Mutex // one process at a time, so that its limits hold for all together
	compiles   compileCounts
	memories   memoryBudget // of all instances
	processors *processors

	mu    sync.Mutex
	sinks map[*Sink]struct{} // that have not been closed
}

// New returns a Host.
//
// # Errors
//
// An *Error that wraps ErrCacheDir where the cache's folder can't be made or
// trusted.
func New(_ context.Context, o Options) (*Host, error) {
	h := &Host{
		cacheDir: o.CacheDir, memory: o.MemoryBytes, log: o.Logger,
		module: o.Module, compiler: o.Compiler, sinks: make(map[*Sink]struct{}), processors: newProcessors(),
	}
	h.compiler.setDefaults()
	if h.memories.limit = o.TotalMemoryBytes; h.memories.limit == 0 {
		h.memories.limit = 4 << 30
	}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	if h.memory == 0 {
		h.memory = 256 << 20
	}
	if h.memory < pageBytes || h.memory > 4<<30 {
		return nil, &Error{Op: "new", Err: fmt.Errorf("%w: MemoryBytes is %d", ErrConfig, h.memory), Hint: "use 64 KiB to 4 GiB"}
	}
	if h.memories.limit < h.memory {
		return nil, &Error{Op: "new", Err: fmt.Errorf("%w: TotalMemoryBytes is %d, less than MemoryBytes, %d", ErrConfig, h.memories.limit, h.memory)}
	}
	if err := h.compiler.validate(); err != nil {
		return nil, &Error{Op: "new", Err: fmt.Errorf("%w: %w", ErrConfig, err)}
	}
	if h.cacheDir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			h.log.Warn("no compile cache: plugins are compiled at every start", "cause", err)
			return h, nil
		}
		h.cacheDir = filepath.Join(base, "pawl", "wasm")
	}
	if err := openCacheDir(h.cacheDir); err != nil {
		return nil, &Error{Op: "new", Err: err, Hint: "make sure that nobody else wrote to it, or remove it; then chmod 700, or set another folder"}
	}
	if err := pruneCache(h.cacheDir, time.Now().Add(-cacheAge)); err != nil {
		h.log.Warn("the compile cache was not tidied", "dir", h.cacheDir, "cause", err)
	}
	return h, nil
}

// Plugin is a compiled plugin. It is safe for concurrent use.
type Plugin struct {
	name     string
	digest   [sha256.Size]byte
	size     int
	manifest abi.Manifest
	host     *Host
	runtime  wazero.Runtime
	cache    wazero.CompilationCache
	compiled wazero.CompiledModule
}

// Name returns the name that the plugin was loaded under.
func (p *Plugin) Name() string { return p.name }

// Digest is what a module's file is known by, its SHA-256. It is worked out in
// pieces, so that nothing waits for it as it would for sha256.Sum256.
func Digest(wasm []byte) [sha256.Size]byte { return hash(wasm) }

// Digest returns the SHA-256 of the plugin's file.
func (p *Plugin) Digest() [sha256.Size]byte { return p.digest }

// SizeBytes returns the size of the plugin's file.
func (p *Plugin) SizeBytes() int { return p.size }

// Manifest returns what the plugin says of itself; it is not to be changed.
func (p *Plugin) Manifest() *abi.Manifest { return &p.manifest }

// Close releases the plugin. Its sinks are closed before.
func (p *Plugin) Close(ctx context.Context) error {
	err := p.runtime.Close(ctx)
	if p.cache != nil {
		err = errors.Join(err, p.cache.Close(ctx))
	}
	return err
}

// startBytes is the memory that an instance starts with.
func (p *Plugin) startBytes() int64 {
	return int64(p.compiled.ExportedMemories()[exportMemory].Min()) * pageBytes
}

// Load checks and compiles a plugin, or takes it from the compile cache, and
// asks it for its manifest. name is what errors, logs and metrics call it.
//
// # Errors
//
// An *Error that wraps ErrInvalid: no module of this ABI, or a wrong manifest;
// ErrCompile too: it can't be compiled within the Compiler's limits; ErrFault:
// it trapped while it was asked.
func (h *Host) Load(ctx context.Context, wasm []byte, name string) (*Plugin, error) {
	return h.loadOrExplain(ctx, wasm, name, false)
}

// LoadTrusted is Load for a module from a source that the operator trusts: it is
// compiled in this process. When it runs it is limited as any other.
func (h *Host) LoadTrusted(ctx context.Context, wasm []byte, name string) (*Plugin, error) {
	return h.loadOrExplain(ctx, wasm, name, true)
}

func (h *Host) loadOrExplain(ctx context.Context, wasm []byte, name string, trusted bool) (*Plugin, error) {
	p, err := h.load(ctx, wasm, name, trusted)
	if err == nil {
		return p, nil
	}
	if p != nil && p.runtime != nil {
		_ = p.Close(ctx)
	}
	var f *Fault
	if !errors.As(err, &f) && !errors.Is(err, context.Cause(ctx)) {
		err = fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	hint := "check that the file is a Pawl plugin built for ABI version 1"
	if errors.Is(err, ErrCompile) {
		hint = "use another build of the plugin; raise the limit, or mark the plugin as trusted, only if you know where it comes from"
	}
	return nil, &Error{Op: "load", Plugin: name, Err: err, Hint: hint}
}

func (h *Host) load(ctx context.Context, wasm []byte, name string, trusted bool) (*Plugin, error) {
	if err := checkBinary(wasm); err != nil {
		return nil, err
	}
	p := &Plugin{name: name, digest: hash(wasm), size: len(wasm), host: h}
	// The rewritten module is compiled and cached; the digest stays the file's.
	metered, err := meter.Rewrite(wasm, h.module)
	if err != nil {
		return p, err
	}
	if err := p.compile(ctx, metered, trusted); err != nil {
		return p, err
	}
	if err := checkExports(p.compiled); err != nil {
		return p, err
	}
	if n := p.startBytes(); n > h.memory {
		return p, fmt.Errorf("it asks for %d bytes of memory to start with, more than the %d allowed", n, h.memory)
	}
	if err := linkHost(ctx, p.runtime); err != nil {
		return p, err
	}
	m, err := p.describe(ctx)
	if err != nil {
		return p, err
	}
	p.manifest = *m
	return p, checkManifest(m)
}

// describe runs the op of that name in an instance of its own.
func (p *Plugin) describe(ctx context.Context) (*abi.Manifest, error) {
	s := newSink(p, SinkConfig{}, Limits{}.withDefaults(p.host.memory))
	a, err := s.boot(ctx, abi.OpDescribe, nil)
	// Its instance ends at the next checkpoint, and nothing may run in the plugin
	// when that is closed: so ctx ends the call but not the wait.
	if cerr := s.Close(context.WithoutCancel(ctx)); err == nil {
		err = cerr
	}
	switch {
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case a.manifest == nil:
		return nil, fmt.Errorf("describe ended without an answer: %s", a.result.Message)
	}
	return a.manifest, nil
}

func checkManifest(m *abi.Manifest) error {
	switch {
	case m.Name == "":
		return errors.New("its manifest has no name")
	case !m.Has(abi.OpApply):
		return errors.New("its manifest does not list the op apply")
	case !m.FindsByKey:
		return errors.New("its manifest does not claim finds_by_key: an adapter that can't find its object by key would create it twice")
	case m.BatchMax > 1 && !m.Has(abi.OpApplyBatch):
		return fmt.Errorf("its manifest has batch_max %d but does not list the op apply_batch", m.BatchMax)
	}
	if err := checkInbound(m); err != nil {
		return err
	}
	return checkSagas(m)
}

// checkInbound refuses what could not be told from a target that is empty.
func checkInbound(m *abi.Manifest) error {
	switch {
	case m.Has(abi.OpPoll) && !m.ReportsContent:
		return errors.New("its manifest lists the op poll but does not claim reports_content: what a poll sees is of use with its content alone")
	case m.ReportsContent && !m.Has(abi.OpObserve):
		return errors.New("its manifest claims reports_content but does not list the op observe, which reports it")
	}
	return nil
}

// checkSagas refuses claims to take part in sagas that can't be kept: a saga that
// relies on them would find out in the middle.
func checkSagas(m *abi.Manifest) error {
	switch {
	case m.Lock && !m.Mark:
		return errors.New("its manifest claims lock but not mark: whose a lock is is told by the run's mark")
	case m.Lock && !m.Has(abi.OpUnlock):
		return errors.New("its manifest claims lock but does not list the op unlock, which gives locks up")
	case m.Mark && !m.Has(abi.OpObserve):
		return errors.New("its manifest claims mark but does not list the op observe, which tells whose mark an object bears")
	case len(m.Undoable) > 0 && !m.Has(abi.OpRestore):
		return errors.New("its manifest has undoable operations but does not list the op restore, which undoes them")
	}
	for _, op := range m.Undoable {
		switch {
		case op != abi.OpApply && op != abi.OpDelete:
			return fmt.Errorf("its manifest has the op %s among the undoable ones, which can be apply and delete alone", op)
		case !m.Has(op):
			return fmt.Errorf("its manifest says that %s is undoable but does not list that op", op)
		}
	}
	return nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
