package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var digest0 = strings.Repeat("0", 64)

func writeAt(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDifferencesNameWhatIsOtherwise(t *testing.T) {
	base := `
log: {level: info}
plugins: {own: {path: own.wasm, sha256: "` + digest0 + `"}}
upstreams:
  a: {base_url: "https://a.example", credentials: {bearer: {value: one}}}
sinks:
  web: {plugin: own, upstreams: [a], config: {x: 1}, retry: {base: 3s}}
`
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"the same in other words", `
upstreams: {a: {credentials: {bearer: {value: one}}, base_url: "https://a.example"}}
# a comment
plugins: {own: {path: ./own.wasm, sha256: "` + digest0 + `"}}
sinks: {web: {upstreams: [a], plugin: own, retry: {base: 3000ms}, config: {"x": 1}, timeout: 30s}}
`, nil},
		{"a plugin's file", `
log: {level: info}
plugins: {own: {path: other.wasm, sha256: "` + digest0 + `"}}
upstreams:
  a: {base_url: "https://a.example", credentials: {bearer: {value: one}}}
sinks:
  web: {plugin: own, upstreams: [a], config: {x: 1}, retry: {base: 3s}}
`, []string{"plugins.own.path"}},
		{"much", `
log: {level: debug}
plugins: {own: {path: own.wasm, sha256: "` + digest0 + `"}}
upstreams:
  a: {base_url: "https://a.example", credentials: {bearer: {value: two}}}
  b: {base_url: "https://b.example"}
sinks:
  web: {plugin: own, upstreams: [a, b], config: {x: 2}, retry: {base: 4s}}
`, []string{"log.level", "sinks.web.config", "sinks.web.retry.base", "sinks.web.upstreams", "upstreams.a.credentials.bearer.value", "upstreams.b"}},
		{"a sink that is gone", `
plugins: {own: {path: own.wasm, sha256: "` + digest0 + `"}}
upstreams:
  a: {base_url: "https://a.example"}
`, []string{"sinks.web", "upstreams.a.credentials"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			a, b := mustLoad(t, Options{File: writeAt(t, dir, "a.yaml", base)}), mustLoad(t, Options{File: writeAt(t, dir, "b.yaml", c.text)})
			got := Differences(a, b)
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if back := Differences(b, a); len(back) < len(c.want) {
				t.Errorf("the other way round: %q", back)
			}
		})
	}
}
