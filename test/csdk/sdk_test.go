package csdk_test

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/test/csdk"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0: a new one")

// nativeCompiler returns the C compiler for this machine.
func nativeCompiler(t *testing.T) string {
	t.Helper()
	cc, err := exec.LookPath(cmp.Or(os.Getenv("CC"), "cc"))
	switch {
	case err == nil:
	case os.Getenv("REQUIRE_PLUGINS") == "1":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
	return cc
}

// native compiles C sources with sanitizers for this machine and returns the program.
func native(t *testing.T, sources ...string) string {
	t.Helper()
	cc := nativeCompiler(t)
	program := filepath.Join(t.TempDir(), "program")
	args := []string{"-std=c99", "-g", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
		"-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-I", sdk(t), "-o", program}
	for _, s := range sources {
		args = append(args, filepath.Join(sdk(t), s))
	}
	if out, err := exec.CommandContext(t.Context(), cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cc, err, out)
	}
	return program
}

func sdk(t *testing.T) string {
	t.Helper()
	dir, err := csdk.SDK()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func vectors(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(sdk(t), "..", "abi", "vectors", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors (%v)", err)
	}
	return files
}

func TestTheCodecAgreesWithTheGoldenVectors(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), native(t, "test/vectors.c"), vectors(t)...).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
	var decoded, encoded int
	if _, err := fmt.Sscanf(string(out), "decoded %d vectors, encoded %d", &decoded, &encoded); err != nil || decoded < 40 || encoded < 15 {
		t.Errorf("too few vectors were of use (%v)", err)
	}
}

func TestDamagedBytesAreRefusedOrRead(t *testing.T) {
	seed := cmp.Or(*seedFlag, rand.Uint64())
	t.Logf("again with -seed %d", seed)
	rounds := 30_000
	if testing.Short() {
		rounds = 2_000
	}
	args := append([]string{strconv.FormatUint(seed, 10), strconv.Itoa(rounds)}, vectors(t)...)
	if out, err := exec.CommandContext(t.Context(), native(t, "test/fuzz.c"), args...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestJSONAndText(t *testing.T) {
	if out, err := exec.CommandContext(t.Context(), native(t, "test/json.c")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestCallsOfASaga(t *testing.T) {
	if out, err := exec.CommandContext(t.Context(), native(t, "test/saga.c")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestCallsAboutTheWholeTarget(t *testing.T) {
	if out, err := exec.CommandContext(t.Context(), native(t, "test/whole.c")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestTheExamplesOwnTests(t *testing.T) {
	program := native(t, "examples/kv/kv_test.c", "examples/kv/kv.c", "pawl.c")
	if out, err := exec.CommandContext(t.Context(), program).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestABuildIsReproducible(t *testing.T) {
	wasm := example(t)
	// The same sources elsewhere, built past the cache.
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(sdk(t))); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "make", "-s", "kv.wasm")
	cmd.Dir = filepath.Join(dir, "examples", "kv")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	again, err := os.ReadFile(filepath.Join(cmd.Dir, "kv.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(wasm, again) {
		t.Errorf("%d bytes, and %d elsewhere", len(wasm), len(again))
	}
}

func TestTheFieldsOfASagaArrive(t *testing.T) {
	s := open(t, guest(t, "saga.c"), wasmhost.SinkConfig{}, nil)
	if m := s.Manifest(); !m.Marks || !m.Locks || !m.RestoresApply || m.RestoresDelete {
		t.Errorf("%+v", m)
	}
	r := request("a", "{}")
	if got := s.Observe(t.Context(), r); got.Status != sink.OK || got.Observation.Ref != "none" || got.Observation.Ours != sink.Unknown {
		t.Errorf("outside of sagas: %+v, %+v", got, got.Observation)
	}
	r.Run = &sink.Run{ID: "0f", Step: 3, Locks: []string{"0a", "0b"}, Held: true,
		Before: &sink.Image{Exists: true, CID: "c", UID: "u", Content: []byte{0, 255}}}
	const want = "0f/3 held 0a 0b, was c u 00ff"
	for name, call := range map[string]func(context.Context, *sink.Request) sink.Result{"apply": s.Apply, "restore": s.Restore} {
		if got := call(t.Context(), r); got.Status != sink.OK || got.Observation.Ref != want || got.Observation.Ours != sink.Yes {
			t.Errorf("%s: %+v, %+v", name, got, got.Observation)
		}
	}
	if got := s.Unlock(t.Context(), r); got.Status != sink.Retry || got.Message != want {
		t.Errorf("unlock: %+v", got)
	}
}

func TestAPluginInCPlusPlus(t *testing.T) {
	s := open(t, guest(t, "counter.cpp", "-std=c++17"), wasmhost.SinkConfig{}, nil)
	for _, want := range []string{"a 41", "a 42"} {
		if got := s.Apply(t.Context(), request("a", "{}")); got.Status != sink.OK || got.Observation.Ref != want {
			t.Errorf("%+v", got)
		}
	}
	if m := s.Manifest(); m.Observes || m.Deletes {
		t.Errorf("%+v", m)
	}
	if got := s.Observe(t.Context(), request("a", "{}")); got.Status != sink.Rejected {
		t.Errorf("an operation without a function: %+v", got)
	}
}

func TestAPluginWithACLibrary(t *testing.T) {
	if _, err := os.Stat("/usr/include/wasm32-wasi"); err != nil && os.Getenv("REQUIRE_PLUGINS") != "1" {
		t.Skip("wasi-libc is missing (Debian: apt-get install wasi-libc libclang-rt-dev-wasm32)")
	}
	example(t) // says if there is no compiler
	out := filepath.Join(t.TempDir(), "libc.wasm")
	cmd := exec.CommandContext(t.Context(), "clang", "--target=wasm32-wasi", "-mexec-model=reactor", "-Os", "-mbulk-memory",
		"-Wl,--stack-first", "-Wl,--strip-all", "-I", sdk(t), "-o", out, "testdata/libc.c", filepath.Join(sdk(t), "pawl.c"))
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	wasm, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, wasm, wasmhost.SinkConfig{}, nil)
	call := func() int64 {
		if got := s.Apply(t.Context(), request("a", "!")); got.Status != sink.OK || got.Observation.Ref != "printed 7!" {
			t.Fatalf("%+v", got)
		}
		return s.Stats().MemoryBytes
	}
	before := call()
	for range 20 {
		if after := call(); after != before {
			t.Fatalf("memory grew from %d to %d bytes", before, after)
		}
	}
}

func TestWhatTheSDKHoldsAdaptersTo(t *testing.T) {
	s := open(t, guest(t, "odd.c"), wasmhost.SinkConfig{}, nil)
	for _, c := range []struct {
		key     string
		status  sink.Status
		message string
	}{
		{"no status", sink.Retry, "no valid status: forgotten"},
		{"state", sink.Rejected, "65537 bytes of state"},
		{"stray bytes", sink.Rejected, "a \uFFFD b"},
		{"bad path", sink.Rejected, "not UTF-8"},
		{"not granted", sink.Rejected, "not granted"},
		{"fine", sink.OK, ""},
	} {
		if got := s.Apply(t.Context(), request(c.key, "{}")); got.Status != c.status || !strings.Contains(got.Message, c.message) {
			t.Errorf("%s: %+v", c.key, got)
		}
	}
}

func TestABatch(t *testing.T) {
	wasm := guest(t, "odd.c")
	s := open(t, wasm, wasmhost.SinkConfig{}, nil)
	if m := s.Manifest(); m.BatchMax != 8 {
		t.Fatalf("%+v", m)
	}
	rs, whole := s.ApplyBatch(t.Context(), []*sink.Request{request("fine", "{}"), request("stray bytes", "{}")})
	if whole || len(rs) != 2 || rs[0].Status != sink.OK || rs[1].Status != sink.Rejected {
		t.Errorf("%v %+v", whole, rs)
	}
	rs, whole = s.ApplyBatch(t.Context(), []*sink.Request{request("fine", "{}"), request("whole", "{}")})
	if !whole || len(rs) != 1 || rs[0].Status != sink.Retry || rs[0].Message != "busy" {
		t.Errorf("%v %+v", whole, rs)
	}
	s = open(t, wasm, wasmhost.SinkConfig{Config: []byte(`{"narrow":true}`)}, nil)
	if m := s.Manifest(); m.BatchMax != 0 {
		t.Errorf("configure took batches away: %+v", m)
	}
}

func TestMemoryThatIsUsedUpTrapsTheInstanceAlone(t *testing.T) {
	var lines bytes.Buffer
	s := open(t, guest(t, "odd.c"), wasmhost.SinkConfig{Limits: wasmhost.Limits{MemoryBytes: 8 << 20}}, slog.New(slog.NewTextHandler(&lines, nil)))
	if got := s.Apply(t.Context(), request("flood", "{}")); got.Status != sink.Fault || got.Suspect {
		t.Errorf("%+v", got)
	}
	if got := s.Apply(t.Context(), request("log", "{}")); got.Status != sink.OK {
		t.Errorf("afterwards: %+v", got)
	}
	for _, line := range []string{`out of memory`, `a line from the plugin`} {
		if !strings.Contains(lines.String(), line) {
			t.Errorf("%q is not in the log:\n%s", line, &lines)
		}
	}
}

func TestASleepEndsWithItsCall(t *testing.T) {
	s := open(t, guest(t, "odd.c"), wasmhost.SinkConfig{Limits: wasmhost.Limits{CallTimeout: 50 * time.Millisecond}}, nil)
	if got := s.Apply(t.Context(), request("sleep", "{}")); got.Status != sink.OK {
		t.Errorf("%+v", got)
	}
}

// The plugin and the test of the README are built by the commands that stand
// there, with this checkout's SDK.
func TestThePluginOfTheREADME(t *testing.T) {
	example(t) // says if there is no compiler
	nativeCompiler(t)
	text, err := os.ReadFile(filepath.Join(sdk(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```c\n(.*?)```").FindAllSubmatch(text, -1)
	commands := regexp.MustCompile(`(?m)^    ((?:clang|cc) .*things\.c .*)$`).FindAllSubmatch(text, -1)
	if len(blocks) != 2 || len(commands) != 2 {
		t.Fatalf("README.md has %d programs and %d commands", len(blocks), len(commands))
	}
	dir := t.TempDir()
	for i, name := range []string{"things.c", "things_test.c"} {
		if err := os.WriteFile(filepath.Join(dir, name), blocks[i][1], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range append(commands, [][]byte{nil, []byte("./things_test")}) {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(string(c[1]), "../pawl/sdk/c", sdk(t)))
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%s: %v\n%s", c[1], err, out)
		}
	}
	wasm, err := os.ReadFile(filepath.Join(dir, "things.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	target := newStore()
	s := open(t, wasm, granted(serve(t, target), ""), nil)
	if got := s.Apply(t.Context(), request("my first/thing", "{}")); got.Status != sink.OK {
		t.Errorf("%+v", got)
	}
	if _, exists := target.at("/objects/my%20first/thing"); !exists {
		t.Errorf("%v", target.objects)
	}
	if got := s.Delete(t.Context(), request("my first/thing", "")); got.Status != sink.OK {
		t.Errorf("%+v", got)
	}
}
