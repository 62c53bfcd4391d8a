package meter

import "fmt"

// Limits bound the shape of a module. The zero value of each field means its
// default.
type Limits struct {
	// ModuleBytes is the size of the module; its code may have twice as much when it
	// is rewritten. Defaults to 64 MiB.
	ModuleBytes int
	// Types, Imports, Functions, Tables, Globals, Exports, DataSegments and
	// ElementSegments are how many of them a module may have. They default to
	// 20,000 types, 1000 imports, 200,000 functions, 16 tables, 20,000 globals,
	// 20,000 exports, and 100,000 segments of each kind.
	Types, Imports, Functions, Tables, Globals, Exports, DataSegments, ElementSegments int
	// Signature is how many parameters, and how many results, a type may have.
	// Defaults to 256.
	Signature int
	// BodyBytes is the size of one function's code. Defaults to 1 MiB.
	BodyBytes int
	// Locals is how many locals a function may have, parameters included; all
	// functions together may have 1000 times as many. Defaults to 8192.
	Locals int
	// Nesting is how deep the blocks of a function may nest. Defaults to 16,384.
	Nesting int
	// TableElements is how many elements the tables of an instance may ever have
	// together, of 8 bytes each; each table has an equal part, to which a larger
	// declared maximum is lowered. It is how many the element segments may have
	// together, too. Defaults to 1,000,000.
	TableElements int
	// Depth bounds recursion, in bytes of stack as the rewriter estimates it: a
	// Go guest takes about a fifth, code that was written to take much up to
	// three times as much. Defaults to 16 MiB, in which JSON nested 10,000 deep
	// is decoded.
	Depth int
}

// What limits are when they are not set.
var defaults = Limits{
	ModuleBytes: 64 << 20,
	Types:       20_000, Imports: 1000, Functions: 200_000, Tables: 16, Globals: 20_000, Exports: 20_000,
	DataSegments: 100_000, ElementSegments: 100_000,
	Signature: 256, BodyBytes: 1 << 20, Locals: 8192, Nesting: 16_384,
	TableElements: 1_000_000, Depth: 16 << 20,
}

func (l Limits) withDefaults() (Limits, error) {
	d := defaults
	for _, f := range []struct {
		name   string
		v, def *int
	}{
		{"ModuleBytes", &l.ModuleBytes, &d.ModuleBytes}, {"Types", &l.Types, &d.Types},
		{"Imports", &l.Imports, &d.Imports}, {"Functions", &l.Functions, &d.Functions},
		{"Tables", &l.Tables, &d.Tables}, {"Globals", &l.Globals, &d.Globals},
		{"Exports", &l.Exports, &d.Exports}, {"DataSegments", &l.DataSegments, &d.DataSegments},
		{"ElementSegments", &l.ElementSegments, &d.ElementSegments}, {"Signature", &l.Signature, &d.Signature},
		{"BodyBytes", &l.BodyBytes, &d.BodyBytes}, {"Locals", &l.Locals, &d.Locals},
		{"Nesting", &l.Nesting, &d.Nesting}, {"TableElements", &l.TableElements, &d.TableElements},
		{"Depth", &l.Depth, &d.Depth},
	} {
		if *f.v < 0 {
			return l, fmt.Errorf("meter: limit %s is negative", f.name)
		}
		if *f.v == 0 {
			*f.v = *f.def
		}
	}
	return l, nil
}
