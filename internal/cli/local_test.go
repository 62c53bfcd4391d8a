package cli

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/badger"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/bundled"
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

func TestStoreCheckNamesTheFolderThatItWasGiven(t *testing.T) {
	var out bytes.Buffer
	a := &app{Streams: Streams{Out: &out}, output: "table"}
	_ = a.printCheck(&badger.Report{Directory: "/store", Problems: []string{`opening table: "/tmp/pawl-check-123/000001.sst": checksum`}})
	if !strings.Contains(out.String(), `"/store/data/000001.sst"`) || strings.Contains(out.String(), "pawl-check") {
		t.Errorf("printed %s", out.String())
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
	if _, stderr, code := run(t, "", "", "store", "check", dir); code != ExitError || strings.Count(stderr, "stop ") != 1 {
		t.Errorf("exit code %d, %s; want %d and one word on stopping the daemon", code, stderr, ExitError)
	}
}

// TestConfigCheckAsksThePlugin covers what only shows beyond the file: an
// unset variable, and what a plugin says of its config.
func TestConfigCheckAsksThePlugin(t *testing.T) {
	if _, err := bundled.Plugin("http"); err != nil {
		t.Skip(err)
	}
	file := filepath.Join(t.TempDir(), "pawl.yaml")
	text := `upstreams:
  u: {base_url: "http://127.0.0.1:1", credentials: {bearer: {env: PAWL_TEST_UNSET}}}
sinks:
  web:
    plugin: http
    upstreams: [u]
    config: {paht: "/x/{key}"}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	env := []string{"HOME=" + os.Getenv("HOME"), "XDG_CACHE_HOME=" + os.Getenv("XDG_CACHE_HOME")}
	check := func(args ...string) int {
		out.Reset()
		errs.Reset()
		return Main(t.Context(), append([]string{"config", "check", file}, args...), Streams{Out: &out, Err: &errs, Env: env}, api.Version{})
	}
	code := check()
	for _, want := range []string{file + ":2:", "PAWL_TEST_UNSET is not set", file + ":7:", `did you mean "path"?`} {
		if code != ExitError || !strings.Contains(errs.String(), want) {
			t.Errorf("exit code %d, no %q in\n%s", code, want, errs.String())
		}
	}
	if code := check("--file-only"); code != ExitDone || !strings.Contains(out.String(), "is right") {
		t.Errorf("--file-only: exit code %d\n%s%s", code, out.String(), errs.String())
	}
}

func TestADaemonWithoutSinksSaysSo(t *testing.T) {
	for _, c := range []struct {
		name   string
		config config.Config
		want   []string // nothing: silence
	}{
		{"no file", config.Config{}, []string{"no configuration file was found", "there are no sinks", "/etc/pawl/pawl.yaml"}},
		{"a file without sinks", config.Config{File: "pawl.yaml"}, []string{"has no sinks", "pawl.yaml"}},
		{"a sink", config.Config{Sinks: map[string]config.Sink{"web": {}}}, nil},
	} {
		var log bytes.Buffer
		new(app).warnOfNoSinks(slog.New(slog.NewTextHandler(&log, nil)), &c.config)
		if (log.Len() > 0) != (c.want != nil) {
			t.Errorf("%s: logged %q", c.name, log.String())
		}
		for _, part := range c.want {
			if !strings.Contains(log.String(), part) {
				t.Errorf("%s: no %q in %s", c.name, part, log.String())
			}
		}
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
		{[]string{"config", "check", "--file-only", good}, ExitDone, []string{good, "1 sink, 1 upstream"}},
		{[]string{"config", "check", "--config", bad}, ExitError, []string{bad + ":3", "http", bad + ":4", "timeout"}},
		{[]string{"config", "check", filepath.Join(dir, "none.yaml")}, ExitNotFound, []string{"none.yaml"}},
		{[]string{"config", "show", "-c", good}, ExitDone, []string{"listen: 127.0.0.1:7295", "base_url: http://127.0.0.1:1"}},
		{[]string{"config", "reference"}, ExitDone, []string{"\n  server.listen (string; default 127.0.0.1:7295)\n      Address and port"}},
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
