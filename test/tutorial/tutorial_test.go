// Package tutorial runs docs/plugins/tutorial.md word for word, against a real
// etcd. It has no code of its own.
package tutorial

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlsync/pawl/test/e2e/servers"
)

const page = "../../docs/plugins/tutorial.md"

// block is a fenced block, with the file that it is where the line before names one.
type block struct{ file, lang, text string }

var fenced = regexp.MustCompile("(?ms)^(?:(?:[^\\n]*\\n)?`([a-z_]+\\.[a-z]+)`[^\\n]*:\\n\\n)?```([a-z]+)\\n(.*?)^```$")

func blocks(t *testing.T) []block {
	t.Helper()
	var out []block
	for _, m := range fenced.FindAllStringSubmatch(read(t, page), -1) {
		out = append(out, block{m[1], m[2], m[3]})
	}
	return out
}

// script turns the tutorial into one shell script: files are written where they
// stand in the text, commands are as they are.
func script(t *testing.T) string {
	t.Helper()
	var s strings.Builder
	s.WriteString("set -eu\n")
	files := 0
	for _, b := range blocks(t) {
		switch {
		case b.file != "":
			fmt.Fprintf(&s, "cat >%s <<'END-OF-FILE'\n%sEND-OF-FILE\n", b.file, b.text)
			files++
		case b.lang == "sh":
			fmt.Fprintf(&s, "echo '--- command'\n%s", b.text)
		default:
			t.Fatalf("a block of %s with no file named before it:\n%s", b.lang, b.text)
		}
	}
	if files != 5 {
		t.Fatalf("the tutorial has %d files, want 5", files)
	}
	return s.String()
}

func TestTutorialWordForWord(t *testing.T) {
	if testing.Short() {
		t.Skip("builds plugins, and etcd the first time")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	etcd, err := servers.Build(ctx, "etcd")
	if err != nil {
		t.Fatal(err)
	}
	programs, dir := t.TempDir(), t.TempDir()
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", programs, "../../cmd/pawl").CombinedOutput(); err != nil {
		t.Fatalf("build pawl: %v\n%s", err, out)
	}
	shell := exec.CommandContext(ctx, "bash", "-c", script(t))
	shell.Dir = dir
	shell.Env = append(os.Environ(), "PATH="+programs+":"+filepath.Dir(etcd)+":"+os.Getenv("PATH"),
		"XDG_CACHE_HOME="+cacheHome(t), "GOFLAGS=-mod=mod", "GOPROXY=off")
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // with all that it leaves in the background
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	// A file, not a pipe: what goes on in the background would hold a pipe open.
	shell.Stdout, shell.Stderr = out, out
	err = shell.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) })
	err = shell.Wait()
	said := read(t, out.Name())
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	figures := regexp.MustCompile(`\d+ passed, 0 failed, \d+ skipped`).FindString(read(t, page))
	if figures == "" {
		t.Fatal("the page no longer says what the kit prints")
	}
	// What the text promises, in the order in which it does.
	rest := said
	for _, want := range []string{
		" 0 failed", // the project as it comes
		"ok  \texample.com/etcd-kv",
		figures,
		"POST /v3/kv/deleterange",
		"1 of 1 resource acknowledged",
		`"value":"eyJ2YWx1ZSI6ImJsdWUifQ=="`, // {"value":"blue"}: red is gone
		"confirmed",
		"1 of 1 resource gone",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("after all before it, the output lacks %q:\n%s", want, said)
		}
		rest = after
	}
}

// cacheHome is the user's own, so that compiled plugins are found there.
func cacheHome(t *testing.T) string {
	t.Helper()
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func read(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
