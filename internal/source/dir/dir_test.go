package dir

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/source"
)

func TestTheTreeIsToldAndThenWhatChanges(t *testing.T) {
	root, d := t.TempDir(), newDesk(t)
	write(t, root, "a.yaml", docs("a=1", "b=1"))
	write(t, root, "deep/er/c.json", `{"sink":"web","key":"c","payload":{"x": 1}}`)
	write(t, root, "notes.txt", "no document")
	write(t, root, ".hidden.yaml", "no: no")
	write(t, root, ".git/x.yaml", "no: no")
	run(t, root, d, nil)
	d.wants("a=1", "b=1", `c={"x": 1}`)
	if got := d.places["web/b"]; got != "a.yaml:5" {
		t.Errorf("b is at %s", got)
	}

	write(t, root, "a.yaml", docs("a=1", "b=2"))
	d.wants("a=1", "b=2", `c={"x": 1}`)
	if !slices.Equal(d.puts, []string{"web/b"}) {
		t.Errorf("put %v, though b alone changed", d.puts)
	}
	write(t, root, "new/est/d.yaml", doc("d", "1"))
	d.wants("a=1", "b=2", `c={"x": 1}`, "d=1")
	must(t, os.Remove(filepath.Join(root, "deep/er/c.json")))
	d.wants("a=1", "b=2", "d=1")
	must(t, os.RemoveAll(filepath.Join(root, "new")))
	d.wants("a=1", "b=2")
	if d.fulls != 1 {
		t.Errorf("%d full sets, want the first alone", d.fulls)
	}
}

func TestARescanSeesWhatNobodyTold(t *testing.T) {
	root, d := t.TempDir(), newDesk(t)
	write(t, root, "a.yaml", doc("a", "1"))
	s, _ := run(t, root, d, func(s *Source) { s.addWatch = noWatch })
	write(t, root, "a.yaml", doc("a", "2"))
	write(t, root, "b.yaml", doc("b", "1"))
	s.Rescan()
	d.wants("a=2", "b=1")
	must(t, os.Remove(filepath.Join(root, "a.yaml")))
	s.Rescan()
	d.wants("b=1")
}

func TestADocumentThatMovesIsNeverDeleted(t *testing.T) {
	root, d := t.TempDir(), newDesk(t)
	write(t, root, "a.yaml", docs("a=1", "b=1"))
	write(t, root, "c.yaml", doc("c", "1"))
	run(t, root, d, nil)
	t.Run("into another file", func(t *testing.T) {
		write(t, root, "a.yaml", doc("a", "1"))
		write(t, root, "c.yaml", docs("c=1", "b=1"))
		d.await(func() bool { return d.places["web/b"] == "c.yaml:5" })
	})
	t.Run("with its file", func(t *testing.T) {
		must(t, os.Rename(filepath.Join(root, "a.yaml"), filepath.Join(root, "z.yaml")))
		d.await(func() bool { return d.places["web/a"] == "z.yaml:1" })
	})
	t.Run("by turns", func(t *testing.T) {
		write(t, root, "z.yaml", docs("b=2", "c=2"))
		write(t, root, "c.yaml", doc("a", "2"))
		d.wants("a=2", "b=2", "c=2")
	})
	d.well()
	d.neverDeleted(t)
}

func TestTwoDocumentsOfOneKeyAreAMistakeUntilOneGoes(t *testing.T) {
	root, d := t.TempDir(), newDesk(t)
	write(t, root, "a.yaml", doc("x", "1"))
	run(t, root, d, nil)
	write(t, root, "b.yaml", doc("x", "2"))
	d.says("web/x", "b.yaml:1 is at a.yaml:1 already")
	d.wants("x=1")
	must(t, os.Remove(filepath.Join(root, "a.yaml")))
	d.wants("x=2")
	d.well()
	d.neverDeleted(t)
}

func TestAnEditIsTakenThoughTheSameSaveMakesASecondDocumentOfItsKey(t *testing.T) {
	for name, c := range map[string]struct {
		save  map[string]string // files
		x     string            // what it comes to: the first has it
		twice string            // what is told of the other
	}{
		"behind it":              {map[string]string{"b.yaml": docs("x=2", "y=1", "x=9")}, "2", "b.yaml:9 is at b.yaml:1 already"},
		"before it":              {map[string]string{"b.yaml": docs("x=9", "y=1", "x=2")}, "9", "b.yaml:9 is at b.yaml:1 already"},
		"behind what stays":      {map[string]string{"b.yaml": docs("x=1", "y=1", "x=9")}, "1", "b.yaml:9 is at b.yaml:1 already"},
		"before what stays":      {map[string]string{"b.yaml": docs("x=9", "y=1", "x=1")}, "9", "b.yaml:9 is at b.yaml:1 already"},
		"in a file behind it":    {map[string]string{"b.yaml": docs("x=2", "y=1"), "c.yaml": doc("x", "9")}, "2", "c.yaml:1 is at b.yaml:1 already"},
		"in a file before it":    {map[string]string{"b.yaml": docs("x=2", "y=1"), "a.yaml": doc("x", "9")}, "9", "b.yaml:1 is at a.yaml:1 already"},
		"with a mistake in it":   {map[string]string{"b.yaml": docs("x=2", "y=1", "x={")}, "2", "b.yaml:11 this is no YAML"},
		"with a mistake, before": {map[string]string{"b.yaml": docs("x={", "y=1", "x=2")}, "2", "b.yaml:3 this is no YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			root, d := t.TempDir(), newDesk(t)
			write(t, root, "b.yaml", docs("x=1", "y=1"))
			run(t, root, d, nil)
			for file, content := range c.save {
				write(t, root, file, content)
			}
			d.says("web/x", c.twice)
			d.wants("x="+c.x, "y=1")
			for file := range c.save {
				write(t, root, file, "# nothing\n")
			}
			write(t, root, "b.yaml", docs("x=3", "y=1"))
			d.wants("x=3", "y=1")
			d.well()
			d.neverDeleted(t, "y")
		})
	}
}

func TestADirectoryThatIsNotThereIsTrouble(t *testing.T) {
	root, d := filepath.Join(t.TempDir(), "root"), newDesk(t)
	write(t, root, "a.yaml", doc("a", "1"))
	s, _ := run(t, root, d, nil)
	away := root + ".away"
	must(t, os.Rename(root, away))
	d.await(func() bool { return d.trouble != nil })
	must(t, os.WriteFile(root, nil, 0o644))
	s.Rescan()
	d.await(func() bool { return d.trouble != nil && d.trouble.Error() == root+": is no directory" })
	must(t, os.Remove(root))
	must(t, os.Rename(away, root))
	write(t, root, "b.yaml", doc("b", "1"))
	s.Rescan()
	d.wants("a=1", "b=1")
	d.well()
	d.neverDeleted(t)
	write(t, root, "a.yaml", doc("a", "2")) // it is watched again
	d.wants("a=2", "b=1")
}

func TestADirectoryNeedNotExistAtTheStart(t *testing.T) {
	root, d := filepath.Join(t.TempDir(), "root"), newDesk(t)
	run(t, root, d, nil)
	d.await(func() bool { return d.trouble != nil && d.trouble.Error() == root+": no such file or directory" })
	write(t, root, "a.yaml", doc("a", "1"))
	d.wants("a=1") // nobody asks: it is looked for
	d.well()
}

func TestTroubleNamesTheWholePath(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	must(t, err)
	d := newDesk(t)
	run(t, "manifests", d, nil)
	d.await(func() bool {
		return d.trouble != nil && d.trouble.Error() == filepath.Join(here, "manifests")+": no such file or directory"
	})
}

func TestAnEmptyDirectoryIsAnEmptySet(t *testing.T) {
	root, d := t.TempDir(), newDesk(t)
	run(t, root, d, nil)
	d.wants()
	d.well()
}

// A set that is empty is held, and single deletions need not be.
func TestADirectoryThatLosesItsLastDocumentIsAnEmptySetToo(t *testing.T) {
	for name, empty := range map[string]func(t *testing.T, root string){
		"its files are removed":       func(t *testing.T, root string) { must(t, os.RemoveAll(filepath.Join(root, "sub"))) },
		"its documents are taken out": func(t *testing.T, root string) { write(t, root, "sub/b.yaml", "# nothing\n") },
		"it is moved out of sight": func(t *testing.T, root string) {
			must(t, os.Rename(filepath.Join(root, "sub"), filepath.Join(root, ".sub")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root, d := t.TempDir(), newDesk(t)
			write(t, root, "a.yaml", doc("a", "1"))
			write(t, root, "sub/b.yaml", docs("b=1", "c=1"))
			run(t, root, d, nil)
			must(t, os.Remove(filepath.Join(root, "a.yaml")))
			d.wants("b=1", "c=1")
			empty(t, root)
			d.wants()
			if want := []string{"web/a"}; d.fulls != 2 || !slices.Equal(d.drops, want) {
				t.Errorf("%d full sets, and deleted one by one: %v; want 2, and %v", d.fulls, d.drops, want)
			}
			write(t, root, "a.yaml", doc("a", "2")) // and it goes on
			d.wants("a=2")
		})
	}
}

func TestWhateverADocumentSaysOfItsResourceIsToldAndTheChangeOfIt(t *testing.T) {
	root, d := t.TempDir(), newDesk(t)
	write(t, root, "a.yaml", doc("a", "1"))
	run(t, root, d, nil)
	more := ""
	for i, field := range []string{"suspend: true", "conflictPolicy: report-only", "deletionPolicy: retain", "direction: both",
		"retry: {base: 1s}", "idempotencyKey: order-17"} {
		more += field + "\n"
		write(t, root, "a.yaml", doc("a", "1")+more)
		d.await(func() bool { return len(d.puts) == i+1 })
	}
	want := source.Item{Key: record.Key{Sink: "web", Name: "a"}, Payload: []byte("1"), Conflict: record.ReportOnly, Deletion: record.Retain,
		Direction: record.Both, Suspend: true, Retry: record.Retry{Base: time.Second}, IdempotencyKey: "order-17", Place: "a.yaml:1"}
	if !reflect.DeepEqual(d.last, want) {
		t.Errorf("told %+v, want %+v", d.last, want)
	}
}
