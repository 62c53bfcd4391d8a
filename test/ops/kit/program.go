package kit

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/bundled"
)

// Patience is how long anything may take that has no reason to take long, and how long
// something that takes its time may stand still. It is no claim, but the end of a test
// that hangs.
const Patience = 5 * time.Minute

// built is the folder of the programs under test, and of what they compile.
var built struct {
	sync.Mutex
	dir  string
	made map[string]error // by package and flags
}

// Main runs a package's tests, and removes what was built for them.
func Main(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// Pawl builds the program once, without the race detector, as people run it, and
// returns its file.
func Pawl(t testing.TB) string {
	t.Helper()
	needPlugins(t)
	return Build(t, "pawl", "./cmd/pawl")
}

// Build builds the package pkg of this repository with flags, once under each name, and
// returns the program's file.
func Build(t testing.TB, name, pkg string, flags ...string) string {
	t.Helper()
	file := filepath.Join(buildDir(t), name)
	built.Lock()
	defer built.Unlock()
	err, known := built.made[name]
	if !known {
		build := exec.Command("go", append(append([]string{"build", "-o", file}, flags...), pkg)...)
		build.Dir = Root(t)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		var out []byte
		if out, err = build.CombinedOutput(); err != nil {
			err = errors.Join(err, errors.New(string(out)))
		}
		built.made[name] = err
	}
	if err != nil {
		t.Fatalf("%s can't be built: %v", pkg, err)
	}
	return file
}

func buildDir(t testing.TB) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "pawl-kit-")
		if err != nil {
			t.Fatal(err)
		}
		built.dir, built.made = dir, map[string]error{}
	}
	return built.dir
}

// needPlugins skips a test where the shipped plugins are not built, and fails it where
// the environment requires them.
func needPlugins(t testing.TB) {
	t.Helper()
	for _, name := range []string{"http", "kube", "pawl", "spicedb"} {
		if _, err := bundled.Plugin(name); err != nil {
			if os.Getenv("REQUIRE_PLUGINS") == "1" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
}

// Root is the repository's folder.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "cmd", "pawl")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("the tests do not run inside of the repository")
		}
		dir = filepath.Dir(dir)
	}
}

// Environment is ours without what would configure pawl otherwise.
func Environment() []string {
	var out []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "PAWL_") {
			out = append(out, kv)
		}
	}
	return out
}

// Must ends a test where there is an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Eventually polls until fn returns nil, for as long as there is patience.
func Eventually(t testing.TB, what string, fn func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := fn(ctx)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: gave up: %v", what, err)
		}
	}
}

// Approaches waits until left returns 0. It may take as long as it needs: what ends the
// test is that left has not come nearer to 0 than ever before while there was patience.
func Approaches(t testing.TB, what string, left func() float64) {
	t.Helper()
	nearest := math.Inf(1)
	moved := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		now := left()
		if now == 0 {
			return
		}
		if now < nearest {
			nearest, moved = now, time.Now()
		}
		if time.Since(moved) > Patience {
			t.Fatalf("%s: gave up: %g are left, and nothing moved for %v", what, now, Patience)
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("%s: %v", what, t.Context().Err())
		}
	}
}
