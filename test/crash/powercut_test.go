package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox/badger"
)

// TestAPowerCutLosesNoPutThatReturned cuts the power the moment a Put returns,
// while others are under way, and opens what is left with a fresh engine.
//
// A copy of the folder has everything that was written; a copy of the disk below
// a file system of its own has only what was flushed to it, which is what a power
// cut leaves.
func TestAPowerCutLosesNoPutThatReturned(t *testing.T) {
	t.Run("folder", func(t *testing.T) {
		dir := folder(t)
		cutPower(t, dir, func() string {
			to := filepath.Join(dir, "copy")
			must(t, copyTree(filepath.Join(dir, "store"), to))
			return to
		})
	})
	t.Run("disk", func(t *testing.T) {
		dir := folder(t)
		image, disk := filepath.Join(dir, "disk.img"), filepath.Join(dir, "store")
		must(t, os.WriteFile(image, nil, 0o600))
		must(t, os.Truncate(image, 1<<30))
		if err := run("mkfs.ext4", "-q", "-E", "lazy_itable_init=1,lazy_journal_init=1", image); err != nil {
			t.Skip("needs a file system of its own: ", err)
		}
		mount(t, image, disk)
		cutPower(t, dir, func() string {
			left, to := filepath.Join(dir, "left.img"), filepath.Join(dir, "left")
			unmount(t, to)
			must(t, run("cp", "--sparse=always", image, left))
			mount(t, left, to)
			return to
		})
	})
}

// mount mounts an image until the test's end, or skips the test where that is
// not permitted.
func mount(t *testing.T, image, at string) {
	t.Helper()
	must(t, os.MkdirAll(at, 0o700))
	if err := run("mount", "-o", "loop", image, at); err != nil {
		t.Skip("needs the right to mount loop devices: ", err)
	}
	t.Cleanup(func() { unmount(t, at) })
}

// unmount does nothing where nothing is mounted.
func unmount(t *testing.T, at string) {
	t.Helper()
	err := syscall.Unmount(at, 0)
	if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOENT) {
		t.Errorf("unmount %s: %v", at, err)
	}
}

// cutPower has power cut again and again; copy returns the folder of the store
// that is left. The daemon does not move meanwhile.
func cutPower(t *testing.T, dir string, copy func() (store string)) {
	rng := random(t)
	target := newTarget(t, rng.Uint64())
	defer target.books.histories()
	target.set(stormy)
	c := &crashes{site: newSite(t, dir, target), t: t, rng: rng, books: target.books}
	d := c.openChecked()
	l := startLoad(d, target.books, rng, false)
	for range many(8, 2) {
		for range 20 + rng.IntN(200) {
			select {
			case <-l.returned:
			case <-d.ended:
				t.Fatalf("the daemon ended: %v\n%s", d.err, d.log)
			}
		}
		promises := target.books.promises()
		freeze(t, d)
		store := copy()
		must(t, d.cmd.Process.Signal(syscall.SIGCONT))
		kept(t, store, promises, target.books)
		if t.Failed() {
			break
		}
	}
	d.kill()
	l.end()
}

// freeze stops the daemon where it is.
func freeze(t *testing.T, d *daemon) {
	t.Helper()
	must(t, d.cmd.Process.Signal(syscall.SIGSTOP))
	eventually(t, "the daemon stands still", func(context.Context) error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.cmd.Process.Pid))
		if errors.Is(err, fs.ErrNotExist) && runtime.GOOS != "linux" || bytes.Contains(stat, []byte(") T ")) {
			return nil
		}
		return errors.Join(err, errors.New("it runs still"))
	})
}

// kept opens a store, and holds it against promises (P1).
func kept(t *testing.T, store string, promises map[string]state, books *ledger) {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{Store: badger.Opener(badger.Options{Dir: store, ReserveBytes: -1})})
	if err != nil {
		t.Errorf("after a power cut: %v", err)
		return
	}
	defer func() { must(t, e.Close(context.Background())) }()
	for key, p := range promises {
		s := state{generation: p.generation, gone: true}
		r, err := e.Get(t.Context(), web(key))
		switch {
		case err == nil:
			s = state{generation: r.Desired.Generation, body: string(r.Desired.Payload)}
		case !errors.Is(err, engine.ErrNotFound):
			books.failf(key, "P1: after a power cut: %v", err)
			continue
		}
		if why := books.broken(key, p, s); why != "" {
			books.failf(key, "P1: after a power cut: %s", why)
		}
	}
}

// copyTree copies a folder anew, holes as holes.
func copyTree(from, to string) error {
	return errors.Join(os.RemoveAll(to), run("cp", "-r", "--sparse=always", from, to))
}
