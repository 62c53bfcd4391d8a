package wasmhost

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/tetratelabs/wazero/api"
)

// ModuleInfo is what a module's file says of itself, whether or not it is a plugin.
type ModuleInfo struct {
	Imports []ModuleImport
	Exports []ModuleExport
	// MemoryMinPages and MemoryMaxPages are those of its memory, in pages of
	// 64 KiB. MemoryMaxPages is -1 where it states none; both are 0 where it has
	// no memory of its own.
	MemoryMinPages, MemoryMaxPages int64
	CustomSections                 []string // names, in order
	CodeBytes, DataBytes           int      // of the code and data sections
	Start                          bool     // it has a start section
}

// ModuleImport is one import.
type ModuleImport struct {
	Module, Name string
	Kind         string // "function", "table", "memory", "global"
	Offered      bool   // by this host
}

// ModuleExport is one export.
type ModuleExport struct {
	Name string
	Kind string // as of ModuleImport
	Type string // of functions: "(i32, i64) -> (i32)"; else ""
}

var externKinds = [...]string{"function", "table", "memory", "global"}

func externKind(k byte) string {
	if int(k) < len(externKinds) {
		return externKinds[k]
	}
	return fmt.Sprintf("kind %d", k)
}

// ReadModule reads what a module's file says of itself. It neither compiles nor
// runs anything.
//
// # Errors
//
// An error says that the file is no core module, or is cut off or damaged.
func ReadModule(wasm []byte) (*ModuleInfo, error) {
	if !bytes.HasPrefix(wasm, wasmHeader) {
		return nil, errors.New("it is no core WebAssembly module of version 1 (a component, or no wasm at all)")
	}
	m := &moduleScan{}
	r := &wasmReader{b: wasm[len(wasmHeader):]}
	for len(r.b) > 0 && !r.bad {
		id := r.byte()
		body := &wasmReader{b: r.bytes()}
		if r.bad {
			break
		}
		m.section(id, body)
		r.bad = r.bad || body.bad
	}
	if r.bad {
		return nil, errors.New("its sections are cut off or damaged")
	}
	m.typeExports()
	return &m.info, nil
}

// moduleScan gathers what the sections say.
type moduleScan struct {
	info      ModuleInfo
	types     []string // signatures
	functions []uint64 // types by index, imported ones first
	exported  []uint64 // function by export, where it is one
}

func (m *moduleScan) section(id byte, r *wasmReader) {
	switch id {
	case 0:
		m.info.CustomSections = append(m.info.CustomSections, string(r.bytes()))
	case 1:
		m.typeSection(r)
	case 2:
		m.importSection(r)
	case 3:
		for n := r.uint(); n > 0 && !r.bad; n-- {
			m.functions = append(m.functions, r.uint())
		}
	case 5:
		if r.uint() > 0 {
			m.info.MemoryMinPages, m.info.MemoryMaxPages = limitsOf(r)
		}
	case 7:
		m.exportSection(r)
	case 8:
		m.info.Start = true
	case 10:
		m.info.CodeBytes = len(r.b)
	case 11:
		m.info.DataBytes = len(r.b)
	}
}

func (m *moduleScan) typeSection(r *wasmReader) {
	for n := r.uint(); n > 0 && !r.bad; n-- {
		r.byte() // 0x60, a function
		params := slices.Clone(r.bytes())
		m.types = append(m.types, signature(params, r.bytes()))
	}
}

func (m *moduleScan) importSection(r *wasmReader) {
	for n := r.uint(); n > 0 && !r.bad; n-- {
		module, name, kind := string(r.bytes()), string(r.bytes()), r.byte()
		switch kind {
		case api.ExternTypeFunc:
			m.functions = append(m.functions, r.uint())
		case api.ExternTypeTable:
			r.byte() // its element type
			limitsOf(r)
		case api.ExternTypeMemory:
			limitsOf(r)
		case api.ExternTypeGlobal:
			r.byte() // its type
			r.byte() // whether it is mutable
		default:
			r.bad = true
		}
		m.info.Imports = append(m.info.Imports, ModuleImport{
			Module: module, Name: name, Kind: externKind(kind), Offered: kind == api.ExternTypeFunc && offered(module, name),
		})
	}
}

func (m *moduleScan) exportSection(r *wasmReader) {
	for n := r.uint(); n > 0 && !r.bad; n-- {
		name, kind, index := string(r.bytes()), r.byte(), r.uint()
		if kind != api.ExternTypeFunc {
			index = 1<<64 - 1
		}
		m.info.Exports = append(m.info.Exports, ModuleExport{Name: name, Kind: externKind(kind)})
		m.exported = append(m.exported, index)
	}
}

// typeExports gives the exported functions their types, when all sections are read.
func (m *moduleScan) typeExports() {
	for i, f := range m.exported {
		if f < uint64(len(m.functions)) && m.functions[f] < uint64(len(m.types)) {
			m.info.Exports[i].Type = m.types[m.functions[f]]
		}
	}
}

func limitsOf(r *wasmReader) (low, high int64) {
	flags := r.byte()
	low, high = int64(r.uint()), -1
	if flags&1 != 0 {
		high = int64(r.uint())
	}
	return low, high
}
