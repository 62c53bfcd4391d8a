package dir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"testing/iotest"
)

// loaderOf returns a loader of root.
func loaderOf(t *testing.T, root string) *loader {
	t.Helper()
	s, err := New(Options{Path: root})
	must(t, err)
	return &loader{Source: s}
}

// counted notes what is asked of it.
type counted struct {
	file
	calls *[]string
}

func (f counted) stamp() (stamp, error) {
	*f.calls = append(*f.calls, "stamp")
	return f.file.stamp()
}

func (f counted) Read(p []byte) (int, error) {
	*f.calls = append(*f.calls, "read")
	return f.file.Read(p)
}

func (f counted) Close() error {
	*f.calls = append(*f.calls, "close")
	return f.file.Close()
}

func TestAFileTakesFewCallsOfTheSystem(t *testing.T) {
	root := t.TempDir()
	write(t, root, "a.yaml", doc("a", "1"))
	var calls []string
	f := fullOf(t, root, nil)
	age(t, filepath.Join(root, "a.yaml"))
	f.fs.stat = func(name string) (fs.FileInfo, error) {
		calls = append(calls, "stat")
		return os.Stat(name)
	}
	f.fs.open = func(name string) (file, error) {
		calls = append(calls, "open")
		opened, err := system.open(name)
		return counted{opened, &calls}, err
	}
	told := 0
	for r := range f.readAhead(t.Context(), f.todo()) {
		told += len(r.items)
	}
	if want := []string{"stat", "open", "stamp", "read", "stamp", "close"}; told != 1 || !slices.Equal(calls, want) {
		t.Errorf("told %d; %v, want %v", told, calls, want)
	}
}

// A system may give fewer bytes than it was asked for, and than there are.
func TestAFileThatComesInPiecesIsReadWhole(t *testing.T) {
	root, want := t.TempDir(), docs("a=1", "b=1")
	write(t, root, "a.yaml", want)
	l := loaderOf(t, root)
	l.fs.open = func(name string) (file, error) {
		f, err := system.open(name)
		return inPieces{f}, err
	}
	if _, err := l.read("a.yaml"); err != nil || string(l.buf) != want {
		t.Errorf("got %q, %v", l.buf, err)
	}
}

type inPieces struct{ file }

func (f inPieces) Read(p []byte) (int, error) { return iotest.OneByteReader(f.file).Read(p) }

// What was a document when it was looked at may be something else when it is opened.
func TestWhatComesInThePlaceOfADocumentIsNotWaitedForAndNotTaken(t *testing.T) {
	for name, c := range map[string]struct {
		put  func(t *testing.T, path string)
		want error
	}{
		"nothing": {func(*testing.T, string) {}, errChanging},
		"a pipe":  {func(t *testing.T, p string) { must(t, syscall.Mkfifo(p, 0o644)) }, errNoFile},
		"a pipe that somebody is about to write to": {func(t *testing.T, p string) {
			must(t, syscall.Mkfifo(p, 0o644))
			f, err := os.OpenFile(p, os.O_RDWR, 0) // which waits for nobody
			must(t, err)
			t.Cleanup(func() { f.Close() })
		}, errNoFile},
		"a directory": {func(t *testing.T, p string) { must(t, os.Mkdir(p, 0o755)) }, errNoFile},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root, "a.yaml", doc("a", "1"))
			l, path := loaderOf(t, root), filepath.Join(root, "a.yaml")
			if _, err := l.check("a.yaml"); err != nil {
				t.Fatal(err)
			}
			must(t, os.Remove(path))
			c.put(t, path)
			if _, err := l.read("a.yaml"); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			r := l.load("a.yaml", nil, nil, true)
			if r.gone || len(r.items) > 0 || len(r.kept) != 1 {
				t.Errorf("told %v, kept %v, gone %v; want nothing told, and all kept", r.items, r.kept, r.gone)
			}
		})
	}
}
