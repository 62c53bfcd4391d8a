package wasmhost

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/wasmhost/abi"
)

// The reference of the ABI, docs/plugins/abi.md, is written by hand where it
// tells of the host; these tests hold it to what the host does. Its source is
// sdk/abi/gen/reference.md.tmpl.

// rows are the rows of the table below a heading: the cells of each.
func rows(t *testing.T, heading string) (out [][]string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/plugins/abi.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n"+heading+"\n")
	if !found {
		t.Fatalf("docs/plugins/abi.md has no %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n#")
	for line := range strings.Lines(section) {
		if cells := strings.Split(strings.TrimSpace(line), " | "); strings.HasPrefix(line, "| ") && len(cells) > 1 {
			cells[0] = strings.TrimPrefix(cells[0], "| ")
			out = append(out, cells)
		}
	}
	return out
}

var code = regexp.MustCompile("`([^`]+)`")

// names are the words in code style of a cell.
func names(cell string) (out []string) {
	for _, m := range code.FindAllStringSubmatch(cell, -1) {
		out = append(out, m[1])
	}
	return out
}

// typed are the rows whose first two cells are a name and a type.
func typed(t *testing.T, heading string) (out []string) {
	for _, r := range rows(t, heading) {
		if name := names(r[0]); len(name) == 1 && strings.Contains(r[1], "->") {
			out = append(out, name[0]+" "+names(r[1])[0])
		}
	}
	return out
}

func same(t *testing.T, what string, documented, have []string) {
	t.Helper()
	slices.Sort(documented)
	slices.Sort(have)
	if !slices.Equal(documented, have) {
		t.Errorf("docs/plugins/abi.md has other %s than the host; correct sdk/abi/gen/reference.md.tmpl and run: make generate\n%q, the host has\n%q",
			what, documented, have)
	}
}

func TestTheReferenceHasTheExportsOfTheHost(t *testing.T) {
	var have []string
	for _, e := range exports {
		have = append(have, e.name+" "+signature(e.params, e.results))
	}
	same(t, "exports", typed(t, "## Exports"), have)
	want := map[string]int{"0": wantNothing, "1": wantIO, "2": wantPoll}
	for _, r := range rows(t, "## Exports") {
		delete(want, r[0])
	}
	if len(want) > 0 || wantPoll != 2 {
		t.Errorf("not all that an entry returns is told: %v", want)
	}
}

func TestTheReferenceHasTheImportsOfTheHost(t *testing.T) {
	have := func(fs []hostFunc, text func(f hostFunc) string) (out []string) {
		for _, f := range fs {
			out = append(out, text(f))
		}
		return out
	}
	same(t, "imports", typed(t, "## Imports"),
		have(pawlFuncs, func(f hostFunc) string { return f.name + " " + signature(f.params, f.results) }))
	var wasi []string
	for _, r := range rows(t, "### WASI") {
		wasi = append(wasi, names(r[0])...)
	}
	same(t, "functions of WASI", wasi, have(wasiFuncs, func(f hostFunc) string { return f.name }))
}

func TestTheReferenceHasTheCodesOfTheHost(t *testing.T) {
	var codes, kinds []string
	for _, r := range rows(t, "## Imports") {
		switch n, err := strconv.Atoi(r[0]); {
		case err != nil:
		case n < 0:
			codes = append(codes, r[0])
		default:
			kinds = append(kinds, r[0])
		}
	}
	same(t, "codes", codes, []string{strconv.Itoa(codeEnded), strconv.Itoa(codeTooMany), strconv.Itoa(codeTooLarge), strconv.Itoa(codeDenied)})
	same(t, "kinds of I/O", kinds, []string{fmt.Sprint(abi.IOHTTP), fmt.Sprint(abi.IOSleep)})
}

func TestTheReferenceHasTheFaultsOfTheHost(t *testing.T) {
	var documented, have []string
	for _, r := range rows(t, "## Faults") {
		documented = append(documented, names(r[0])...)
	}
	for _, k := range faultKinds {
		have = append(have, string(k))
	}
	same(t, "faults", documented, have)
}

func TestTheReferenceHasTheLimitsOfTheHost(t *testing.T) {
	l := Limits{}.withDefaults(hostMemory(t))
	seconds := func(d time.Duration) string { return fmt.Sprintf("%v s", d.Seconds()) }
	want := map[string]string{
		"timeout": seconds(l.CallTimeout), "start_timeout": seconds(l.StartTimeout), "entry_cpu": seconds(l.EntryCPU),
		"memory_max_bytes": size(l.MemoryBytes), "message_max_bytes": size(l.MessageBytes),
		"in_flight_max_bytes": size(l.InFlightBytes), "call_ios_max": number(l.CallIOs), "ios_max": number(l.SinkIOs), "max_in_flight": number(l.MaxCalls),
		"instances_max": number(l.MaxInstances), "idle_timeout": seconds(l.IdleTimeout),
		"log_lines": number(l.LogLines), "log_bytes": size(l.LogBytes),
	}
	for _, r := range rows(t, "## Limits") {
		for _, name := range names(r[0]) {
			if !strings.HasPrefix(r[1]+" ", want[name]+" ") || want[name] == "" {
				t.Errorf("docs/plugins/abi.md: the limit %s is %q, the host's %q", name, r[1], want[name])
			}
			delete(want, name)
		}
	}
	if len(want) > 0 {
		t.Errorf("docs/plugins/abi.md leaves out %v", want)
	}
}

// hostMemory is the host's default.
func hostMemory(t *testing.T) int64 {
	t.Helper()
	h, err := New(t.Context(), Options{CacheDir: t.TempDir() + "/cache"})
	if err != nil {
		t.Fatal(err)
	}
	return h.memory
}

func size(n int64) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

// number writes n with a comma for the thousands.
func number(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}
