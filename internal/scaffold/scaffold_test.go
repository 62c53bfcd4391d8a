package scaffold

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// need skips, or where the tests require all that they use fails, a test that a
// fresh clone can't run.
func need(t *testing.T, what string, err error) {
	t.Helper()
	switch {
	case err == nil:
	case os.Getenv("REQUIRE_PLUGINS") == "1":
		t.Fatalf("%s: %v", what, err)
	default:
		t.Skipf("%s: %v", what, err)
	}
}

func TestAProjectHasItsName(t *testing.T) {
	for _, lang := range Languages() {
		t.Run(lang, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "project")
			files, err := New(dir, "my-thing2", lang)
			if errors.Is(err, ErrNotBuiltIn) {
				need(t, "the SDKs", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{".gitignore", "README.md", "fixture.yaml", "payload.json"} {
				if !slices.Contains(files, want) {
					t.Errorf("there is no %s among %q", want, files)
				}
			}
			example := languages[lang].word
			err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				if rel, _ := filepath.Rel(dir, path); strings.HasPrefix(rel, sdkDir) {
					return nil
				}
				content, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				for _, left := range []string{"{{name}}", "{{sdk}}", "{{language}}", "../.."} {
					if strings.Contains(string(content), left) {
						t.Errorf("%s still has %q", path, left)
					}
				}
				if found := example.FindString(string(content)); found != "" {
					t.Errorf("%s still has the example's name: %q", path, found)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := New(dir, "my-thing2", lang); !errors.Is(err, ErrExists) {
				t.Errorf("a second time into the same folder: %v, want ErrExists", err)
			}
		})
	}
}

func TestBadNamesAreRefused(t *testing.T) {
	long := strings.Repeat("a", maxName+1)
	for _, name := range []string{"", "A", "1a", "-a", "a-", "a--b", "a_b", "a/b", "..", "ä", "a b", "pawl", sdkDir, long} {
		if _, err := New(t.TempDir(), name, "go"); !errors.Is(err, ErrName) {
			t.Errorf("the name %q: %v, want ErrName", name, err)
		}
	}
	if _, err := New(t.TempDir(), "crate", "rust"); !errors.Is(err, ErrName) {
		t.Errorf("a keyword of Rust: %v, want ErrName", err)
	}
	if _, err := New(t.TempDir(), "a", "cobol"); !errors.Is(err, ErrLanguage) || !strings.Contains(err.Error(), "go, rust, c") {
		t.Errorf("a language without an SDK: %v", err)
	}
}

func TestAFolderWithFilesIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "go.mod")
	if err := os.WriteFile(mine, []byte("module mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(dir, "a", "go"); !errors.Is(err, ErrExists) {
		t.Errorf("%v, want ErrExists", err)
	}
	if content, err := os.ReadFile(mine); err != nil || string(content) != "module mine" {
		t.Errorf("the file that was there is %q, %v", content, err)
	}
}

func TestABinaryWithoutSDKsSaysWhatToDo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	_, err := write(fstest.MapFS{"sdk/README.md": {}}, dir, "a", "go")
	if !errors.Is(err, ErrNotBuiltIn) || !strings.Contains(err.Error(), `run "make"`) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder was made: %v", err)
	}
}

// The project must build and pass its tests from the first minute, with neither
// a network nor anything in the module cache.
func TestAGoProjectBuildsAndPassesItsTestsOffline(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a project")
	}
	dir := filepath.Join(t.TempDir(), "my-thing")
	_, err := New(dir, "my-thing", "go")
	if errors.Is(err, ErrNotBuiltIn) {
		need(t, "the SDKs", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	nowhere := t.TempDir()
	run := func(env []string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), append(env, "GOPATH="+nowhere, "GOMODCACHE="+filepath.Join(nowhere, "mod"),
			"GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off", "GOTOOLCHAIN=local")...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	run(nil, "go", "test", "./...")
	run(nil, "go", "vet", "./...")
	run([]string{"GOOS=wasip1", "GOARCH=wasm"}, "go", "build", "-buildmode=c-shared", "-o", "my-thing.wasm", ".")
	if out, err := exec.CommandContext(t.Context(), "gofmt", "-l", dir).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("gofmt: %s%v", out, err)
	}
}

func TestARustProjectPassesItsTests(t *testing.T) {
	passes(t, "rust", filepath.Join(sdkDir, "build.sh"), "--test", ".")
}

func TestACProjectPassesItsTests(t *testing.T) { passes(t, "c", "make", "test") }

func passes(t *testing.T, lang string, args ...string) {
	if testing.Short() {
		t.Skip("builds a project")
	}
	dir := filepath.Join(t.TempDir(), "my-thing")
	_, err := New(dir, "my-thing", lang)
	if errors.Is(err, ErrNotBuiltIn) {
		need(t, "the SDKs", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	compiler := map[string]string{"rust": "rustc", "c": "cc"}[lang]
	_, err = exec.LookPath(compiler)
	need(t, compiler, err)
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	if filepath.Base(args[0]) != args[0] {
		cmd.Path = filepath.Join(dir, args[0])
	}
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
