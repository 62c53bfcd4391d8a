package wasmhost

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// The names of the modules that a plugin may import from.
const (
	hostModule = "pawl_v1"
	wasiModule = "wasi_snapshot_preview1"
)

// maxModuleBytes bounds a plugin's file: a Go guest has 3 to 10 MB.
const maxModuleBytes = 64 << 20

var wasmHeader = []byte("\x00asm\x01\x00\x00\x00")

// checkBinary refuses, before anything is compiled, what is no core module, a
// start section (it would run when the module is instantiated, outside of every
// limit) and imports that the host does not offer.
func checkBinary(wasm []byte) error {
	if len(wasm) > maxModuleBytes {
		return fmt.Errorf("the module has %d bytes, more than the %d allowed", len(wasm), maxModuleBytes)
	}
	if !bytes.HasPrefix(wasm, wasmHeader) {
		return errors.New("it is no core WebAssembly module of version 1 (a component, or no wasm at all)")
	}
	r := &wasmReader{b: wasm[len(wasmHeader):]}
	for len(r.b) > 0 && !r.bad {
		id := r.byte()
		body := &wasmReader{b: r.bytes()}
		switch {
		case r.bad:
		case id == 2:
			if err := checkImports(body); err != nil {
				return err
			}
		case id == 8:
			return errors.New("it has a start section; export _initialize instead")
		}
	}
	if r.bad {
		return errors.New("its sections are cut off or damaged")
	}
	return nil
}

func checkImports(r *wasmReader) error {
	for n := r.uint(); n > 0 && !r.bad; n-- {
		module, name, kind := string(r.bytes()), string(r.bytes()), r.byte()
		if r.bad {
			break
		}
		if kind != 0 {
			return fmt.Errorf("it imports %q.%q, which is no function; only functions are offered", module, name)
		}
		r.uint() // its type, checked when it is linked
		if !offered(module, name) {
			return fmt.Errorf("it imports the function %q.%q, which this host does not offer", module, name)
		}
	}
	if r.bad {
		return errors.New("its import section is cut off or damaged")
	}
	return nil
}

func offered(module, name string) bool {
	var fs []hostFunc
	switch module {
	case hostModule:
		fs = pawlFuncs
	case wasiModule:
		fs = wasiFuncs
	}
	return slices.ContainsFunc(fs, func(f hostFunc) bool { return f.name == name })
}

// wasmReader reads a module's bytes; after the first damage bad is set and
// every value is zero.
type wasmReader struct {
	b   []byte
	bad bool
}

func (r *wasmReader) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *wasmReader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > 1<<32-1 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *wasmReader) bytes() []byte {
	n := r.uint()
	if r.bad || n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	s := r.b[:n]
	r.b = r.b[n:]
	return s
}

// The exports of a plugin.
const (
	exportInit   = "_initialize"
	exportABI    = "pawl_abi"
	exportStart  = "pawl_start"
	exportResume = "pawl_resume"
	exportPoll   = "pawl_poll"
	exportCancel = "pawl_cancel"
	exportMemory = "memory"
)

var exports = []struct {
	name     string
	optional bool
	params   []api.ValueType
	results  []api.ValueType
}{
	{exportInit, true, nil, nil},
	{exportABI, false, nil, []api.ValueType{api.ValueTypeI32}},
	{exportStart, false, []api.ValueType{api.ValueTypeI32, api.ValueTypeI64}, []api.ValueType{api.ValueTypeI32}},
	{exportResume, false, []api.ValueType{api.ValueTypeI64}, []api.ValueType{api.ValueTypeI32}},
	{exportPoll, false, nil, []api.ValueType{api.ValueTypeI32}},
	{exportCancel, false, []api.ValueType{api.ValueTypeI64}, []api.ValueType{api.ValueTypeI32}},
}

// checkExports refuses a module that lacks an export of the ABI or has it with
// another type.
func checkExports(m wazero.CompiledModule) error {
	fns := m.ExportedFunctions()
	for _, e := range exports {
		f, ok := fns[e.name]
		if !ok {
			if e.optional {
				continue
			}
			return fmt.Errorf("it does not export the function %s", e.name)
		}
		if !bytes.Equal(f.ParamTypes(), e.params) || !bytes.Equal(f.ResultTypes(), e.results) {
			return fmt.Errorf("its export %s has the type %s, not %s", e.name,
				signature(f.ParamTypes(), f.ResultTypes()), signature(e.params, e.results))
		}
	}
	if _, ok := m.ExportedMemories()[exportMemory]; !ok {
		return fmt.Errorf("it does not export its memory as %q", exportMemory)
	}
	return nil
}

func signature(params, results []api.ValueType) string {
	names := func(ts []api.ValueType) string {
		var b []byte
		for i, t := range ts {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = append(b, api.ValueTypeName(t)...)
		}
		return string(b)
	}
	return fmt.Sprintf("(%s) -> (%s)", names(params), names(results))
}
