package badger

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

// A real file system, filled and freed: puts are refused in time, the rest goes
// on, and nothing dies.
func TestASmallFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256m"); err != nil {
		t.Skipf("a tmpfs can't be mounted here: %v", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	opts := testOptions(t, filepath.Join(dir, "store"))
	opts.ReserveBytes = 160 << 20
	s := mustOpen(t, opts)
	defer s.Close()
	acknowledged := fillUp(t, s)
	if acknowledged < 10 {
		t.Fatalf("only %d puts were taken", acknowledged)
	}
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 60<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	// Below the reserve deliveries go on.
	for i := range acknowledged {
		ticket := s.Update(keyOf(i), func(outbox.Record) (outbox.Change, error) {
			return outbox.Change{Status: &record.Status{Attempts: i + 1}}, nil
		})
		if err := ticket.Wait(t.Context()); err != nil {
			t.Fatalf("status of key %d: %v", i, err)
		}
	}
	if err := s.apply(); err != nil {
		t.Errorf("apply: %v", err)
	}
	if st := s.Stats(); !st.RefusingPuts || st.FreeBytes <= 0 || st.FreeBytes >= opts.ReserveBytes {
		t.Errorf("figures: refusing %t, %d bytes free", st.RefusingPuts, st.FreeBytes)
	}
	for i := range acknowledged {
		ticket := s.Update(keyOf(i), func(outbox.Record) (outbox.Change, error) { return outbox.Change{Remove: true}, nil })
		if err := ticket.Wait(t.Context()); err != nil {
			t.Fatalf("remove key %d: %v", i, err)
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := s.Compact(t.Context()); err != nil {
		t.Fatalf("compact: %v", err)
	}
	if err := putNumber(s, keyOf(1), 7).Wait(t.Context()); err != nil {
		t.Errorf("put after space was freed: %v", err)
	}
}

// On a nearly full disk what would write to Badger is refused, and what is there
// can be read still.
func TestANearlyFullDiskTakesNothingAway(t *testing.T) {
	opts := testOptions(t, t.TempDir())
	opts.ReserveBytes = 512 << 20
	var free atomic.Int64
	free.Store(1 << 40)
	opts.hooks.free = func(string) (int64, error) { return free.Load(), nil }
	s := mustOpen(t, opts)
	defer s.Close()
	if err := putNumber(s, keyOf(1), 7).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.apply(); err != nil {
		t.Fatal(err)
	}
	free.Store(200 << 20) // enough to close Badger
	for what, err := range map[string]error{
		"set a document": s.SetMeta("a", []byte("b")),
		"compact":        s.Compact(t.Context()),
		"reopen":         s.reopen(t.Context()),
	} {
		if !errors.Is(err, outbox.ErrNoSpace) {
			t.Errorf("%s = %v, want ErrNoSpace", what, err)
		}
	}
	if rec, err := s.Get(keyOf(1)); err != nil || number(rec.Desired.Payload) != 7 {
		t.Errorf("key 1 is at %d, %v", number(rec.Desired.Payload), err)
	}
	free.Store(1 << 40)
	if err := errors.Join(s.SetMeta("a", []byte("b")), s.Compact(t.Context())); err != nil {
		t.Error(err)
	}
}

// Without a byte left nothing dies either, closing included.
func TestAFullFileSystemKillsNothing(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=200m"); err != nil {
		t.Skipf("a tmpfs can't be mounted here: %v", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	opts := testOptions(t, filepath.Join(dir, "store"))
	opts.ReserveBytes = 64 << 20
	s := mustOpen(t, opts)
	ledger := map[int]uint64{}
	for i := range 300 {
		if err := putNumber(s, keyOf(i), uint64(i+1)).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		ledger[i] = uint64(i + 1)
	}
	if err := s.apply(); err != nil {
		t.Fatal(err)
	}
	fill(t, filepath.Join(dir, "filler"))
	for i := range 200 {
		if err := s.SetMeta(fmt.Sprint("document ", i%4), make([]byte, 100)); !errors.Is(err, outbox.ErrNoSpace) {
			t.Fatalf("set a document = %v, want ErrNoSpace", err)
		}
	}
	if err := putNumber(s, keyOf(1), 2).Wait(t.Context()); !errors.Is(err, outbox.ErrNoSpace) {
		t.Errorf("put = %v, want ErrNoSpace", err)
	}
	if err := s.Close(); !errors.Is(err, outbox.ErrNoSpace) {
		t.Errorf("close = %v, want ErrNoSpace", err)
	}
	checkLedger(t, copyDir(t, opts.Dir), ledger)
}

// fill writes to path until not a byte is left.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{1 << 20, 4096, 1} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
	}
}

// fillUp puts until that is refused, and returns how many were taken.
func fillUp(t *testing.T, s *Store) int {
	t.Helper()
	r := rand.New(rand.NewPCG(*seed, 3))
	payload := make([]byte, 256<<10)
	for i := range payload {
		payload[i] = byte(r.Uint32())
	}
	for i := range 2000 {
		err := s.Update(keyOf(i), func(outbox.Record) (outbox.Change, error) {
			return outbox.Change{Desired: &record.Desired{Payload: payload}, NewGeneration: true}, nil
		}).Wait(t.Context())
		if errors.Is(err, outbox.ErrNoSpace) {
			return i
		}
		if err != nil {
			t.Fatalf("put %d: %v", i, err)
		}
	}
	t.Fatal("the file system never filled")
	return 0
}
