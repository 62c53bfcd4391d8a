package badger

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
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
