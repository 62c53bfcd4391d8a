package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/internal/race"
)

// faultsByCheck says which checks a fault fails beside the one whose name it
// has: what can't be wrong alone.
var faultsByCheck = map[string][]string{
	// A lost answer that is taken for a refusal undoes what may have been written.
	"fault-reset": {"saga-mark"},
	// What was deleted and is there again is what a saga must leave alone.
	"recreate": {"saga-restore"},
}

// mayFail are the checks that a fault fails or not, as time will have it: of a call
// that runs out of time the target's end may come before the host's, and then
// nobody has cancelled anything.
var mayFail = map[string]string{"cancel": "fault-slow"}

// notByConfig are the checks whose faults can't be chosen by the sink's config.
var notByConfig = map[string]func(*testing.T) []byte{
	"manifest":        func(t *testing.T) []byte { return patchedGuest(t, "manifest") },
	"manifest-stable": func(t *testing.T) []byte { return patchedGuest(t, "manifest-stable") },
	"unknown-fields":  strictGuest,
}

// A check that nothing fails is no check: for each there is an adapter which is
// wrong in that one way, and fails that check alone.
func TestEachCheckFailsOnTheFaultMadeForIt(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the kit once for each check")
	}
	if race.Enabled {
		t.Skip("the kit is raced by the other tests; fifty runs of it take a minute without the detector, and ten with it: `make test` runs this one by itself")
	}
	for _, c := range Checks() {
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			wasm, config := wrongGuest(t), fmt.Sprintf(`{"fault":%q}`, c.ID)
			if make, ok := notByConfig[c.ID]; ok {
				wasm, config = make(t), `{}`
			}
			only := allButMemory
			if c.ID == "memory-flat" {
				only = nil
			}
			want := append([]string{c.ID}, faultsByCheck[c.ID]...)
			r := run(t, wasm, config, only)
			if more, ok := mayFail[c.ID]; ok && slices.Contains(failed(r), more) {
				want = append(want, more)
			}
			slices.Sort(want)
			mustFail(t, r, want)
		})
	}
	for fault, want := range sagaFaults {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			mustFail(t, run(t, wrongGuest(t), fmt.Sprintf(`{"fault":%q}`, fault), sagasOnly), want)
		})
	}
}

// mustFail holds a report to the checks that are to fail, and to saying why.
func mustFail(t *testing.T, r *Report, want []string) {
	t.Helper()
	if got := failed(r); !slices.Equal(got, want) {
		var text strings.Builder
		_ = r.WriteText(&text, false)
		t.Errorf("failed are %q, want %q\n%s", got, want, &text)
	}
	for _, res := range r.Results {
		if res.Outcome == Failed && (res.Wants == "" || res.Text == "" || res.Fix == "") {
			t.Errorf("%s does not say all that it should: %+v", res.ID, res)
		}
	}
}

func TestARightAdapterPasses(t *testing.T) {
	for _, config := range []string{`{}`, `{"modest":true}`} {
		if testing.Short() && config != `{}` {
			continue
		}
		r := run(t, wrongGuest(t), config, nil)
		if got := failed(r); len(got) > 0 {
			var text strings.Builder
			_ = r.WriteText(&text, false)
			t.Errorf("with the config %s:\n%s", config, &text)
		}
		if config == `{}` && r.Count(Passed) != len(Checks()) {
			t.Errorf("it claims everything, and %d of %d checks passed: %+v", r.Count(Passed), len(Checks()), r.Results)
		}
	}
}

func failed(r *Report) (ids []string) {
	for _, res := range r.Results {
		if res.Outcome == Failed {
			ids = append(ids, res.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// allButMemory leaves out the check that takes the longest, and that no fault but
// its own can fail.
var allButMemory = regexp.MustCompile(`^([^m]|m[^e]|me[^m])`)

// run runs the kit, with few calls in the check of memory.
func run(t *testing.T, wasm []byte, config string, only *regexp.Regexp) *Report {
	t.Helper()
	f := DefaultFixture()
	f.Config = json.RawMessage(config)
	f.Store.Adds = map[string]json.RawMessage{"added": json.RawMessage(`"by the store"`)}
	r, err := Run(t.Context(), wasm, "wrong", Options{Fixture: f, Host: hostOptions(t), CallTimeout: patience, Filter: only, Calls: 80})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// patience is the deadline of calls: a busy machine is no fault of the plugin.
const patience = 5 * time.Minute

// hostOptions share a compile cache between all runs of tests.
func hostOptions(t *testing.T) wasmhost.Options {
	t.Helper()
	base, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return wasmhost.Options{CacheDir: filepath.Join(base, "pawl-test-wasm")}
}

var builtGuest = sync.OnceValues(func() ([]byte, error) { return buildGuest() })

// wrongGuest is plugins/testguest/wrong.
func wrongGuest(t *testing.T) []byte {
	t.Helper()
	wasm, err := builtGuest()
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

func buildGuest(flags ...string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "pawl-wrong-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "wrong.wasm")
	args := append([]string{"build", "-trimpath", "-ldflags=-s -w -buildid=", "-buildmode=c-shared", "-o", out}, flags...)
	cmd := exec.Command("go", append(args, "./testguest/wrong")...)
	cmd.Dir = filepath.Join("..", "..", "plugins")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build plugins/testguest/wrong: %w\n%s", err, text)
	}
	return os.ReadFile(out)
}

// patchedGuest is the guest with a fault that it shows before it is configured.
func patchedGuest(t *testing.T, fault string) []byte {
	t.Helper()
	wasm := wrongGuest(t)
	at := bytes.Index(wasm, []byte("fault-of-the-manifest=......"))
	if at < 0 {
		t.Fatal("the guest has no place for a fault of its manifest")
	}
	wasm = bytes.Clone(wasm)
	copy(wasm[at+len("fault-of-the-manifest="):], fault)
	return wasm
}

// strictGuest is the guest built on an SDK that does not skip unknown fields.
func strictGuest(t *testing.T) []byte {
	t.Helper()
	sdk, err := filepath.Abs(filepath.Join("..", "..", "sdk", "go", "wire.go"))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(sdk)
	if err != nil {
		t.Fatal(err)
	}
	const skip = "func (d *decoder) skip() {\n"
	if !bytes.Contains(source, []byte(skip)) {
		t.Fatalf("%s has no %q, which this test breaks", sdk, skip)
	}
	source = bytes.Replace(source, []byte(skip), []byte(skip+"\td.err = errTag\n\treturn\n"), 1)
	dir := t.TempDir()
	broken, overlay := filepath.Join(dir, "wire.go"), filepath.Join(dir, "overlay.json")
	raw, err := json.Marshal(map[string]any{"Replace": map[string]string{sdk: broken}})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{overlay: raw, broken: source} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wasm, err := buildGuest("-overlay", overlay)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}
