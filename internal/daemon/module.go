package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/internal/bundled"
	"github.com/pawlsync/pawl/internal/oci"
)

// module is a loaded plugin.
type module struct {
	*wasmhost.Plugin
	name string
}

func closeModule(m *module) error { return m.Close(context.Background()) }

func closeUpstream(u *upstream.Upstream) error {
	u.Close()
	return nil
}

// pullTimeout is how long a registry may take to hand out a plugin.
const pullTimeout = 2 * time.Minute

// moduleSource is where modules come from that are no files.
type moduleSource struct {
	dir string // keeps what was pulled from registries
	oci oci.Options
}

// read reads a plugin's module: the file or the artifact that the configuration
// names, or a bundled one. key is the one that names it, "" where none does: a
// bundled plugin that was not declared.
func (s *moduleSource) read(ctx context.Context, name string, p config.Plugin) (key string, wasm []byte, err error) {
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
