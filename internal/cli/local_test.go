package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/badger"
	"github.com/pawlsync/pawl/engine/record"
)

// newStore makes a store with one resource and returns its folder.
func newStore(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s, err := badger.Open(badger.Options{Dir: dir, ReserveBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	payload := []byte(strings.Repeat("x", 1000))
	ticket := s.Update(record.Key{Sink: "web", Name: "a"}, func(outbox.Record) (outbox.Change, error) {
		return outbox.Change{Desired: &record.Desired{Payload: payload, Hash: record.HashOf(payload)}, NewGeneration: true}, nil
	})
	if err := ticket.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestStoreCheck(t *testing.T) {
	dir := newStore(t)
	stdout, stderr, code := run(t, "", "", "store", "check", dir)
	if code != ExitDone || !strings.Contains(stdout, "1 resource") || !strings.Contains(stdout, "nothing is wrong") {
		t.Errorf("a sound store: exit code %d\n%s%s", code, stdout, stderr)
	}
	if stdout, _, code = run(t, "", "", "store", "check", dir, "-o", "json"); code != ExitDone || !strings.Contains(stdout, `"problems": []`) {
		t.Errorf("a sound store as JSON: exit code %d\n%s", code, stdout)
	}

	if n := damage(t, dir); n == 0 {
		t.Fatal("nothing was damaged")
	}
	stdout, stderr, code = run(t, "", "", "store", "check", dir)
	if code != ExitError || !strings.Contains(stdout+stderr, "!") && stderr == "" {
		t.Errorf("a damaged store: exit code %d\n%s%s", code, stdout, stderr)
	}
}

// damage flips a bit of the payload wherever the store keeps it.
func damage(t *testing.T, dir string) (hits int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		at := strings.Index(string(content), strings.Repeat("x", 500))
		if at < 0 {
			return nil
		}
		hits++
		content[at] ^= 1
		return os.WriteFile(path, content, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return hits
}

func TestStoreCheckOfAStoreInUse(t *testing.T) {
	dir := newStore(t)
	s, err := badger.Open(badger.Options{Dir: dir, ReserveBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, stderr, code := run(t, "", "", "store", "check", dir); code != ExitError || !strings.Contains(stderr, "stop the daemon") {
		t.Errorf("exit code %d, %s; want %d and a word on stopping the daemon", code, stderr, ExitError)
	}
}

func TestConfigCommands(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	for name, text := range map[string]string{
		good: "upstreams: {u: {base_url: \"http://127.0.0.1:1\"}}\nsinks: {web: {plugin: http, upstreams: [u]}}\n",
		bad:  "sinks:\n  web:\n    plugin: htpp\n    timout: 3s\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		code int
		want []string // in either stream
	}{
		{[]string{"config", "check", good}, ExitDone, []string{good, "1 sink, 1 upstream"}},
		{[]string{"config", "check", "--config", bad}, ExitError, []string{bad + ":3", "http", bad + ":4", "timeout"}},
		{[]string{"config", "check", filepath.Join(dir, "none.yaml")}, ExitNotFound, []string{"none.yaml"}},
		{[]string{"config", "show", "-c", good}, ExitDone, []string{"listen: 127.0.0.1:7295", "base_url: http://127.0.0.1:1"}},
		{[]string{"config", "reference"}, ExitDone, []string{"server.listen", "127.0.0.1:7295"}},
		{[]string{"config", "reference", "-o", "json"}, ExitDone, []string{`"key": "server.listen"`}},
		{[]string{"config", "example"}, ExitDone, []string{"upstreams:", "sinks:"}},
		{[]string{"run", "--config", bad}, ExitError, []string{bad + ":3", bad + ":4"}},
		{[]string{"run", "--config", good, "--log-level", "loud"}, ExitError, []string{"--log-level", "debug"}},
		{[]string{"plugin", "list"}, ExitDone, []string{"http"}},
		{[]string{"completion", "bash"}, ExitDone, []string{"__start_pawl"}},
		{[]string{"completion", "zsh"}, ExitDone, []string{"#compdef pawl"}},
		{[]string{"completion", "fish"}, ExitDone, []string{"complete -c pawl"}},
	} {
		stdout, stderr, code := run(t, "", "", c.args...)
		if code != c.code {
			t.Errorf("%v: exit code %d, want %d\n%s", c.args, code, c.code, stderr)
		}
		for _, part := range c.want {
			if !strings.Contains(stdout+stderr, part) {
				t.Errorf("%v: no %q in\n%s%s", c.args, part, stdout, stderr)
			}
		}
	}
}
