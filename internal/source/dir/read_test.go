package dir

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/source"
)

// motley writes a tree with something of all that rules are about.
func motley(t *testing.T, root string) {
	t.Helper()
	for name, content := range map[string]string{
		"a.yaml":            doc("a", "1"),
		"b.yaml":            doc("b", "1") + "---\n" + doc("bad", "1") + "paylod: 2\n",
		"cut.json":          `{"sink":"web","key":"cut",`,
		"drafts/c.yaml":     doc("c", "1"),
		"team/.pawlignore":  "old.yaml\n",
		"team/d.yaml":       doc("d", "1"),
		"team/old.yaml":     doc("old", "1"),
		"team/objects.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: e, namespace: team}\n",
		"z.yaml":            doc("a", "2"),
		"notes.txt":         "none",
	} {
		write(t, root, name, content)
		age(t, filepath.Join(root, name))
	}
}

// age makes a file an hour old, so that nobody waits for the rest of it.
func age(t *testing.T, path string) {
	t.Helper()
	old := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(path, old, old))
}

// fullSet is an Inlet that keeps the first full set, and then ends the source.
type fullSet struct {
	source.Inlet // whose other methods are not called
	items        []source.Item
	kept         []source.Kept
}

var errSeen = errors.New("seen")

func (f *fullSet) Full(_ context.Context, items iter.Seq2[source.Item, error], kept func() []source.Kept) error {
	for it, err := range items {
		if err != nil {
			return err
		}
		f.items = append(f.items, it)
	}
	f.kept = kept()
	return errSeen
}

func listed(kept []source.Kept) string {
	var out []string
	for _, k := range kept {
		out = append(out, k.Key.String()+" at "+k.Place+": "+k.Err.Error())
	}
	return strings.Join(out, "; ")
}

func TestReadGivesWhatASourceTellsFirst(t *testing.T) {
	root := t.TempDir()
	motley(t, root)
	opts := Options{Path: root, Exclude: []string{"drafts"}, Kubernetes: &Kubernetes{Sink: "cluster", Key: "{{.kind}}/{{.name}}"}, Settle: settle}
	s, err := New(opts)
	must(t, err)
	var want fullSet
	if err := s.Run(t.Context(), &want); !errors.Is(err, errSeen) {
		t.Fatal(err)
	}
	// Who reads by what the source tells of itself reads the same.
	told := s.Settings()
	again := Options{Path: told.Path, Include: told.Include, Exclude: told.Exclude, Kubernetes: &Kubernetes{Sink: told.KubernetesSink, Key: told.KubernetesKey}, Settle: settle}
	items, kept, err := Read(t.Context(), again)
	must(t, err)
	var got fullSet
	if err := got.Full(t.Context(), items, kept); !errors.Is(err, errSeen) {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.items, want.items) {
		t.Errorf("got %v\nwant %v", got.items, want.items)
	}
	if listed(got.kept) != listed(want.kept) {
		t.Errorf("got %s\nwant %s", listed(got.kept), listed(want.kept))
	}
	var keys []string
	for _, it := range got.items {
		keys = append(keys, it.Key.String())
	}
	if want := "web/a web/b web/d cluster/ConfigMap/e web/a"; strings.Join(keys, " ") != want {
		t.Errorf("got %v, want %s", keys, want)
	}
	if i := slices.IndexFunc(got.kept, func(k source.Kept) bool { return k.Key == record.Key{Sink: "web", Name: "bad"} }); i < 0 || len(got.kept) != 2 {
		t.Errorf("kept: %s", listed(got.kept))
	}
}

func TestReadSaysWhyATreeCanNotBeReadAsAWhole(t *testing.T) {
	root := t.TempDir()
	write(t, root, "a.yaml", doc("a", "1"))
	write(t, root, ".pawlignore", "[\n")
	for _, x := range []struct {
		opts Options
		says string
	}{
		{Options{Path: filepath.Join(root, "none")}, "no such file or directory"},
		{Options{Path: filepath.Join(root, "a.yaml")}, "a.yaml: is no directory"},
		{Options{Path: root}, ".pawlignore:1"},
		{Options{Path: root, Include: []string{"["}}, "is no pattern of paths"},
	} {
		if _, _, err := Read(t.Context(), x.opts); err == nil || !strings.Contains(err.Error(), x.says) {
			t.Errorf("got %v, want %s", err, x.says)
		}
	}
}
