package wasmhost

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/pawlsync/pawl/engine/wasmhost/abi"
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
	// Logger gets the host's and the guests' lines. Defaults to none.
	Logger *slog.Logger
}

// Host compiles plugins. It is safe for concurrent use.
type Host struct {
	cacheDir string // "": no disk cache
	memory   int64
	log      *slog.Logger
}

// New returns a Host.
//
// # Errors
//
// An *Error that wraps ErrCacheDir where the cache's folder can't be made or
// trusted.
func New(_ context.Context, o Options) (*Host, error) {
	h := &Host{cacheDir: o.CacheDir, memory: o.MemoryBytes, log: o.Logger}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	if h.memory == 0 {
		h.memory = 256 << 20
	}
	if h.memory < pageBytes || h.memory > 4<<30 {
		return nil, &Error{Op: "new", Err: fmt.Errorf("%w: MemoryBytes is %d", ErrConfig, h.memory), Hint: "use 64 KiB to 4 GiB"}
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

// Load checks and compiles a plugin, or takes it from the compile cache, and
// asks it for its manifest. name is what errors, logs and metrics call it.
//
// # Errors
//
// An *Error that wraps ErrInvalid: no module of this ABI, or a wrong manifest;
// ErrFault: it trapped while it was asked.
func (h *Host) Load(ctx context.Context, wasm []byte, name string) (*Plugin, error) {
	p, err := h.load(ctx, wasm, name)
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
	return nil, &Error{Op: "load", Plugin: name, Err: err, Hint: "check that the file is a Pawl plugin built for ABI version 1"}
}

func (h *Host) load(ctx context.Context, wasm []byte, name string) (*Plugin, error) {
	if err := checkBinary(wasm); err != nil {
		return nil, err
	}
	p := &Plugin{name: name, digest: sha256.Sum256(wasm), size: len(wasm), host: h}
	// Metering belongs here: the module is rewritten, and it is the rewritten
	// bytes that are compiled and cached; digest stays that of the file.
	if err := p.compile(ctx, wasm); err != nil {
		return p, err
	}
	if err := checkExports(p.compiled); err != nil {
		return p, err
	}
	if n := int64(p.compiled.ExportedMemories()[exportMemory].Min()) * pageBytes; n > h.memory {
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

// compile compiles with the disk cache, and where that fails without it: so a
// damaged or full cache costs time, and only what is wrong with the module
// itself is an error.
func (p *Plugin) compile(ctx context.Context, wasm []byte) error {
	ctx = experimental.WithCompilationWorkers(ctx, min(runtime.GOMAXPROCS(0), 4))
	if dir := p.host.cacheDir; dir != "" {
		err := p.compileCached(ctx, wasm, filepath.Join(dir, hex.EncodeToString(p.digest[:])))
		if err == nil || ctx.Err() != nil {
			return err
		}
		p.host.log.Warn("the compile cache was of no use", "plugin", p.name, "dir", dir, "cause", firstLine(err))
	}
	p.runtime = wazero.NewRuntimeWithConfig(ctx, p.runtimeConfig())
	var err error
	p.compiled, err = p.runtime.CompileModule(ctx, wasm)
	return err
}

func (p *Plugin) compileCached(ctx context.Context, wasm []byte, dir string) (err error) {
	if err := verifyEntry(dir, time.Now()); err != nil {
		return err
	}
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return err
	}
	rt := wazero.NewRuntimeWithConfig(ctx, p.runtimeConfig().WithCompilationCache(cache))
	compiled, err := rt.CompileModule(ctx, wasm)
	if err != nil {
		return errors.Join(err, rt.Close(ctx), cache.Close(ctx), removeEntry(dir))
	}
	p.runtime, p.cache, p.compiled = rt, cache, compiled
	if err := sealEntry(dir); err != nil {
		p.host.log.Warn("the compiled plugin could not be cached", "plugin", p.name, "dir", dir, "cause", err)
	}
	return nil
}

func (p *Plugin) runtimeConfig() wazero.RuntimeConfig {
	return wazero.NewRuntimeConfig().
		WithCoreFeatures(api.CoreFeaturesV2).
		WithMemoryLimitPages(uint32(p.host.memory / pageBytes)).
		WithDebugInfoEnabled(false)
}

// describe runs the op of that name in an instance of its own.
func (p *Plugin) describe(ctx context.Context) (*abi.Manifest, error) {
	s := newSink(p, SinkConfig{}, Limits{}.withDefaults(p.host.memory))
	a, err := s.boot(ctx, abi.OpDescribe, nil)
	if cerr := s.Close(ctx); err == nil {
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
	return nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
