package wasmhost_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/wasmhost"
	asm "github.com/pawlsync/pawl/internal/wasmasm"
)

func TestAModuleIsReadWithoutBeingRun(t *testing.T) {
	imports := func(m *asm.Module) {
		m.Import("env", "g", asm.KindGlobal, []byte{asm.TypeI32, 0})
		m.ImportFunc("env", "open", ":i")
	}
	m, err := wasmhost.ReadModule(asm.Guest{Imports: imports, StartSection: true}.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(m.Imports, func(i wasmhost.ModuleImport) bool { return i.Name == "g" })
	if at < 0 || m.Imports[at] != (wasmhost.ModuleImport{Module: "env", Name: "g", Kind: "global"}) {
		t.Errorf("imports are %+v, want the global env.g, not offered, among them", m.Imports)
	}
	if !slices.Contains(m.Imports, wasmhost.ModuleImport{Module: "pawl_v1", Name: "result", Kind: "function", Offered: true}) {
		t.Errorf("imports are %+v, want pawl_v1.result, offered, among them", m.Imports)
	}
	for _, want := range []wasmhost.ModuleExport{
		{Name: "pawl_start", Kind: "function", Type: "(i32, i64) -> (i32)"}, {Name: "memory", Kind: "memory"},
	} {
		if !slices.Contains(m.Exports, want) {
			t.Errorf("exports are %+v, want %+v among them", m.Exports, want)
		}
	}
	if !m.Start || m.MemoryMinPages == 0 || m.CodeBytes == 0 {
		t.Errorf("start %t, %d pages, %d bytes of code", m.Start, m.MemoryMinPages, m.CodeBytes)
	}
}

func TestWhatIsNoModuleIsNotRead(t *testing.T) {
	whole := asm.Guest{}.Bytes()
	for _, c := range []struct {
		name, says string
		wasm       []byte
	}{
		{"a text", "no core WebAssembly module", []byte("hello")},
		{"a component", "no core WebAssembly module", []byte("\x00asm\x0d\x00\x01\x00")},
		{"a cut module", "cut off or damaged", whole[:len(whole)-10]},
		{"a section that promises too much", "cut off or damaged", append(slices.Clone([]byte(asm.Header)), 7, 3, 0xff, 0xff, 0x03)},
	} {
		if _, err := wasmhost.ReadModule(c.wasm); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
}
