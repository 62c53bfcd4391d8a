package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestComparedValuesAreShownAsTheyAreWrittenAndSecretsAreNot(t *testing.T) {
	dir := t.TempDir()
	load := func(name, text string) *Config { return mustLoad(t, Options{File: writeAt(t, dir, name, text)}) }
	a := load("a.yaml", `
upstreams: {a: {base_url: "https://a.example", credentials: {bearer: {value: old-secret}}}}
sinks: {web: {plugin: http, upstreams: [a], timeout: 30s, config: {x: 1}}, gone: {plugin: http}}
`)
	b := load("b.yaml", `
upstreams: {a: {base_url: "https://b.example", credentials: {bearer: {value: new-secret}}, tls: {ca_file: ca.pem}}}
sinks: {web: {plugin: http, upstreams: [a], timeout: 90s, config: {x: 2}, sensitive: [/a, /b]}, new: {plugin: http}}
`)
	var got []string
	for _, d := range Compare(a, b) {
		got = append(got, fmt.Sprintf("%s: %q -> %q %v %v", d.Key, d.From, d.To, d.Added, d.Removed))
	}
	want := []string{
		`sinks.gone: "" -> "" false true`,
		`sinks.new: "" -> "" true false`,
		`sinks.web.config: "{\"x\":1}" -> "{\"x\":2}" false false`,
		`sinks.web.sensitive: "" -> "[/a, /b]" false false`,
		`sinks.web.timeout: "30s" -> "1m30s" false false`,
		`upstreams.a.base_url: "https://a.example" -> "https://b.example" false false`,
		`upstreams.a.credentials.bearer.value: "[redacted]" -> "[redacted]" false false`,
		`upstreams.a.tls: "" -> "" true false`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestWhatNeedsARestartStaysAsItIs(t *testing.T) {
	dir := t.TempDir()
	load := func(name, text string) *Config { return mustLoad(t, Options{File: writeAt(t, dir, name, text)}) }
	running := load("a.yaml", "store: {path: one}\nsinks: {web: {plugin: http}}\n")
	next := load("b.yaml", "store: {path: two}\nserver: {listen: \"127.0.0.1:1\", limits: {watches: 9}}\nlog: {level: debug, format: json}\n"+
		"limits: {max_in_flight: 7, batch_max: 8}\ndefaults: {timeout: 5s}\nsinks: {web: {plugin: http}, more: {plugin: http}}\nsources: {edges: {pawl: {senders: [a]}}}\n")
	merged := running.Over(next)
	if left, want := Differences(merged, next), []string{"limits.batch_max", "log.format", "server.listen", "store.path"}; !slices.Equal(left, want) {
		t.Errorf("left for a restart: %q, want %q", left, want)
	}
	if taken, want := Differences(running, merged), []string{"defaults.timeout", "limits.max_in_flight", "log.level", "server.limits.watches", "sinks.more", "sinks.web.timeout", "sources.edges"}; !slices.Equal(taken, want) {
		t.Errorf("taken over: %q, want %q", taken, want)
	}
	if e := merged.Wrong("sinks.more", "x", ""); !strings.HasSuffix(e.File, "b.yaml") || e.Line == 0 {
		t.Errorf("an error points at %s:%d", e.File, e.Line)
	}
}
