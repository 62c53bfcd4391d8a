package meter_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/wasmhost/meter"
	asm "github.com/pawlsync/pawl/internal/wasmasm"
)

func raw(sections ...[]byte) []byte {
	return append([]byte(asm.Header), slices.Concat(sections...)...)
}

func section(id byte, items ...[]byte) []byte {
	b := asm.Vec(items...)
	return slices.Concat([]byte{id}, asm.ULEB(len(b)), b)
}

var (
	typeNothing = []byte{0x60, 0, 0}
	oneFunction = slices.Concat(section(asm.SecType, typeNothing), section(asm.SecFunction, []byte{0}))
)

// code is a module whose only function, without parameters, has that body.
func code(c ...asm.Code) []byte { return build(only(c...)) }

func TestRefusals(t *testing.T) {
	body := func(b ...byte) []byte { return slices.Concat(asm.ULEB(len(b)), b) }
	for name, c := range map[string]struct {
		wasm []byte
		want string
	}{
		"nothing":                         {nil, "no core WebAssembly module"},
		"a component":                     {[]byte("\x00asm\x0d\x00\x01\x00"), "no core WebAssembly module"},
		"a cut header":                    {[]byte(asm.Header)[:6], "no core WebAssembly module"},
		"an unknown section":              {raw([]byte{14, 0}), "unknown kind 14"},
		"tags":                            {raw([]byte{13, 1, 0}), "unknown kind 13"},
		"a section cut off":               {raw([]byte{1, 5, 0}), "5 bytes are announced, 1 are left"},
		"a section twice":                 {raw(section(1), section(1)), "twice, or out of order"},
		"sections in disorder":            {raw(section(3), section(1)), "twice, or out of order"},
		"data count late":                 {raw(section(10), section(12)), "twice, or out of order"},
		"a start section":                 {raw(oneFunction, []byte{8, 1, 0}, section(10, body(0, 0x0b))), "start section"},
		"junk in a section":               {raw([]byte{1, 2, 0, 0}), "bytes are left after its last item"},
		"an empty section":                {raw([]byte{1, 0}), "cut off"},
		"a custom section without a name": {raw([]byte{0, 1, 9}), "9 bytes are announced"},
		"a size of too many bytes":        {raw([]byte{1, 0x81, 0x80, 0x80, 0x80, 0x80, 0x00, 0}), "does not fit into 32 bits"},
		"a size of too many bits":         {raw([]byte{1, 0x81, 0x80, 0x80, 0x80, 0x10, 0}), "does not fit into 32 bits"},

		"a recursive type":      {raw(section(1, []byte{0x4e, 1, 0x60, 0, 0})), "kind of type 0x4e"},
		"a struct":              {raw(section(1, []byte{0x5f, 0})), "kind of type 0x5f"},
		"a reference to a type": {raw(section(1, []byte{0x60, 1, 0x63, 0, 0})), "value type 0x63"},
		"an exception":          {raw(section(1, []byte{0x60, 1, 0x69, 0})), "value type 0x69"},

		"an import of ours":                  {raw(section(1, typeNothing), section(2, slices.Concat(asm.Str(meter.Module), asm.Str("x"), []byte{0, 0}))), "reserved"},
		"an import of no type":               {raw(section(1, typeNothing), section(2, slices.Concat(asm.Str("m"), asm.Str("x"), []byte{0, 1}))), "type 1 does not exist"},
		"an import of a tag":                 {raw(section(2, slices.Concat(asm.Str("m"), asm.Str("x"), []byte{4, 0, 0}))), "kind of import 4"},
		"an import with a bad name":          {raw(section(2, slices.Concat(asm.Str("\xff"), asm.Str("x"), []byte{0, 0}))), "UTF-8"},
		"a function of no type":              {raw(section(1, typeNothing), section(3, []byte{1}), section(10, body(0, 0x0b))), "type 1 does not exist"},
		"a function of an added type":        {raw(section(3, []byte{0}), section(10, body(0, 0x0b))), "type 0 does not exist"},
		"more functions than bodies":         {raw(oneFunction), "0 bodies for 1 functions"},
		"more bodies than functions":         {raw(section(10, body(0, 0x0b))), "1 bodies for 0 functions"},
		"a table of numbers":                 {raw(section(4, []byte{0x7f, 0, 0})), "reference type 0x7f"},
		"a table with a start value":         {raw(section(4, []byte{0x40, 0, 0x70, 0, 0, 0xd0, 0x70, 0x0b})), "reference type 0x40"},
		"a table of 64 bits":                 {raw(section(4, []byte{0x70, 4, 0})), "limits 0x4"},
		"a table below its minimum":          {raw(section(4, []byte{0x70, 1, 2, 1})), "not possible"},
		"two memories":                       {raw(section(5, []byte{0, 0}, []byte{0, 0})), "2 memories, more than the 1"},
		"a shared memory":                    {raw(section(5, []byte{3, 1, 1})), "limits 0x3"},
		"a memory of 64 bits":                {raw(section(5, []byte{4, 1})), "limits 0x4"},
		"a memory too large":                 {raw(section(5, slices.Concat([]byte{0}, asm.ULEB(65537)))), "not possible"},
		"a global from an own one":           {raw(section(6, []byte{0x7f, 0, 0x41, 0, 0x0b}, []byte{0x7f, 0, 0x23, 0, 0x0b})), "imported global 0 does not exist"},
		"a global from the fuel":             {raw(section(6, []byte{0x7e, 0, 0x23, 1, 0x0b})), "imported global 1 does not exist"},
		"a global from a sum":                {raw(section(6, []byte{0x7f, 0, 0x41, 1, 0x41, 1, 0x6a, 0x0b})), "more than one instruction"},
		"a global of no mutability":          {raw(section(6, []byte{0x7f, 2, 0x41, 1, 0x0b})), "mutability 0x2"},
		"an export of the refill":            {raw(oneFunction, section(7, slices.Concat(asm.Str("x"), []byte{0, 1})), section(10, body(0, 0x0b))), "function 1 does not exist"},
		"an export of the fuel":              {raw(section(7, slices.Concat(asm.Str("x"), []byte{3, 0}))), "global 0 does not exist"},
		"an export of no memory":             {raw(section(7, slices.Concat(asm.Str("x"), []byte{2, 0}))), "memory 0 does not exist"},
		"an export of no table":              {raw(section(7, slices.Concat(asm.Str("x"), []byte{1, 0}))), "table 0 does not exist"},
		"an element that refills":            {raw(oneFunction, section(4, []byte{0x70, 0, 1}), section(9, []byte{0, 0x41, 0, 0x0b, 1, 1}), section(10, body(0, 0x0b))), "function 1 does not exist"},
		"an element expression that refills": {raw(oneFunction, section(4, []byte{0x70, 0, 1}), section(9, []byte{4, 0x41, 0, 0x0b, 1, 0xd2, 1, 0x0b}), section(10, body(0, 0x0b))), "function 1 does not exist"},
		"elements of no table":               {raw(section(9, []byte{0, 0x41, 0, 0x0b, 0})), "table 0 does not exist"},
		"elements of an unknown kind":        {raw(section(9, []byte{8, 0})), "kind of element segment 8"},
		"data of no memory":                  {raw(section(11, []byte{0, 0x41, 0, 0x0b, 0})), "memory 0 does not exist"},
		"data of an unknown kind":            {raw(section(11, []byte{3, 0})), "kind of data segment 3"},
		"data cut off":                       {raw(section(5, []byte{0, 1}), section(11, []byte{0, 0x41, 0, 0x0b, 9, 1})), "9 bytes are announced"},
		"data that are not counted":          {raw([]byte{12, 1, 1}), "as many segments"},

		"the fuel set":                {code(asm.I64(1<<40), asm.GlobalSet(0)), "global 0 does not exist"},
		"the depth set":               {code(asm.I64(1<<40), asm.GlobalSet(1)), "global 1 does not exist"},
		"the refill called":           {code(asm.Call(1), asm.Drop), "function 1 does not exist"},
		"the slow path called":        {code(asm.Call(3)), "function 3 does not exist"},
		"the refill referred to":      {code(asm.RefFunc(1), asm.Drop), "function 1 does not exist"},
		"the scratch local":           {code(asm.I32(1), asm.Set(5)), "local 5 does not exist"},
		"a call by an added type":     {code(asm.I32(0), asm.CallIndirect(1, 0)), "type 1 does not exist"},
		"a call by no table":          {code(asm.I32(0), asm.CallIndirect(0, 1)), "table 1 does not exist"},
		"a block of an added type":    {code([]byte{0x02, 1, 0x0b}), "type of a block, 1"},
		"a block of a negative type":  {code([]byte{0x02, 0x62, 0x0b}), "type of a block, -30"},
		"a label too far":             {code(asm.Block(asm.Br(2))), "label 2 does not exist: 2 are open"},
		"a label of a table":          {code(asm.Block(asm.I32(0), asm.BrTable([]int{0, 7}, 0))), "label 7 does not exist"},
		"an else without an if":       {code([]byte{0x05}), "else without an if"},
		"two elses":                   {code(asm.I32(0), []byte{0x04, 0x40, 0x05, 0x05, 0x0b}), "else without an if"},
		"an end too much":             {code([]byte{0x0b}), "bytes are left after its end"},
		"an end too few":              {raw(oneFunction, section(10, body(0, 0x02, 0x40, 0x0b))), "cut off"},
		"a body of nothing":           {raw(oneFunction, section(10, body())), "cut off"},
		"a constant cut off":          {raw(oneFunction, section(10, body(0, 0x41, 0x80))), "cut off"},
		"a constant of too many bits": {code([]byte{0x41, 0xff, 0xff, 0xff, 0xff, 0x4f, 0x1a}), "does not fit into 32 bits"},
		"no data count":               {code(asm.I32(0), asm.I32(0), asm.I32(0), asm.MemoryInit(0)), "data count"},
		"an element segment":          {code(asm.ElemDrop(1)), "element segment 1 does not exist"},
		"another memory":              {code([]byte{0x3f, 1, 0x1a}), "memory 1 does not exist"},
		"a load of another memory":    {code(asm.I32(0), []byte{0x28, 0x42, 0, 0, 0x1a}), "alignment"},
		"a select of two types":       {code([]byte{0x1c, 2, 0x7f, 0x7f}), "select of 2 types"},
		"a tail call":                 {code([]byte{0x12, 0}), "instruction 0x12"},
		"a tail call by a table":      {code([]byte{0x13, 0, 0}), "instruction 0x13"},
		"a throw":                     {code([]byte{0x08, 0}), "instruction 0x8"},
		"a try":                       {code([]byte{0x06, 0x40, 0x0b}), "instruction 0x6"},
		"a try_table":                 {code([]byte{0x1f, 0x40, 0, 0x0b}), "instruction 0x1f"},
		"an atomic":                   {code([]byte{0xfe, 3, 0}), "instruction 0xfe"},
		"an allocation":               {code([]byte{0xfb, 0, 0}), "instruction 0xfb"},
		"relaxed SIMD":                {code([]byte{0xfd, 0x80, 0x02}), "instruction 0xfd 0x100"},
		"a gap in SIMD":               {code([]byte{0xfd, 0x9a, 0x01}), "instruction 0xfd 0x9a"},
		"a misc of the future":        {code([]byte{0xfc, 18}), "instruction 0xfc 0x12"},
		// wazero takes the byte 0x8c for the whole number: it would see i16x8.shr_s.
		"a number of SIMD that is too long": {code([]byte{0xfd, 0x8c, 0}, slices.Repeat([]byte{0}, 16)), "longer than it needs to be"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := meter.Rewrite(c.wasm, meter.Limits{})
			var e *meter.Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			if e.Where == "" || e.Offset < 0 || e.Offset > len(c.wasm) {
				t.Errorf("%+v", e)
			}
		})
	}
}

// Every limit is one, and says what it is.
func TestLimits(t *testing.T) {
	var m asm.Module
	m.Type("iiii:iii")
	m.ImportFunc("a", "b", ":")
	m.ImportFunc("a", "c", ":")
	m.Table(asm.FuncRef, 3, 3)
	m.Table(asm.FuncRef, 3, 3)
	m.Memory(1, 1)
	m.Global(asm.TypeI32, true, asm.I32(0))
	m.Global(asm.TypeI32, true, asm.I32(0))
	f := m.Func("iiii:", "ii", asm.Block(asm.Block(asm.Nop)))
	m.Func(":", "", asm.Nop)
	m.Export("f", asm.KindFunc, f)
	m.Export("g", asm.KindFunc, f)
	m.Elem(asm.I32(0), f)
	m.Elem(asm.I32(0), f)
	m.Data(asm.I32(0), "x")
	m.Data(asm.I32(0), "y")
	wasm := m.Bytes()
	if _, err := meter.Rewrite(wasm, meter.Limits{}); err != nil {
		t.Fatal(err)
	}
	for want, l := range map[string]meter.Limits{
		"bytes, more than the 10 allowed":                {ModuleBytes: 10},
		"types, more than the 1 allowed":                 {Types: 1},
		"imports, more than the 1 allowed":               {Imports: 1},
		"functions, more than the 1 allowed":             {Functions: 1},
		"tables, more than the 1 allowed":                {Tables: 1},
		"globals, more than the 1 allowed":               {Globals: 1},
		"exports, more than the 1 allowed":               {Exports: 1},
		"element segments, more than the 1 allowed":      {ElementSegments: 1},
		"data segments, more than the 1 allowed":         {DataSegments: 1},
		"parameters, more than the 3 allowed":            {Signature: 3},
		"a body of 11 bytes, more than the 10 allowed":   {BodyBytes: 10},
		"more than the 5 locals allowed":                 {Locals: 5},
		"blocks nest deeper than the 1 allowed":          {Nesting: 1},
		"a table of 3 elements, more than the 2 allowed": {TableElements: 5},
		"limit Depth is negative":                        {Depth: -1},
	} {
		if _, err := meter.Rewrite(wasm, l); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// What is cut off anywhere, or has one bit turned, is refused or rewritten, and
// never a panic.
func TestDamagedModules(t *testing.T) {
	for seed := range uint64(20) {
		wasm := randomModule(seed)
		for i := range wasm {
			if _, err := meter.Rewrite(wasm[:i], meter.Limits{}); err == nil && i > 8 {
				// Whole sections may be missing at the end, if nothing needs them.
				continue
			}
			b := slices.Clone(wasm)
			b[i] ^= 1 << (i % 8)
			_, _ = meter.Rewrite(b, meter.Limits{})
		}
	}
}
