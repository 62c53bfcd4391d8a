package dir

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A listing is no moment: what moves from a directory that is still to be read to one that
// was read is in none of them.
func TestAFileThatMovesWhileTheTreeIsListedIsNotDeleted(t *testing.T) {
	root, d := t.TempDir(), newDesk(t)
	write(t, root, "a/other.yaml", docs("other=1"))
	write(t, root, "b/other.yaml", "# nothing\n")
	write(t, root, "c/x.yaml", docs("x=1"))
	at := func(name string) string { return filepath.Join(root, name) }
	moving := make(chan struct{}, 1)
	run(t, root, d, func(s *Source) {
		patiently(s)
		s.fs.readDir = func(name string) ([]fs.DirEntry, error) {
			if name == at("b") {
				select {
				case <-moving: // a is read already
					must(t, os.Rename(at("b/x.yaml"), at("a/x.yaml")))
				default:
				}
			}
			return os.ReadDir(name)
		}
	})
	moving <- struct{}{}
	must(t, os.Rename(at("c/x.yaml"), at("b/x.yaml")))
	d.await(func() bool { return d.places["web/x"] == "a/x.yaml:1" })
	d.wants("other=1", "x=1")
	d.neverDeleted(t)
}

// And what moves while a full set is read, into a file that was read before it.
func TestADocumentThatMovesWhileEverythingIsReadIsNotDeleted(t *testing.T) {
	root, d := t.TempDir(), newDesk(t)
	write(t, root, "a.yaml", docs("other=1"))
	write(t, root, "b.yaml", docs("x=1", "y=1"))
	moving := make(chan struct{}, 1)
	s, _ := run(t, root, d, func(s *Source) {
		patiently(s)
		s.fs.open = func(name string) (file, error) {
			if filepath.Base(name) == "b.yaml" {
				select {
				case <-moving: // a is read already
					longAgo(t, root, "a.yaml", docs("other=1", "x=1"))
					longAgo(t, root, "b.yaml", docs("y=1"))
				default:
				}
			}
			return system.open(name)
		}
	})
	moving <- struct{}{}
	s.Rescan()
	d.await(func() bool { return d.places["web/x"] == "a.yaml:5" })
	d.wants("other=1", "x=1", "y=1")
	d.well()
	d.neverDeleted(t)
}

// longAgo writes a file of root that seems to have been quiet since.
func longAgo(t *testing.T, root, name, content string) {
	t.Helper()
	write(t, root, name, content)
	past := time.Now().Add(-time.Minute)
	must(t, os.Chtimes(filepath.Join(root, name), past, past))
}
