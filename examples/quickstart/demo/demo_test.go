package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestTheDemoArrives runs the whole demo, in a folder of its own, with programs
// built for it.
func TestTheDemoArrives(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs three programs")
	}
	if _, err := os.Stat(filepath.Join("..", "..", "..", "internal", "bundled", "plugins", "http.wasm")); err != nil {
		if os.Getenv("REQUIRE_PLUGINS") == "1" {
			t.Fatal(err)
		}
		t.Skip("the http plugin is not built; run: make plugins")
	}
	bin, dir := t.TempDir(), t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin+string(filepath.Separator), "../../../cmd/pawl", "../target")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.CopyFS(filepath.Join(dir, "resources"), os.DirFS("../resources")); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile("../pawl.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "pawl.yaml"), config, 0o644); err != nil {
		t.Fatal(err)
	}
	d := &demo{pawl: filepath.Join(bin, "pawl"), target: filepath.Join(bin, "target"), dir: dir, desired: map[string]string{}}
	if err := d.run(t.Context()); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, ".demo", "run", "daemon.log"))
		t.Fatalf("%v\n%s", err, log)
	}
	left, err := os.ReadDir(filepath.Join(dir, ".demo"))
	if err != nil || len(left) != 1 || left[0].Name() != "run" {
		t.Errorf("the demo left %v, %v in .demo, where the tour has its own; want run alone", left, err)
	}
}
