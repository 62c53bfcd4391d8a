package daemon

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestTheAuditsFileIsMadeAnewWhereItWasRenamedAndItsTroubleIsToldOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "audit.log")
	var said strings.Builder
	lost := 0
	a, err := openAudit(path, slog.New(slog.NewTextHandler(&said, nil)), func() { lost++ })
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	a.now = func() time.Time { return now }
	defer a.Close()
	write := func(name string) {
		a.logger().Info("", "name", name)
		now = now.Add(auditLook)
	}
	holds := func(path string, want ...string) {
		t.Helper()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Count(string(b), "\n")
		for _, name := range want {
			if !strings.Contains(string(b), `"name":"`+name+`"}`) {
				t.Errorf("%s lacks %s: %s", path, name, b)
			}
		}
		if lines != len(want) || strings.Contains(string(b), `"msg"`) || strings.Contains(string(b), `"level"`) {
			t.Errorf("%s holds %d lines, want %d: %s", path, lines, len(want), b)
		}
	}
	write("first")
	holds(path, "first")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	write("second")
	holds(path+".1", "first")
	holds(path, "second")

	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	write("lost")
	write("lost too")
	if lost != 2 || strings.Count(said.String(), "can't be written") != 1 {
		t.Errorf("%d lines lost, and the log says\n%s", lost, said.String())
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write("third")
	holds(path, "third")
	if lost != 2 || strings.Count(said.String(), "written again") != 1 {
		t.Errorf("%d lines lost, and the log says\n%s", lost, said.String())
	}
}

// A disk that is full takes the first half of a line.
func TestALineOfTheAuditsFileThatWasCutOffSpoilsNoOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	a, err := openAudit(path, slog.New(slog.DiscardHandler), func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	cutOff := func() {
		t.Helper()
		if _, err := a.file.WriteString(`{"name":"cut o`); err != nil {
			t.Fatal(err)
		}
	}
	a.logger().Info("", "name", "first")
	cutOff()
	a.file.Close()
	a.logger().Info("", "name", "lost")
	a.logger().Info("", "name", "second")
	cutOff()
	a.Close()
	again, err := openAudit(path, slog.New(slog.DiscardHandler), func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	again.logger().Info("", "name", "third")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(b)) {
		var l struct{ Name string }
		if json.Unmarshal([]byte(line), &l) == nil {
			names = append(names, l.Name)
		}
	}
	if got := strings.Join(names, " "); got != "first second third" || strings.Count(string(b), "\n") != 5 {
		t.Errorf("read %q of\n%s", got, b)
	}
}

// A pipe is no file for an audit, nor is it waited for: neither at the start nor where
// one comes in the file's place.
func TestTheAuditsFileIsNoPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	lost := 0
	a, err := openAudit(path, slog.New(slog.DiscardHandler), func() { lost++ })
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	now := time.Now().Add(auditLook)
	a.now = func() time.Time { return now }
	a.logger().Info("", "name", "ci")
	if lost != 1 {
		t.Errorf("%d lines lost, want 1", lost)
	}
	if _, err := openAudit(path, slog.New(slog.DiscardHandler), nil); err == nil {
		t.Error("a pipe that nobody reads is taken")
	}
	reader, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if _, err := openAudit(path, slog.New(slog.DiscardHandler), nil); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a pipe that somebody reads: %v", err)
	}
}
