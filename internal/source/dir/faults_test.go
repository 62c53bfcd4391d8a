package dir

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// broken makes the source fail where fails says so, as a disk or missing rights do.
func broken(fails func(name string) error) func(*Source) {
	return func(s *Source) {
		s.fs.open = func(name string) (file, error) {
			if err := fails(name); err != nil {
				return nil, &fs.PathError{Op: "open", Path: name, Err: err}
			}
			return system.open(name)
		}
		s.fs.readDir = func(name string) ([]fs.DirEntry, error) {
			if err := fails(name); err != nil {
				return nil, &fs.PathError{Op: "open", Path: name, Err: err}
			}
			return os.ReadDir(name)
		}
	}
}

func TestWhatCantBeReadKeepsWhatItHad(t *testing.T) {
	var bad atomic.Pointer[string]
	none := "none"
	bad.Store(&none)
	root, d := t.TempDir(), newDesk(t)
	write(t, root, "a.yaml", docs("a=1", "b=1"))
	write(t, root, "sub/deep/c.yaml", doc("c", "1"))
	write(t, root, "sub.yaml", doc("d", "1"))
	s, stop := run(t, root, d, broken(func(name string) error {
		if strings.HasSuffix(name, *bad.Load()) {
			return syscall.EIO
		}
		return nil
	}))
	all := []string{"a=1", "b=1", "c=1", "d=1"}
	d.wants(all...)
	for _, c := range []struct{ name, key, says string }{
		{"/a.yaml", "web/b", "a.yaml a.yaml can't be read: input/output error"},
		{"/sub", "web/c", "sub/deep/c.yaml sub can't be read: input/output error"},
		{"/deep", "web/c", "sub/deep/c.yaml sub/deep can't be read: input/output error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad.Store(&c.name)
			s.Rescan()
			d.says(c.key, c.says)
			d.wants(all...)
			bad.Store(&none)
			s.Rescan()
			d.well()
		})
	}
	t.Run("the root", func(t *testing.T) {
		name := filepath.Base(root)
		bad.Store(&name)
		s.Rescan()
		d.await(func() bool { return d.trouble != nil && d.trouble.Error() == root+": input/output error" })
		bad.Store(&none)
		d.await(func() bool { return d.trouble == nil }) // nobody asks
	})
	t.Run("a directory, after a restart", func(t *testing.T) {
		stop()
		s, _ := run(t, root, d, broken(func(name string) error {
			if strings.HasSuffix(name, *bad.Load()) {
				return syscall.EACCES
			}
			return nil
		}))
		name := "/sub"
		bad.Store(&name)
		must(t, os.Remove(filepath.Join(root, "sub.yaml"))) // beside it
		d.wants("a=1", "b=1", "c=1")
		s.Rescan()
		d.says("web/c", "sub can't be read: permission denied")
		stop()
	})
	d.neverDeleted(t, "a", "b", "c")
}

func TestADirectoryThatNobodyCouldEverReadHoldsAllDeletions(t *testing.T) {
	root, d := t.TempDir(), newDesk(t)
	write(t, root, "a.yaml", docs("a=1", "b=1"))
	write(t, root, "sub/c.yaml", doc("c", "1"))
	_, stop := run(t, root, d, nil)
	stop()
	var readable atomic.Bool
	write(t, root, "a.yaml", doc("a", "1"))
	s, _ := run(t, root, d, broken(func(name string) error {
		if strings.HasSuffix(name, "/sub") && !readable.Load() {
			return syscall.EACCES
		}
		return nil
	}))
	d.says("sub/", "sub can't be read: permission denied")
	d.wants("a=1", "b=1", "c=1")
	readable.Store(true)
	s.Rescan()
	d.wants("a=1", "c=1")
	d.well()
	d.neverDeleted(t, "a", "c")
}

func TestWhatIsNoFileKeepsWhatItHad(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, path string)
		says string
	}{
		"a link that leads nowhere":   {func(t *testing.T, p string) { must(t, os.Symlink("nowhere", p)) }, "a.yaml can't be read: is a link that leads nowhere"},
		"a link that leads to itself": {func(t *testing.T, p string) { must(t, os.Symlink("a.yaml", p)) }, "a.yaml can't be read: too many levels of symbolic links"},
		"a pipe":                      {func(t *testing.T, p string) { must(t, syscall.Mkfifo(p, 0o644)) }, "a.yaml can't be read: is no regular file"},
		"too much":                    {func(t *testing.T, p string) { must(t, os.WriteFile(p, nil, 0o644)); must(t, os.Truncate(p, 65<<20)) }, "a.yaml can't be read: has more than 64 MiB; make several files of it"},
	} {
		t.Run(name, func(t *testing.T) {
			root, d := t.TempDir(), newDesk(t)
			write(t, root, "a.yaml", doc("a", "1"))
			_, stop := run(t, root, d, nil)
			must(t, os.Remove(filepath.Join(root, "a.yaml")))
			c.make(t, filepath.Join(root, "a.yaml"))
			d.says("web/a", c.says)
			stop()
			run(t, root, d, nil)
			d.says("a.yaml", c.says)
			d.wants("a=1")
			d.neverDeleted(t)
			must(t, os.Remove(filepath.Join(root, "a.yaml")))
			d.wants()
			d.well()
		})
	}
}

// syncBuffer is a log that can be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestALimitOfWatchesIsToldOnceAndRescansGoOn(t *testing.T) {
	root, d := t.TempDir(), newDesk(t)
	for i := range 20 {
		write(t, root, fmt.Sprintf("%d/a.yaml", i), doc(fmt.Sprintf("k%d", i), "1"))
	}
	var out syncBuffer
	s, _ := run(t, root, d, func(s *Source) { logTo(&out)(s); s.addWatch = noWatch })
	for i := range 3 {
		write(t, root, "0/a.yaml", doc("k0", fmt.Sprint(i+2)))
		s.Rescan()
		d.await(func() bool { return d.has["web/k0"] == fmt.Sprint(i+2) })
	}
	if log := out.String(); strings.Count(log, "can't be watched") != 1 || !strings.Contains(log, "max_user_watches") || !strings.Contains(log, "no space left on device") {
		t.Errorf("logged:\n%s", log)
	}
}
