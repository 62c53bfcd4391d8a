package wasmhost

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// HostStats is a moment's view of a host, for metrics.
type HostStats struct {
	Compiled    int64         // modules that were compiled
	Cached      int64         // modules that were taken from the compile cache
	Refused     int64         // modules that could not be compiled, or not within the limits
	CompileTime time.Duration // that compiling took, by the clock
	MemoryBytes int64         // that is set aside for the memories of all instances
}

// compileCounts are what HostStats has of compiling.
type compileCounts struct{ compiled, cached, refused, nanos atomic.Int64 }

// Stats returns the host's counters and gauges.
func (h *Host) Stats() HostStats {
	c := &h.compiles
	return HostStats{
		Compiled: c.compiled.Load(), Cached: c.cached.Load(), Refused: c.refused.Load(),
		CompileTime: time.Duration(c.nanos.Load()), MemoryBytes: h.memories.used.Load(),
	}
}

// compile takes the module from the compile cache, or compiles it: in a process
// apart, unless it is trusted or the host has no command for that.
func (p *Plugin) compile(ctx context.Context, wasm []byte, trusted bool) error {
	h, entry, began := p.host, "", time.Now()
	if h.cacheDir != "" {
		entry = filepath.Join(h.cacheDir, entryName(wasm))
		whole, err := verifyEntry(entry, began)
		if err == nil && whole {
			if err = p.open(ctx, wasm, entry); err == nil {
				h.compiles.cached.Add(1)
				return nil
			}
			err = errors.Join(err, removeEntry(entry))
		}
		if err != nil {
			p.cacheFailed(err)
		}
	}
	var err error
	if trusted || len(h.compiler.Command) == 0 {
		err = p.compileHere(ctx, wasm, entry)
	} else {
		err = p.compileApart(ctx, wasm, entry)
	}
	h.compiles.nanos.Add(int64(time.Since(began)))
	if err != nil {
		h.compiles.refused.Add(1)
		return err
	}
	h.compiles.compiled.Add(1)
	return nil
}

// entryName is the name of the module's folder in the compile cache. Another
// version's code is of no use.
func entryName(wasm []byte) string {
	sum := hash([]byte(compilerID()), wasm)
	return hex.EncodeToString(sum[:])
}

// compilerID tells whose compiled code this process can load.
func compilerID() string {
	version := "unknown"
	if b, ok := debug.ReadBuildInfo(); ok {
		if i := slices.IndexFunc(b.Deps, func(m *debug.Module) bool { return m.Path == "github.com/tetratelabs/wazero" }); i >= 0 {
			version = b.Deps[i].Version
		}
	}
	return fmt.Sprintf("wazero %s %s/%s", version, runtime.GOOS, runtime.GOARCH)
}

// compileHere compiles in this process: with the disk cache, and where that
// fails without it. So a damaged or full cache costs time, and only what is
// wrong with the module itself is an error.
func (p *Plugin) compileHere(ctx context.Context, wasm []byte, entry string) error {
	if entry != "" {
		err := p.open(ctx, wasm, entry)
		if err == nil {
			if err := sealEntry(entry); err != nil {
				p.cacheFailed(err)
			}
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		p.cacheFailed(errors.Join(err, removeEntry(entry)))
	}
	return p.open(ctx, wasm, "")
}

// compileApart compiles in a process of its own, which leaves the code in a
// folder that becomes the entry of the cache, if there is one.
func (p *Plugin) compileApart(ctx context.Context, wasm []byte, entry string) error {
	dir, err := p.workDir()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) // what was loaded from it is not read again
	p.host.compiling.Lock()
	err = p.host.compiler.run(ctx, wasm, dir, p.host.memory)
	p.host.compiling.Unlock()
	if err != nil {
		return err
	}
	if entry != "" {
		if err := errors.Join(sealEntry(dir), removeEntry(entry), os.Rename(dir, entry)); err == nil {
			dir = entry
		} else {
			p.cacheFailed(err)
		}
	}
	return p.open(ctx, wasm, dir)
}

// workDir makes a folder of this user's own, in the cache where that works, so
// that it can become an entry.
func (p *Plugin) workDir() (string, error) {
	if cache := p.host.cacheDir; cache != "" {
		dir, err := os.MkdirTemp(cache, workPrefix)
		if err == nil {
			return dir, nil
		}
		p.cacheFailed(err)
	}
	return os.MkdirTemp("", "pawl"+workPrefix)
}

func (p *Plugin) cacheFailed(err error) {
	p.host.log.Warn("the compile cache was of no use", "plugin", p.name, "dir", p.host.cacheDir, "cause", firstLine(err))
}

// open compiles the module, or takes it from what dir has of it; "": from nowhere.
func (p *Plugin) open(ctx context.Context, wasm []byte, dir string) error {
	rt, cache, compiled, err := compileModule(ctx, wasm, dir, p.host.memory)
	if err == nil {
		p.runtime, p.cache, p.compiled = rt, cache, compiled
	}
	return err
}

func compileModule(ctx context.Context, wasm []byte, dir string, memory int64) (wazero.Runtime, wazero.CompilationCache, wazero.CompiledModule, error) {
	ctx = experimental.WithCompilationWorkers(ctx, min(runtime.GOMAXPROCS(0), 4))
	config := wazero.NewRuntimeConfig().
		WithCoreFeatures(api.CoreFeaturesV2).
		WithMemoryLimitPages(uint32(memory / pageBytes)).
		WithDebugInfoEnabled(false)
	var cache wazero.CompilationCache
	if dir != "" {
		var err error
		if cache, err = wazero.NewCompilationCacheWithDir(dir); err != nil {
			return nil, nil, nil, err
		}
		config = config.WithCompilationCache(cache)
	}
	rt := wazero.NewRuntimeWithConfig(ctx, config)
	compiled, err := rt.CompileModule(ctx, wasm)
	if err != nil {
		err = errors.Join(err, rt.Close(ctx))
		if cache != nil {
			err = errors.Join(err, cache.Close(ctx))
		}
		return nil, nil, nil, err
	}
	return rt, cache, compiled, nil
}
