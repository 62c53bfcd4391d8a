package meter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/pawlsync/pawl/engine/wasmhost/meter"
)

// specDir is where wazero's module keeps the specification's own tests, as
// modules and the commands to run on them.
func specDir(tb testing.TB) string {
	tb.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	dir := filepath.Join(strings.TrimSpace(string(out)), "internal", "integration_test", "spectest")
	if err != nil || !filepath.IsAbs(dir) {
		missing(tb, "the source of wazero is not in the module cache")
	}
	return dir
}

// missing skips the test, or fails it where nothing may be missing.
func missing(tb testing.TB, what string) {
	tb.Helper()
	if os.Getenv("REQUIRE_PLUGINS") == "1" {
		tb.Fatal(what)
	}
	tb.Skip(what)
}

type specValue struct {
	Type     string
	LaneType string `json:"lane_type"`
	Value    any
}

type specCommand struct {
	Type, Name, Filename, As, Text string
	Line                           int
	ModuleType                     string `json:"module_type"`
	Expected                       []specValue
	Action                         struct {
		Type, Field, Module string
		Args                []specValue
	}
}

// words gives the value as wazero's API passes it; nan says which words are a
// NaN of which only the kind is known, by the bits that must be set.
func (v specValue) words() (w []uint64, nan []uint64) {
	if v.Type != "v128" {
		s, _ := v.Value.(string)
		bits, kind := specBits(v.Type, s)
		return []uint64{bits}, []uint64{kind}
	}
	w, nan = make([]uint64, 2), make([]uint64, 2)
	lanes := v.Value.([]any)
	width := 128 / len(lanes)
	for i, l := range lanes {
		bits, kind := specBits(v.LaneType, l.(string))
		at := i * width
		w[at/64] |= bits << (at % 64)
		nan[at/64] |= kind << (at % 64)
	}
	return w, nan
}

func specBits(typ, s string) (bits, nan uint64) {
	width := 64
	switch typ {
	case "i8":
		width = 8
	case "i16":
		width = 16
	case "i32", "f32":
		width = 32
	}
	switch {
	case strings.HasPrefix(s, "nan") && width == 32:
		return 0x7fc00000, 0x7fc00000
	case strings.HasPrefix(s, "nan"):
		return 0x7ff8000000000000, 0x7ff8000000000000
	case s == "" || s == "null":
		return 0, 0
	case typ == "externref" || typ == "funcref":
		n, _ := strconv.ParseUint(s, 10, 64)
		return n + 1, 0 // 0 is null to wazero
	case strings.HasPrefix(s, "-"):
		n, _ := strconv.ParseInt(s, 10, 64)
		return uint64(n) & (math.MaxUint64 >> (64 - width)), 0
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n, 0
}

func same(got uint64, want, nan uint64) bool {
	if nan == 0 {
		return got == want
	}
	// A NaN of any sign and payload, in the lanes where one is expected.
	return got&nan == nan && got&^(nan|nan<<1|1<<63|payload(nan)) == want&^(nan|nan<<1|1<<63|payload(nan))
}

func payload(nan uint64) uint64 {
	var p uint64
	if nan&0x7ff8000000000000 == 0x7ff8000000000000 && nan<<32 == 0 {
		return 1<<52 - 1
	}
	for _, at := range []int{0, 32} {
		if nan>>at&0x7fc00000 == 0x7fc00000 {
			p |= (1<<23 - 1 | 1<<31) << at
		}
	}
	return p
}

// trapText is what an error of wazero says for a trap of the specification.
var trapText = map[string]string{
	"out of bounds memory access": "out of bounds memory access", "indirect call type mismatch": "indirect call type mismatch",
	"indirect call": "indirect call type mismatch", "undefined element": "invalid table access", "undefined": "invalid table access",
	"out of bounds table access": "invalid table access", "integer overflow": "integer overflow",
	"invalid conversion to integer": "invalid conversion to integer", "integer divide by zero": "integer divide by zero",
	"unreachable": "unreachable",
}

func TestSpecification(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	var all specCount
	for _, version := range []string{"v1", "v2"} {
		files, err := filepath.Glob(filepath.Join(specDir(t), version, "testdata", "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no tests of %s: %v", version, err)
		}
		features := map[string]api.CoreFeatures{"v1": api.CoreFeaturesV1, "v2": api.CoreFeaturesV2}[version]
		for _, f := range files {
			t.Run(version+"/"+strings.TrimSuffix(filepath.Base(f), ".json"), func(t *testing.T) {
				all.add(runSpec(t, f, features))
			})
		}
	}
	t.Logf("%d modules, %d calls and reads, %d refusals; %d left out", all.modules, all.actions, all.refused, all.skipped)
	if all.modules < 1000 || all.actions < 40_000 || all.refused < 1500 {
		t.Errorf("fewer than there should be")
	}
}

type specCount struct{ modules, actions, refused, skipped int }

func (c *specCount) add(d specCount) {
	c.modules += d.modules
	c.actions += d.actions
	c.refused += d.refused
	c.skipped += d.skipped
}

// spec runs the commands of one file.
type spec struct {
	t        *testing.T
	dir      string
	features api.CoreFeatures
	rt       wazero.Runtime
	named    map[string]api.Module
	last     api.Module
	count    specCount
}

func runSpec(t *testing.T, file string, features api.CoreFeatures) specCount {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var script struct{ Commands []specCommand }
	if err := json.Unmarshal(b, &script); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	// The added code needs nothing beyond the first version of the standard but
	// what it was given: globals that change.
	s := &spec{t: t, dir: filepath.Dir(file), features: features, named: map[string]api.Module{},
		rt: wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCoreFeatures(features))}
	defer s.rt.Close(ctx)
	link(t, s.rt, 1<<40, nil)
	helper, err := os.ReadFile(filepath.Join(s.dir, "..", "..", "testdata", "spectest.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.rt.Instantiate(ctx, helper); err != nil {
		t.Fatal(err)
	}
	for i, c := range script.Commands {
		as := ""
		if i+1 < len(script.Commands) && script.Commands[i+1].Type == "register" {
			as = script.Commands[i+1].As
		}
		s.run(c, as)
	}
	return s.count
}

// link gives a runtime what rewritten modules import: every refill gives that
// much and calls each.
func link(tb testing.TB, rt wazero.Runtime, fuel int64, each func()) {
	tb.Helper()
	_, err := rt.NewHostModuleBuilder(meter.Module).
		NewFunctionBuilder().WithFunc(func() int64 {
		if each != nil {
			each()
		}
		return fuel
	}).Export(meter.Refill).
		NewFunctionBuilder().WithFunc(func() { panic(errTooDeep) }).Export(meter.TooDeep).
		Instantiate(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
}

var errTooDeep = errors.New("too deep")

func (s *spec) run(c specCommand, as string) {
	ctx, t := s.t.Context(), s.t
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("line %d, %s %s: %s", c.Line, c.Type, c.Action.Field, fmt.Sprintf(format, args...))
	}
	switch c.Type {
	case "module":
		s.last = nil
		wasm := s.read(c.Filename)
		out, err := meter.Rewrite(wasm, meter.Limits{})
		if err != nil {
			if !strings.Contains(err.Error(), "start section") {
				fail("%v", err)
			}
			s.count.skipped++
			// Others may import from it.
			out = wasm
		}
		m, err := s.rt.InstantiateWithConfig(ctx, out, wazero.NewModuleConfig().WithName(as))
		if err != nil {
			fail("%v", err)
			return
		}
		s.count.modules++
		s.last = m
		if c.Name != "" {
			s.named[c.Name] = m
		}
	case "assert_return", "action", "assert_trap", "assert_exhaustion":
		m := s.last
		if c.Action.Module != "" {
			m = s.named[c.Action.Module]
		}
		if m == nil {
			s.count.skipped++
			return
		}
		s.count.actions++
		s.act(m, c, fail)
	case "assert_malformed", "assert_invalid":
		if c.ModuleType == "text" {
			return
		}
		out, err := meter.Rewrite(s.read(c.Filename), meter.Limits{})
		if err == nil {
			_, err = s.rt.CompileModule(ctx, out)
		}
		if err == nil {
			if _, raw := s.rt.CompileModule(ctx, s.read(c.Filename)); raw != nil {
				fail("it is accepted, and without rewriting refused: %v", raw)
			}
			return
		}
		s.count.refused++
	case "register":
	default: // assert_unlinkable, assert_uninstantiable: what they do on the way is seen later
		out, err := meter.Rewrite(s.read(c.Filename), meter.Limits{})
		if err != nil {
			out = s.read(c.Filename)
		}
		_, _ = s.rt.InstantiateWithConfig(ctx, out, wazero.NewModuleConfig().WithName(""))
		s.count.skipped++
	}
}

func (s *spec) read(name string) []byte {
	b, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

func (s *spec) act(m api.Module, c specCommand, fail func(string, ...any)) {
	if c.Action.Type == "get" {
		want, _ := c.Expected[0].words()
		if got := m.ExportedGlobal(c.Action.Field).Get(); got != want[0] {
			fail("%x, want %x", got, want[0])
		}
		return
	}
	var args []uint64
	for _, a := range c.Action.Args {
		w, _ := a.words()
		args = append(args, w...)
	}
	got, err := m.ExportedFunction(c.Action.Field).Call(s.t.Context(), args...)
	if c.Type == "assert_exhaustion" {
		if !errors.Is(err, errTooDeep) {
			fail("%v", err)
		}
		s.last = nil // its depth is not what it was
		return
	}
	if c.Type == "assert_trap" {
		want := trapText[c.Text]
		if strings.HasPrefix(c.Text, "uninitialized") {
			want = "invalid table access"
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			fail("%v, want %q", err, c.Text)
		}
		return
	}
	if err != nil {
		fail("%v", err)
		return
	}
	for _, v := range c.Expected {
		words, nan := v.words()
		for i, w := range words {
			have := got[i]
			if strings.HasSuffix(v.Type, "32") {
				have = uint64(uint32(have)) // the rest means nothing
			}
			if v.Value != nil && !same(have, w, nan[i]) {
				fail("got %x, want %x (%v)", have, w, v)
			}
		}
		got = got[len(words):]
	}
}
