package meter_test

import (
	"bytes"
	"context"
	"flag"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/pawlsync/pawl/engine/wasmhost/meter"
)

// FuzzRewrite: what wazero refuses is still refused after rewriting, or was
// refused before; what it accepts works as it did.
func FuzzRewrite(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(randomModule(seed), seed)
	}
	for _, name := range slices.Sorted(maps.Keys(endless)) {
		// What takes more than ten seconds on a busy machine passes for hung.
		if b := build(endless[name]); len(b) < 20_000 {
			f.Add(b, uint64(0))
		}
	}
	for _, version := range []string{"v1", "v2"} {
		if flag.Lookup("test.fuzz").Value.String() == "" {
			break // TestSpecification has them
		}
		files, _ := filepath.Glob(filepath.Join(specDir(f), version, "testdata", "*.wasm"))
		for i, name := range files {
			if b, err := os.ReadFile(name); err == nil && len(b) < 20_000 {
				f.Add(b, uint64(i))
			}
		}
	}
	helper, err := os.ReadFile(filepath.Join(specDir(f), "testdata", "spectest.wasm"))
	if err != nil {
		f.Fatal(err)
	}
	limits := meter.Limits{TableElements: 10_000, Depth: 1 << 18, Locals: 500}
	f.Fuzz(func(t *testing.T, wasm []byte, seed uint64) {
		out, err := meter.Rewrite(wasm, limits)
		if err != nil {
			return
		}
		again, err := meter.Rewrite(wasm, limits)
		if err != nil || !bytes.Equal(out, again) {
			t.Fatalf("it is rewritten in two ways: %v", err)
		}
		ctx := context.Background()
		r := newRunner(t, 100_000)
		defer r.rt.Close(ctx)
		// Custom sections are left out; wazero refuses damaged ones, and takes
		// gigabytes for some.
		plain, plainErr := r.rt.CompileModule(ctx, meter.WithoutCustom(wasm))
		metered, err := r.rt.CompileModule(ctx, out)
		if (plainErr == nil) != (err == nil) {
			t.Fatalf("compiled: %v; rewritten: %v", plainErr, err)
		}
		if err != nil {
			return
		}
		r.helper = r.compile(t, helper, nil)
		for name, fn := range plain.ExportedFunctions() {
			compare(t, r, plain, metered, name, fn, rand.New(rand.NewPCG(seed, 0)))
		}
	})
}

var edges = []uint64{0, 1, 2, 7, 0x7f, 0xffff, 0x10000, math.MaxInt32, 1 << 31, math.MaxUint32, math.MaxInt64, 1 << 63, math.MaxUint64,
	0x3f800000, 0x7fc00000, 0x3ff0000000000000, 0x7ff8000000000000}

// compare calls one function of both modules with the same arguments.
func compare(t *testing.T, r *runner, plain, metered wazero.CompiledModule, name string, fn api.FunctionDefinition, rnd *rand.Rand) {
	var args []uint64
	for _, p := range fn.ParamTypes() {
		v := edges[rnd.IntN(len(edges))]
		switch p {
		case api.ValueTypeI32, api.ValueTypeF32:
			v = uint64(uint32(v))
		case api.ValueTypeI64, api.ValueTypeF64:
		case api.ValueTypeExternref:
			v = 0
		default: // v128 takes two; a funcref would be a pointer
			return
		}
		args = append(args, v)
	}
	got := r.call(t, metered, name, args...)
	if limited(got.err) {
		return // it may run for ever without
	}
	want := r.call(t, plain, name, args...)
	if got.unlinked && want.unlinked {
		return // for the first reason that was found, in no order
	}
	if trap(got.err) != trap(want.err) {
		t.Fatalf("%s(%x): %v; without metering %v", name, args, got.err, want.err)
	}
	refs := func(v api.ValueType) bool { return v == api.ValueTypeExternref || v == 0x70 }
	if !slices.ContainsFunc(fn.ResultTypes(), refs) && !sameResults(fn.ResultTypes(), got.results, want.results) {
		t.Fatalf("%s(%x): %x; without metering %x", name, args, got.results, want.results)
	}
	if !bytes.Equal(got.memory, want.memory) {
		t.Fatalf("%s(%x) leaves another memory", name, args)
	}
}

// sameResults takes all NaNs for the same: which one an operation gives is not
// defined.
func sameResults(types []api.ValueType, got, want []uint64) bool {
	if len(types) != len(got) { // v128 has two words
		return slices.Equal(got, want)
	}
	for i, t := range types {
		nan := t == api.ValueTypeF32 && math.IsNaN(float64(math.Float32frombits(uint32(got[i])))) && math.IsNaN(float64(math.Float32frombits(uint32(want[i])))) ||
			t == api.ValueTypeF64 && math.IsNaN(math.Float64frombits(got[i])) && math.IsNaN(math.Float64frombits(want[i]))
		if !nan && got[i] != want[i] {
			return false
		}
	}
	return true
}
