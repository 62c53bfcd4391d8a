package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
)

// reserveBytes is store.reserve_bytes of the configuration.
const reserveBytes = 64 << 20

// TestAFullDiskRefusesPutsAndLosesNothing fills the store's file system under
// load: first into the reserve, then to the last byte, then frees it. The daemon
// outlives all of it.
func TestAFullDiskRefusesPutsAndLosesNothing(t *testing.T) {
	rng := random(t)
	target := newTarget(t, rng.Uint64())
	defer target.books.histories()
	s := newSite(t, folder(t), target)
	must(t, os.Mkdir(s.store, 0o700))
	if err := syscall.Mount("pawl-crash", s.store, "tmpfs", 0, "size=288m"); err != nil {
		t.Skip("needs the right to mount a tmpfs: ", err)
	}
	t.Cleanup(func() { unmount(t, s.store) })
	ballast := filepath.Join(s.store, "ballast")
	c := &crashes{site: s, t: t, rng: rng, books: target.books}
	d := c.openChecked()
	defer func() {
		if t.Failed() {
			t.Log(d.log)
		}
	}()

	l := startLoad(d, target.books, rng, true)
	target.set(stormy)
	busy(t, l, d)
	// At once, but for a write to Badger that is under way: what was accepted just now is in
	// the journal alone.
	fill(t, ballast, s.store, reserveBytes/2-8<<20)
	eventually(t, "Badger is written no more", func(context.Context) error {
		if !strings.Contains(d.log.String(), "the store is behind its journal") {
			return errors.Join(errors.New("not yet"), d.alive())
		}
		return nil
	})
	fill(t, ballast, s.store, 0)
	meetsFullDisk(t, l, d)
	must(t, os.Remove(ballast))
	eventually(t, "Puts are taken again", func(ctx context.Context) error { return errors.Join(d.alive(), d.Ready(ctx)) })
	busy(t, l, d)

	target.set(down) // so that there is something to deliver when the disk is nearly full
	waiting := putWaiting(t, d, target)
	fill(t, ballast, s.store, reserveBytes-8<<20)
	refusing(t, d)
	target.set(fair)
	delivered(t, d, waiting)
	refusing(t, d)
	fill(t, ballast, s.store, 0)
	full := &worker{load: &load{d: d, books: target.books, graceful: true}}
	for key := range waiting {
		must(t, full.remove(key)) // granted or refused, as room is
	}
	meetsFullDisk(t, l, d)
	must(t, os.Remove(ballast))
	eventually(t, "Puts are taken again", func(ctx context.Context) error { return errors.Join(d.alive(), d.Ready(ctx)) })
	busy(t, l, d)
	l.end()
	converge(t, d, target)
	c.check(d)
	must(t, d.terminate())
	c.calm()
}

// busy waits until clients were answered for a while.
func busy(t *testing.T, l *load, d *daemon) {
	t.Helper()
	before := l.answered.Load()
	eventually(t, "clients get on", func(context.Context) error {
		if l.answered.Load() < before+300 {
			return errors.Join(errors.New("not yet"), d.alive())
		}
		return d.alive()
	})
}

// meetsFullDisk waits until clients were refused for a while, and the daemon
// has had time to do something wrong.
func meetsFullDisk(t *testing.T, l *load, d *daemon) {
	t.Helper()
	before := l.full.Load()
	eventually(t, "clients meet the full disk", func(context.Context) error {
		if l.full.Load() < before+500 {
			return errors.Join(errors.New("not yet"), d.alive())
		}
		return d.alive()
	})
}

// putWaiting puts what can't be delivered yet, and returns its generations.
func putWaiting(t *testing.T, d *daemon, target *target) map[string]uint64 {
	t.Helper()
	waiting := map[string]uint64{}
	for i := range 50 {
		key := fmt.Sprintf("waiting/%d", i)
		q := target.books.ask(key, `{"n":"waits"}`)
		res, err := d.Put(t.Context(), web(key), api.PutRequest{Payload: json.RawMessage(q.body)})
		must(t, err)
		q.granted(res.Generation)
		waiting[key] = res.Generation
	}
	return waiting
}

// delivered waits until what was put is acked, which goes on while Puts are refused.
func delivered(t *testing.T, d *daemon, generations map[string]uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for key, generation := range generations {
		if w, err := d.Wait(ctx, web(key), generation); err != nil || !w.Done {
			t.Errorf("%s on a nearly full disk: %+v, %v", key, w, err)
		}
	}
}

// refusing waits until Puts are refused, and checks what is said of it.
func refusing(t *testing.T, d *daemon) {
	t.Helper()
	var refused *api.Problem
	eventually(t, "Puts are refused", func(ctx context.Context) error {
		_, err := d.Put(ctx, web("refused"), api.PutRequest{Payload: []byte(`"refused"`)})
		if !errors.As(err, &refused) {
			return fmt.Errorf("a Put on a nearly full disk: %w", errors.Join(err, d.alive()))
		}
		return nil
	})
	if refused.Status != 507 || refused.Code != api.CodeNoSpace || !strings.Contains(refused.Detail, "reserve") || !strings.Contains(refused.Error(), "free") {
		t.Errorf("the refusal says: %d %s %s", refused.Status, refused.Code, refused)
	}
	if _, err := d.Get(t.Context(), web("refused"), client.GetOptions{}); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("what was refused is there: %v", err)
	}
	if err := d.Ready(t.Context()); api.CodeOf(err) != api.CodeNotReady {
		t.Errorf("/readyz while Puts are refused: %v", err)
	}
}

// fill makes the file at path so large that left bytes are free.
func fill(t *testing.T, path, dir string, left int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	must(t, err)
	defer f.Close()
	// In small steps: one that does not fit takes all there is for a moment, and gives it back.
	step := int64(1 << 20)
	for range 10_000 { // the daemon writes meanwhile
		var st syscall.Statfs_t
		must(t, syscall.Statfs(dir, &st))
		info, err := f.Stat()
		must(t, err)
		more := int64(st.Bavail)*st.Bsize - left
		if more <= 0 {
			return
		}
		err = syscall.Fallocate(int(f.Fd()), 0, info.Size(), min(step, more))
		switch {
		case errors.Is(err, syscall.ENOSPC):
			step = max(step/2, st.Bsize)
		case err != nil:
			t.Fatalf("fill %s: %v", dir, err)
		}
	}
	t.Fatalf("%s can't be filled", dir)
}
