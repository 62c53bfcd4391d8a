package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/internal/bundled"
	"github.com/pawlsync/pawl/internal/oci"
)

// module is a loaded plugin. It is closed when it was replaced and no sink runs it
// any more.
type module struct {
	*wasmhost.Plugin
	name  string
	users int // sinks that run it, or wait until they can; under modules.mu
}

// modules are the loaded plugins: of each name the one in force, and for a while
// those that it replaced.
type modules struct {
	mu      sync.Mutex
	inForce map[string]*module
	loaded  map[*module]struct{}
}

func newModules() *modules {
	return &modules{inForce: map[string]*module{}, loaded: map[*module]struct{}{}}
}

func (ms *modules) current(name string) *module {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return ms.inForce[name]
}

// add puts a plugin in force, in place of the one before, which is closed if no sink
// runs it.
func (ms *modules) add(m *module) error {
	ms.mu.Lock()
	before := ms.inForce[m.name]
	ms.inForce[m.name] = m
	ms.loaded[m] = struct{}{}
	ms.mu.Unlock()
	return ms.closeUnused(before)
}

// use counts one more sink that runs m; leave, one less.
func (ms *modules) use(m *module) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	m.users++
}

func (ms *modules) leave(m *module) error {
	ms.mu.Lock()
	m.users--
	ms.mu.Unlock()
	return ms.closeUnused(m)
}

// closeUnused closes m, which may be nil, if it is of no more use.
func (ms *modules) closeUnused(m *module) error {
	ms.mu.Lock()
	_, open := ms.loaded[m]
	open = open && m.users == 0 && ms.inForce[m.name] != m
	if open {
		delete(ms.loaded, m)
	}
	ms.mu.Unlock()
	if !open {
		return nil
	}
	return m.Close(context.Background())
}

// closeAll closes every plugin; their sinks are closed.
func (ms *modules) closeAll() error {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	var errs []error
	for m := range ms.loaded {
		errs = append(errs, m.Close(context.Background()))
	}
	clear(ms.loaded)
	return errors.Join(errs...)
}

// pullTimeout is how long a registry may take to hand out a plugin.
const pullTimeout = 2 * time.Minute

// source is where modules come from that are no files.
type source struct {
	dir string // keeps what was pulled from registries
	oci oci.Options
}

// read reads a plugin's module: the file or the artifact that the configuration
// names, or a bundled one. key is the one that names it, "" where none does: a
// bundled plugin that was not declared.
func (s *source) read(ctx context.Context, name string, p config.Plugin) (key string, wasm []byte, err error) {
	switch {
	case p.Path != "":
		wasm, err = os.ReadFile(p.Path)
		return "plugins." + name + ".path", wasm, err
	case p.OCI != "":
		ctx, cancel := context.WithTimeoutCause(ctx, pullTimeout, fmt.Errorf("the registry took longer than %v", pullTimeout))
		defer cancel()
		pulled, err := oci.Cached(ctx, s.dir, p.OCI, s.oci)
		if err != nil {
			return "plugins." + name + ".oci", nil, err
		}
		return "plugins." + name + ".oci", pulled.Module, nil
	case p.Bundled != "":
		wasm, err = bundled.Plugin(p.Bundled)
		return "plugins." + name + ".bundled", wasm, err
	}
	wasm, err = bundled.Plugin(name)
	return "", wasm, err
}

// unpinned says what is wrong with a module that is to have the digest want; "":
// nothing, or any digest will do.
func unpinned(wasm []byte, want string) string {
	if want == "" {
		return ""
	}
	if got := hexDigest(wasmhost.Digest(wasm)); !strings.EqualFold(got, want) {
		return fmt.Sprintf("the module's SHA-256 is %s, not %s", got, want)
	}
	return ""
}

func hexDigest(d [sha256.Size]byte) string { return hex.EncodeToString(d[:]) }

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
