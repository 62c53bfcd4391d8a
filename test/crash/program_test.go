package crash

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pawlsync/pawl/test/ops/kit"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "seed of random choices; 0: a new one each time")
	killsFlag = flag.Int("kills", 0, "how often the daemon is killed; defaults to 50, in -short to 5")
)

func TestMain(m *testing.M) { kit.Main(m) }

// program is the daemon, and a folder beside it for its compiled plugins.
func program(t *testing.T) (pawl, cache string) {
	t.Helper()
	pawl = kit.Pawl(t)
	return pawl, filepath.Join(filepath.Dir(pawl), "wasm")
}

// random returns the test's source of chance, and says how to get it again.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64() >> 20
	}
	t.Logf("played again by: go test ./test/crash -run '^%s$' -seed %d", t.Name(), seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// folder is a test's own, kept when the test fails.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pawl-crash-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("store, configuration and the daemon's log are kept in %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// many returns n, or short in -short.
func many(n, short int) int {
	if testing.Short() {
		return short
	}
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func run(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w: %s", name, args, err, out)
	}
	return nil
}
