package relay

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/bundled"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "seed of random choices; 0: a new one each time")
	roundsFlag = flag.Int("rounds", 3, "rounds of faults; 100 for a long run")
)

// patience is how long anything may take that has no reason to take long. It is no
// claim, but the end of a test that hangs.
const patience = 3 * time.Minute

// built is the program under test, and a cache of its compiled plugins.
var built struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// program builds the daemon, without the race detector, as people run it.
func program(t *testing.T) (pawl, cache string) {
	t.Helper()
	if testing.Short() {
		t.Skip("daemons are slow to build and to start")
	}
	for _, name := range []string{"http", "pawl"} {
		if _, err := bundled.Plugin(name); err != nil {
			if os.Getenv("REQUIRE_PLUGINS") == "1" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "pawl-relay-bin-"); built.err != nil {
			return
		}
		build := exec.Command("go", "build", "-o", filepath.Join(built.dir, "pawl"), "../../cmd/pawl")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			built.err = errors.Join(err, errors.New(string(out)))
		}
	})
	if built.err != nil {
		t.Fatalf("the daemon can't be built: %v", built.err)
	}
	return filepath.Join(built.dir, "pawl"), filepath.Join(built.dir, "wasm")
}

// random returns the test's source of chance, and says how to get it again.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64() >> 20
	}
	t.Logf("played again by: go test ./test/relay -run '^%s$' -seed %d", t.Name(), seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually polls until fn returns nil, for as long as there is patience.
func eventually(t *testing.T, what string, fn func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
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
