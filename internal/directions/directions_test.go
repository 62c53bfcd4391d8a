// Package directions holds the test of which package may import which. It has
// no code of its own.
package directions

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/pawlsync/pawl/"

// forbidden are the edges that must not exist. from and to are prefixes of
// import paths; a from that starts with "!" means every package but those, which
// spaces part.
var forbidden = []struct{ from, to, why string }{
	{module + "engine", module + "cmd", "the engine is a library; programs are built on it"},
	{module + "engine", module + "config", "the engine is configured by values, not by files"},
	{module + "engine", module + "internal/", "what embeds the engine must not drag the daemon in"},
	{module + "engine", "github.com/spf13/", "viper and cobra belong to the daemon"},
	{module + "engine", "k8s.io/", "Kubernetes is a plugin's business"},
	{module + "engine", "github.com/prometheus/", "the engine reports through its Observer; metrics are an adapter outside"},
	{"!" + module + "internal/oci", "oras.land/", "one package speaks to registries"},
	{"!" + module + "internal/oci", "github.com/opencontainers/", "one package speaks to registries"},
	{"!" + module + "engine/wasmhost", "github.com/tetratelabs/wazero", "one package hosts plugins"},
	{"!" + module + "engine/outbox/badger", "github.com/dgraph-io/badger", "one package knows how resources are stored"},
	{"!" + module + "internal/kube " + module + "internal/source/kube " + module + "internal/source/statesync " + module + "kube/v1alpha1", "k8s.io/",
		"Kubernetes is known to what opens clusters, to the sources that read there, and to StateSync's types"},
	{"!" + module + "config", "github.com/spf13/viper", "one package reads the configuration"},
	{"", module + "plugins", "plugins are embedded as built files"},
	{"", module + "sdk/go", "the host has its own codec, so that the two check each other"},
	{"!" + module + "internal/trace", "go.opentelemetry.io/", "one package makes traces; the engine tells of changes through its Tracer"},
	{"!" + module + "internal/trace", "google.golang.org/grpc", "spans alone go over gRPC"},
	{"!" + module + "internal/source/dir", "github.com/fsnotify/", "one package has the system tell of files"},
	{"!" + module + "internal/manifest", "github.com/go-json-experiment/", "one package reads what people write; all else reads JSON with the standard library"},
	{module + "internal/source", module + "config", "sources are made of values; the daemon reads the configuration"},
	{module + "internal/source", module + "internal/server", "sources know nothing of who asks about them"},
	{module + "engine", module + "engine/saga", "sagas are built on the engine, which holds and calls for them"},
	{module + "engine/record", module, "record is a leaf"},
	{module + "engine/schedule", "os", "schedule is pure"},
	{module + "engine/schedule", "net", "schedule is pure"},
	{module + "engine/schedule", "sync", "schedule is pure"},
	{module + "engine/schedule", "context", "schedule is pure"},
	{module + "engine/schedule", "math/rand", "schedule is pure: randomness comes in as an argument"},
	{module + "engine/reconcile", "os", "reconcile is pure"},
	{module + "engine/reconcile", "net", "reconcile is pure"},
	{module + "engine/reconcile", "sync", "reconcile is pure"},
	{module + "engine/reconcile", "context", "reconcile is pure"},
	{module + "engine/reconcile", "math/rand", "reconcile is pure: randomness comes in as an argument"},
}

// clocks are calls that pure packages must not make.
var clocks = []string{"time.Now", "time.Since", "time.Until", "time.After", "time.NewTimer", "time.Sleep", "time.Tick"}

func TestImportDirections(t *testing.T) {
	for _, line := range goList(t, `{{.ImportPath}} {{join .Imports " "}}`) {
		fields := strings.Fields(line)
		for _, to := range fields[1:] {
			for _, f := range forbidden {
				if matches(f.from, fields[0]) && within(to, f.to) {
					t.Errorf("%s imports %s: %s", fields[0], to, f.why)
				}
			}
		}
	}
}

func TestBubblesAreBegunInOnePlace(t *testing.T) {
	root := goList(t, `{{.Module.Dir}}`, "./engine")[0]
	out, err := exec.Command("grep", "-rnF", "--include=*.go", "--exclude-dir=bubble", "--exclude-dir=directions", "synctest.Test"+"(", root).Output()
	if err == nil {
		t.Errorf("synctest.Test is called outside internal/bubble, whose doc says why it should not:\n%s", out)
	}
}

func TestImportDirectionsPureCoreReadsNoClock(t *testing.T) {
	dirs := goList(t, `{{.Dir}}`, "./engine/schedule", "./engine/reconcile")
	for _, dir := range dirs {
		for _, clock := range clocks {
			cmd := exec.Command("grep", "-nF", "--include=*.go", "--exclude=*_test.go", "-r", clock+"(", dir)
			if out, err := cmd.Output(); err == nil {
				t.Errorf("a pure package reads the clock:\n%s", out)
			}
		}
	}
}

func matches(from, pkg string) bool {
	if except, ok := strings.CutPrefix(from, "!"); ok {
		return !slices.ContainsFunc(strings.Fields(except), func(e string) bool { return within(pkg, e) })
	}
	return within(pkg, from)
}

// within reports whether path is prefix or below it.
func within(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(prefix, "/"))
	return ok && (prefix == "" || rest == "" || rest[0] == '/')
}

func goList(t *testing.T, format string, pkgs ...string) []string {
	t.Helper()
	if len(pkgs) == 0 {
		pkgs = []string{"./..."}
	}
	cmd := exec.Command("go", append([]string{"list", "-f", format}, pkgs...)...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}
