package config

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite golden files and docs/config.md")

// write puts a configuration into a file of its own and returns its name.
func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "pawl.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func mustLoad(t *testing.T, o Options) *Config {
	t.Helper()
	c, err := Load(o)
	if err != nil {
		t.Fatalf("Load:\n%v", err)
	}
	return c
}

// golden compares got with the file, or rewrites that.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; if that is meant, run: go test ./config -update\ngot:\n%s\nwant:\n%s", name, got, want)
	}
}

func TestGoldenWrongFilesAreReportedInFullWithPlaceAndHint(t *testing.T) {
	files, err := filepath.Glob("testdata/wrong/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".yaml"), func(t *testing.T) {
			c, err := Load(Options{File: name})
			if err == nil || c != nil {
				t.Fatalf("Load = %v, %v; want an error and no Config", c, err)
			}
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%v is not ErrInvalid", err)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error shows a secret:\n%v", err)
			}
			var all Errors
			if !errors.As(err, &all) || !slices.IsSortedFunc(all, func(a, b *Error) int { return a.Line - b.Line }) {
				t.Errorf("%T is no Errors, or not sorted by line", err)
			}
			golden(t, strings.TrimSuffix(name, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

func TestWithoutFileAllIsDefault(t *testing.T) {
	t.Chdir(t.TempDir())
	c := mustLoad(t, Options{Env: []string{"HOME=/home/u"}})
	if c.File != "" {
		t.Errorf("File = %q, want none", c.File)
	}
	d := c.Defaults
	for _, row := range []struct {
		what      string
		got, want any
	}{
		{"listen", c.Server.Listen, "127.0.0.1:7295"},
		{"payload", c.Limits.PayloadMaxBytes, Bytes(512 << 10)},
		{"batch", c.Limits.BatchMax, 10_000},
		{"store", c.Store.Path, "/home/u/.local/state/pawl"},
		{"cache", c.Wasm.CacheDir, "/home/u/.cache/pawl/wasm"},
		{"timeout", d.Timeout, 30 * time.Second},
		{"drift", d.DriftInterval, 10 * time.Minute},
		{"retry", d.Retry, Retry{Base: 2 * time.Second, Max: 5 * time.Minute, MaxAttempts: 5, Stall: 5 * time.Minute}},
		{"breaker", d.Breaker, Breaker{After: 5, ProbeBase: 2 * time.Second, ProbeMax: time.Minute}},
		{"plugins", c.Plugins, map[string]Plugin{"http": {Bundled: "http", Limits: d.Limits}}},
		{"limits", d.Limits, SinkLimits{
			EntryCPU: 2 * time.Second, CPUShare: 0.25, MemoryMaxBytes: 256 << 20, InstancesMax: 16, IdleTimeout: time.Minute,
			StartTimeout: 30 * time.Second, InFlightMaxBytes: 64 << 20, CallIOsMax: 16, IOsMax: 10000, LogLines: 50, LogBytes: 64 << 10}},
	} {
		if !reflect.DeepEqual(row.got, row.want) {
			t.Errorf("%s = %v, want %v", row.what, row.got, row.want)
		}
	}
}

func TestALimitIsTheSinksElseThePluginsElseTheDefaults(t *testing.T) {
	c := mustLoad(t, Options{File: write(t, `
defaults: {limits: {log_lines: 1, ios_max: 1, call_ios_max: 1}, timeout: 1s}
plugins:
  own: {path: a.wasm, limits: {log_lines: 2, ios_max: 2}}
sinks:
  a: {plugin: own, limits: {log_lines: 3}}
  b: {plugin: http}
`)})
	for _, row := range []struct {
		what            string
		got             SinkLimits
		lines, ios, one int
	}{
		{"plugin own", c.Plugins["own"].Limits, 2, 2, 1},
		{"sink a", c.Sinks["a"].Limits, 3, 2, 1},
		{"sink b", c.Sinks["b"].Limits, 1, 1, 1},
	} {
		if g := row.got; g.LogLines != row.lines || g.IOsMax != row.ios || g.CallIOsMax != row.one || g.EntryCPU != 2*time.Second {
			t.Errorf("%s: %+v", row.what, g)
		}
	}
	shown, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	_, sinks, _ := strings.Cut(string(shown), "\nsinks:\n")
	for _, want := range []string{"log_lines: 3 # line 6\n", "ios_max: 2 # plugins, line 4\n", "call_ios_max: 1 # defaults, line 2\n"} {
		if !strings.Contains(sinks, want) {
			t.Errorf("no %q in\n%s", want, sinks)
		}
	}
}

func TestAnInstanceHasRoomInTheMemoryOfAll(t *testing.T) {
	_, err := Load(Options{File: write(t, "defaults:\n  limits: {memory_max_bytes: 2MiB, memory_total_max_bytes: 1MiB}\n")})
	if err == nil || !strings.Contains(err.Error(), "defaults.limits.memory_max_bytes") {
		t.Error(err)
	}
	mustLoad(t, Options{File: write(t, "defaults:\n  limits: {memory_max_bytes: 4GiB}\n")})
}

func TestFileIsFoundInTheUsualPlaces(t *testing.T) {
	work, xdg := t.TempDir(), t.TempDir()
	t.Chdir(work)
	put := func(name, level string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("log: {level: "+level+"}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"XDG_CONFIG_HOME=" + xdg}
	put(filepath.Join(xdg, "pawl", "pawl.yaml"), "warn")
	if c := mustLoad(t, Options{Env: env}); c.Log.Level != "warn" {
		t.Errorf("with one in XDG_CONFIG_HOME: read %q", c.File)
	}
	put("pawl.yaml", "debug")
	if c := mustLoad(t, Options{Env: env}); c.Log.Level != "debug" || c.File != "pawl.yaml" {
		t.Errorf("with one in the working directory too: read %q", c.File)
	}
	put("named.yaml", "error")
	if c := mustLoad(t, Options{Env: append(env, "PAWL_CONFIG=named.yaml")}); c.Log.Level != "error" {
		t.Errorf("with PAWL_CONFIG: read %q", c.File)
	}
	if c := mustLoad(t, Options{Env: append(env, "PAWL_CONFIG=missing.yaml"), File: "pawl.yaml"}); c.Log.Level != "debug" {
		t.Errorf("with Options.File: read %q", c.File)
	}
	if _, err := Load(Options{Env: append(env, "PAWL_CONFIG=missing.yaml")}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "missing.yaml") {
		t.Errorf("a named file that is missing: %v", err)
	}
}

const layered = `
log: {level: warn}
defaults: {timeout: 10s, retry: {max_attempts: 8}}
upstreams:
  up: {base_url: "http://localhost:1", allowed_methods: [GET]}
sinks:
  user-db: {plugin: http, upstreams: [up], retry: {base: 3s}}
  other: {plugin: http, timeout: 1m, config: {CamelCase: {Inner: 1.50}, list: [a, null, true, "<&>"]}}
`

func TestFlagsOverVariablesOverFileOverDefaults(t *testing.T) {
	file := write(t, layered)
	load := func(flags map[string]string, env ...string) *Config {
		t.Helper()
		return mustLoad(t, Options{File: file, Env: env, Flags: flags})
	}
	if got := load(nil).Log.Level; got != "warn" {
		t.Errorf("file: %s", got)
	}
	if got := load(nil, "PAWL_LOG_LEVEL=error").Log.Level; got != "error" {
		t.Errorf("variable: %s", got)
	}
	if got := load(map[string]string{"log.level": "debug"}, "PAWL_LOG_LEVEL=error").Log.Level; got != "debug" {
		t.Errorf("flag: %s", got)
	}
	if got := load(nil, "PAWL_LOG_LEVEL=").Log.Level; got != "warn" {
		t.Errorf("an empty variable: %s", got)
	}
	c := load(nil, "PAWL_SINKS_USER_DB_TIMEOUT=7s", "PAWL_DEFAULTS_RETRY_MAX_ATTEMPTS=9",
		"PAWL_UPSTREAMS_UP_ALLOWED_METHODS=GET, PUT", "PAWL_UPSTREAMS_UP_CREDENTIALS_BEARER_FILE=token")
	if s := c.Sinks["user-db"]; s.Timeout != 7*time.Second || s.Retry.Base != 3*time.Second || s.Retry.MaxAttempts != 9 {
		t.Errorf("user-db = %+v", s)
	}
	if s := c.Sinks["other"]; s.Timeout != time.Minute || s.Retry.Base != 2*time.Second || s.Retry.MaxAttempts != 9 {
		t.Errorf("other = %+v", s)
	}
	up := c.Upstreams["up"]
	if !slices.Equal(up.AllowedMethods, []string{"GET", "PUT"}) || up.Credentials == nil || up.Credentials.Bearer.File != "token" {
		t.Errorf("up = %+v", up)
	}
}

func TestSinksInheritDefaults(t *testing.T) {
	c := mustLoad(t, Options{File: write(t, layered)})
	if got := c.Sinks["user-db"].Timeout; got != 10*time.Second {
		t.Errorf("timeout of a sink that does not set it = %v, want that of defaults", got)
	}
	if got := c.Sinks["other"].Timeout; got != time.Minute {
		t.Errorf("timeout of a sink that sets it = %v", got)
	}
	want := `{"CamelCase":{"Inner":1.50},"list":["a",null,true,"<&>"]}`
	if got := string(c.Sinks["other"].Config); got != want {
		t.Errorf("config = %s, want %s", got, want)
	}
}

func TestAnInheritedBurstIsMootWithoutRate(t *testing.T) {
	c := mustLoad(t, Options{File: write(t, "defaults: {rate: 5, burst: 10}\nsinks: {a: {plugin: http, rate: 0}}")})
	if s := c.Sinks["a"]; s.Rate != 0 || s.Burst != 10 {
		t.Errorf("rate = %v, burst = %v", s.Rate, s.Burst)
	}
}

func TestPathsInTheFileStartAtItsFolder(t *testing.T) {
	file := write(t, "store: {path: data}\nserver: {token_file: /abs/token}\n")
	c := mustLoad(t, Options{File: file, Env: []string{"PAWL_WASM_CACHE_DIR=cache"}})
	if want := filepath.Join(filepath.Dir(file), "data"); c.Store.Path != want {
		t.Errorf("store.path = %s, want %s", c.Store.Path, want)
	}
	if c.Server.TokenFile != "/abs/token" || c.Wasm.CacheDir != "cache" {
		t.Errorf("token_file = %s, cache_dir = %s", c.Server.TokenFile, c.Wasm.CacheDir)
	}
}

func TestDefaultFolders(t *testing.T) {
	for _, row := range []struct{ env, state, cache string }{
		{"", "/var/lib/pawl", "/var/cache/pawl/wasm"},
		{"HOME=/h", "/h/.local/state/pawl", "/h/.cache/pawl/wasm"},
		{"XDG_STATE_HOME=/s XDG_CACHE_HOME=relative HOME=/h", "/s/pawl", "/h/.cache/pawl/wasm"},
		{"STATE_DIRECTORY=/run/a:/run/b CACHE_DIRECTORY=/run/c HOME=/h", "/run/a", "/run/c/wasm"},
	} {
		c := mustLoad(t, Options{File: write(t, ""), Env: strings.Fields(row.env)})
		if c.Store.Path != row.state || c.Wasm.CacheDir != row.cache {
			t.Errorf("%q: %s and %s, want %s and %s", row.env, c.Store.Path, c.Wasm.CacheDir, row.state, row.cache)
		}
	}
}

func TestVariablesAndFlagsAreChecked(t *testing.T) {
	const named = "upstreams:\n  a-b: {base_url: 'http://localhost', credentials: {bearer: {env: PAWL_MY_SECRET}}}\n" +
		"  a: {base_url: 'http://localhost'}\nsinks: {web: {plugin: http, upstreams: [a, a-b]}}\n"
	for _, row := range []struct {
		name, env, flag, want string
	}{
		{"reserved", "PAWL_TOKEN=x PAWL_ADDRESS=y", "", ""},
		{"named by a secret", "PAWL_MY_SECRET=x", "", ""},
		{"of a Kubernetes service", "PAWL_SERVICE_HOST=10.0.0.1 PAWL_SERVICE_PORT=80 PAWL_SERVICE_PORT_API=80 PAWL_PORT=tcp://10.0.0.1:80 " +
			"PAWL_PORT_80_TCP=tcp://10.0.0.1:80 PAWL_PORT_80_TCP_PROTO=tcp PAWL_UI_PORT_80_TCP_ADDR=10.0.0.1 PAWL_UI_SERVICE_HOST=10.0.0.1", "", ""},
		{"others'", "HOME=/h PAWLS=1", "", ""},
		{"misspelt", "PAWL_SERVER_LISTN=x", "", "PAWL_SERVER_LISTN: this variable sets no key; did you mean PAWL_SERVER_LISTEN?"},
		{"misspelt name", "PAWL_SINKS_WEEB_TIMEOUT=3s", "", "PAWL_SINKS_WEEB_TIMEOUT: this variable sets no key; did you mean PAWL_SINKS_WEB_TIMEOUT?"},
		{"far from all", "PAWL_X=1", "", "PAWL_X: this variable sets no key; variables set keys of sinks, plugins and upstreams only if the file names them"},
		{"a port that is no service's", "PAWL_SERVER_PORT=80", "", "PAWL_SERVER_PORT: this variable sets no key; did you mean PAWL_SERVER_SOCKET?"},
		{"bad value", "PAWL_SINKS_WEB_TIMEOUT=3", "", `PAWL_SINKS_WEB_TIMEOUT: sinks.web.timeout: "3" is no duration; it has no unit: did you mean 3s?`},
		{"bad combination", "PAWL_SERVER_LISTEN=:80", "", "PAWL_SERVER_LISTEN: server.listen: :80 can be reached from other machines, and nothing says who may call; set server.token_file or server.tls.client_ca_file, or listen on 127.0.0.1"},
		{"bad item", "PAWL_SINKS_WEB_UPSTREAMS=a,ab", "", `PAWL_SINKS_WEB_UPSTREAMS: sinks.web.upstreams: no upstream is called "ab"; did you mean a-b?`},
		{"bad flag value", "", "log.level=loud", `--log-level: log.level: unknown value "loud"; there are debug, info, warn, error`},
		{"unknown flag", "", "log.levle=info", "flag log.levle: there is no such key; did you mean log.level?"},
	} {
		t.Run(row.name, func(t *testing.T) {
			o := Options{File: write(t, named), Env: strings.Fields(row.env), Flags: map[string]string{}}
			if path, value, ok := strings.Cut(row.flag, "="); ok {
				o.Flags[path] = value
			}
			got := ""
			if _, err := Load(o); err != nil {
				got = err.Error()
			}
			if got != row.want {
				t.Errorf("got:  %s\nwant: %s", got, row.want)
			}
		})
	}
}

func TestAVariableThatStandsForTwoKeysIsRefused(t *testing.T) {
	file := write(t, "sinks:\n  a: {plugin: http}\n  a-startup: {plugin: http}\n")
	_, err := Load(Options{File: file, Env: []string{"PAWL_SINKS_A_STARTUP_RATE=3"}})
	want := "PAWL_SINKS_A_STARTUP_RATE: stands for both sinks.a.startup_rate and sinks.a-startup.rate; set them in the file, or rename one"
	if err == nil || err.Error() != want {
		t.Errorf("got:  %v\nwant: %s", err, want)
	}
}

func TestAnObjectNestedTooDeepIsRefused(t *testing.T) {
	nested := func(depth int) string {
		return "sinks: {a: {plugin: http, config: {x: " + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "}}}"
	}
	mustLoad(t, Options{File: write(t, nested(objectMaxDepth))})
	if _, err := Load(Options{File: write(t, nested(objectMaxDepth+1))}); !errors.Is(err, ErrInvalid) {
		t.Errorf("err = %v", err)
	}
}

func TestAFileTooLargeIsRefused(t *testing.T) {
	_, err := Load(Options{File: write(t, "#"+strings.Repeat("x", fileMaxBytes))})
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "the file has more than 4MiB") {
		t.Errorf("err = %v", err)
	}
}

func TestEmptyFilesAreFine(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n", "sinks:\nserver:\n", "{}"} {
		mustLoad(t, Options{File: write(t, text)})
	}
}
