package relay

import (
	"context"
	"flag"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawlsync/pawl/test/ops/kit"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "seed of random choices; 0: a new one each time")
	roundsFlag = flag.Int("rounds", 3, "rounds of faults; 100 for a long run")
)

// patience is how long anything may take that has no reason to take long. It is no
// claim, but the end of a test that hangs.
const patience = 3 * time.Minute

func TestMain(m *testing.M) { kit.Main(m) }

// program is the daemon, and a folder beside it for its compiled plugins.
func program(t *testing.T) (pawl, cache string) {
	t.Helper()
	if testing.Short() {
		t.Skip("daemons are slow to build and to start")
	}
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
