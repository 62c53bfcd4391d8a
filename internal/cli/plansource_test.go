package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/server"
	"github.com/pawlsync/pawl/internal/source"
	"github.com/pawlsync/pawl/internal/source/dir"
)

// sourced starts an API over an engine and a source, files, that has a, b, c and d and
// may delete two in an hour; x is another source's.
func sourced(t *testing.T) (address, folder string) {
	t.Helper()
	folder = t.TempDir()
	for _, key := range []string{"a", "b", "c", "d"} {
		writeDocument(t, folder, key, "payload: 1")
	}
	_, e := shelfEngine(t, nil)
	if _, err := e.Put(t.Context(), engine.Put{Key: record.Key{Sink: "web", Name: "x"}, Payload: []byte(`1`), Owner: "others"}); err != nil {
		t.Fatal(err)
	}
	files, err := dir.New(dir.Options{Path: folder, Settle: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	m := source.New(source.Options{Engine: e, Sources: []source.Spec{{
		Name: "files", Kind: "dir", Source: files, Fuse: source.FuseOptions{Window: time.Hour, Share: 0.5, AtLeast: 1},
	}}})
	m.Start()
	t.Cleanup(m.Close)
	for key := range strings.SplitSeq("a b c d", " ") {
		for { // it is not stored yet, and then not acknowledged
			r, err := e.Wait(t.Context(), record.Key{Sink: "web", Name: key}, 0)
			if err == nil && r.Done {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	return serveShelves(t, server.Options{Engine: e, Sources: m}), folder
}

func writeDocument(t *testing.T, folder, key, rest string) {
	t.Helper()
	content := fmt.Sprintf("sink: web\nkey: %s\n%s\n", key, rest)
	if rest == "}" {
		content = rest
	}
	writeOld(t, folder, key+".yaml", content)
}

// writeOld writes a file that is old, so that nobody waits for the rest of it.
func writeOld(t *testing.T, folder, name, content string) {
	t.Helper()
	path, old := filepath.Join(folder, name), time.Now().Add(-time.Hour)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644), os.Chtimes(path, old, old)); err != nil {
		t.Fatal(err)
	}
}

func TestPlanOfASourceSaysWhatItWouldDeleteAndWhatTheFuseWouldHold(t *testing.T) {
	address, folder := sourced(t)
	for _, row := range []struct {
		name  string
		files map[string]string // what follows sink and key
		code  int
		says  []string
	}{
		{"all is there", map[string]string{"a": "payload: 1", "b": "payload: 1", "c": "payload: 1", "d": "payload: 1"}, ExitDone,
			[]string{"4 resources: 4 unchanged.\n"}},
		{"two are missing", map[string]string{"a": "payload: 1", "b": "payload: 2"}, ExitChanges,
			[]string{"- web/c: delete, since the source lacks it\n- web/d: delete", "1 to update, 2 to delete, 1 unchanged.\nThe fuse of files lets 2 deletions through.\n"}},
		{"three are missing", map[string]string{"a": "payload: 1"}, ExitChanges,
			[]string{"3 to delete", "The fuse of files would hold 3 deletions of what it lacks (3 are more than the 2 that it may delete now), until `pawl source confirm files`.\n"}},
		{"one is wrong, and stays", map[string]string{"a": "payload: 1", "b": "payload: 1", "c": "paylod: 1"}, ExitError,
			[]string{"1 to delete, 2 unchanged, 1 wrong.\n", "- web/d"}},
		{"of one not even the key can be read", map[string]string{"a": "payload: 1", "b": "}"}, ExitError,
			[]string{"Nothing that files lacks would be deleted: of something not even the key can be read. A source that read it before keeps what it had, and deletes the rest."}},
		{"a deletion in words", map[string]string{"a": "delete: true", "b": "payload: 1", "c": "payload: 1", "d": "payload: 1"}, ExitError,
			[]string{"delete: true means nothing in a source", "3 unchanged, 1 wrong"}},
		{"another's", map[string]string{"a": "payload: 1", "b": "payload: 1", "c": "payload: 1", "d": "payload: 1", "x": "payload: 2"}, ExitError,
			[]string{`x.yaml:1: web/x: `, `it belongs to source "others"`}},
	} {
		planned := t.TempDir()
		for key, rest := range row.files {
			writeDocument(t, planned, key, rest)
		}
		stdout, stderr, code := run(t, address, "", "plan", "--source", "files", "-f", planned)
		for _, says := range row.says {
			if !strings.Contains(stdout+stderr, says) {
				t.Errorf("%s: there is no %q in\n%s%s", row.name, says, stdout, stderr)
			}
		}
		if code != row.code {
			t.Errorf("%s: exit code %d, want %d\n%s%s", row.name, code, row.code, stdout, stderr)
		}
	}
	one := t.TempDir()
	writeDocument(t, one, "a", "payload: 1")
	stdout, _, _ := run(t, address, "", "plan", "--source", "files", "-f", one, "-o", "json")
	if !strings.Contains(stdout, `"held": true`) || !strings.Contains(stdout, `"deletes": 3`) {
		t.Errorf("as JSON: %s", stdout)
	}
	empty := t.TempDir()
	stdout, stderr, code := run(t, address, "", "plan", "--source", "files", "-f", empty)
	if says := "would hold 4 deletions of what it lacks (the set is empty; is " + empty + " the right folder?)"; code != ExitChanges || !strings.Contains(stdout, says) ||
		!strings.Contains(stdout, "4 resources: 4 to delete.") || stderr != "" {
		t.Errorf("an empty folder: exit code %d\n%s%s", code, stdout, stderr)
	}
	if _, stderr, code := run(t, address, "", "plan", "--source", "flies", "-f", folder); code != ExitError || !strings.Contains(stderr, "flies") {
		t.Errorf("a source that is not there: exit code %d\n%s", code, stderr)
	}
	if _, stderr, code := run(t, address, "", "plan", "--source", "others", "-f", folder); code != ExitError || !strings.Contains(stderr, "not in the configuration any more") {
		t.Errorf("a source that left: exit code %d\n%s", code, stderr)
	}
}

func TestAFolderStandsForOneSourceOfKindDirAlone(t *testing.T) {
	_, e := shelfEngine(t, nil)
	src, err := dir.New(dir.Options{Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	address := serveShelves(t, server.Options{Engine: e, Sources: source.New(source.Options{Engine: e, Sources: []source.Spec{{Name: "objects", Kind: "kube", Source: src}}})})
	for says, args := range map[string][]string{
		"the source objects is of kind kube, and a folder can only stand for one of kind dir": {"-f", t.TempDir()},
		"--source wants one folder with -f":                                                   {"-f", "a", "-f", "b"},
		"--source wants one folder with -f,":                                                  {"-f", "-"},
	} {
		if _, stderr, code := run(t, address, "", append([]string{"plan", "--source", "objects"}, args...)...); code != ExitError || !strings.Contains(stderr, says) {
			t.Errorf("%v: exit code %d\n%s", args, code, stderr)
		}
	}
	line := api.PlanLine{}
	if err := line.Decode([]byte(`{"sink":"web","key":"a","payload":1,"deletionPolicyElse":"retain"}`)); err == nil || !strings.Contains(err.Error(), "of deletions alone") {
		t.Errorf("a Put with the policy of a deletion: %v", err)
	}
}

func TestPlanOfWhatASourceOwnsNamesTheFlagThatPlansIt(t *testing.T) {
	address, folder := sourced(t)
	stdout, _, code := run(t, address, "", "plan", "-f", folder)
	if says := "4 of them belong to a source: --source NAME plans a folder as the source of that name.\n"; code != ExitError || !strings.HasSuffix(stdout, says) {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
}
