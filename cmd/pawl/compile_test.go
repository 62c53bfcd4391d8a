package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	asm "github.com/pawlsync/pawl/internal/wasmasm"
)

// A plugin that nobody vouches for is compiled by this program in a process of
// its own: a good one works, a bomb is refused.
func TestPluginsAreCompiledInAProcessOfTheirOwn(t *testing.T) {
	pawl := build(t)
	bomb := asm.Misbehave(asm.Nop)
	bomb.Extend = func(m *asm.Module) {
		const locals, loops = 2000, 9000
		var body asm.Code
		for i := range loops {
			l := i % locals
			body = append(body, asm.Loop(asm.Get(l), asm.I64(1), asm.I64Add, asm.Set(l), asm.Get((l+7)%locals), asm.I32Wrap, asm.BrIf(0))...)
		}
		m.Func(":", strings.Repeat("I", locals), body)
	}
	for _, c := range []struct {
		name string
		wasm []byte
		want string // in what it prints; "": it is accepted
	}{
		{"good", asm.Misbehave(asm.Nop).Bytes(), ""},
		{"bomb", bomb.Bytes(), "more CPU time than the limit compile_cpu of 1s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			config := fmt.Sprintf("store: {path: %[1]s/store, reserve_bytes: 64MiB}\nwasm: {cache_dir: %[1]s/cache, compile_cpu: 1s, compile_memory_bytes: 4GiB}\nplugins: {own: {path: %[1]s/own.wasm}}\nsinks: {web: {plugin: own}}\n", dir)
			for name, b := range map[string][]byte{"own.wasm": c.wasm, "pawl.yaml": []byte(config)} {
				if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			out, err := exec.CommandContext(t.Context(), pawl, "config", "check", filepath.Join(dir, "pawl.yaml")).CombinedOutput()
			if c.want == "" {
				if err != nil {
					t.Errorf("%v\n%s", err, out)
				}
				return
			}
			if err == nil || !strings.Contains(string(out), c.want) || !strings.Contains(string(out), "plugins.own.path") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
