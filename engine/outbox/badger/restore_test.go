package badger

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// restored makes a store of backups and opens it.
func restored(t testing.TB, backups ...[]byte) *Store {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	if _, err := restoreInto(t, dir, backups...); err != nil {
		t.Fatal(err)
	}
	mustCheck(t, dir)
	return mustOpen(t, testOptions(t, dir))
}

func restoreInto(t testing.TB, dir string, backups ...[]byte) (Restored, error) {
	var from []io.Reader
	for _, b := range backups {
		from = append(from, bytes.NewReader(b))
	}
	return Restore(t.Context(), RestoreOptions{Dir: dir}, from...)
}

// R67: a restored store holds what the original held, under a new epoch and above
// every revision that the original can have given out since.
func TestR67_ARestoredStoreIsTheOriginalInANewEpoch(t *testing.T) {
	s := mustOpen(t, testOptions(t, killedStore(t)))
	defer s.Close()
	backup := backupOf(t, s, Since{})
	again := restored(t, backup)
	defer again.Close()
	wantFixture(t, again)
	if was, is := contents(t, s), contents(t, again); !reflect.DeepEqual(was, is) {
		t.Errorf("%d records became %d others", len(was), len(is))
	}
	was, is := s.Info(), again.Info()
	if !is.Lossy || is.Epoch == was.Epoch {
		t.Errorf("%+v was restored as %+v", was, is)
	}
	later := putNumber(s, keyOf(1), 5).Revision // of the original, after its backup
	if ticket := putNumber(again, keyOf(1), 5); ticket.Revision <= later+2*claimStep {
		t.Errorf("revision %d may have been given out by the original, which is at %d", ticket.Revision, later)
	}
}

func TestARestoreLeavesRoomForWhatTheOriginalGaveOutSince(t *testing.T) {
	const day = 24 * time.Hour
	if got := firstRevision(10, 365*day); got < 10+365*86400*100_000 || got > 1<<53 {
		t.Errorf("a year later it begins at %d", got)
	}
	if got := firstRevision(10, -day); got <= 10+claimStep {
		t.Errorf("where clocks differ it begins at %d", got)
	}
}

// What does not fit is refused, in words, and leaves no store behind.
func TestBackupsThatDontFitAreRefused(t *testing.T) {
	s := mustOpen(t, filled(t))
	defer s.Close()
	next := func(i int) { putNumber(s, keyOf(i), 77).Wait(t.Context()) }
	full := backupOf(t, s, Since{})
	next(1)
	one := backupOf(t, s, SinceOf(headOf(t, full)))
	next(2)
	two := backupOf(t, s, SinceOf(headOf(t, one)))
	other := mustOpen(t, filled(t))
	defer other.Close()
	foreign := backupOf(t, other, Since{Revision: 1})
	flipped := bytes.Clone(full)
	flipped[len(flipped)/2] ^= 4
	for _, test := range []struct {
		name    string
		backups [][]byte
		says    string
	}{
		{"an increment alone", [][]byte{one}, "give the full backup first"},
		{"a missing increment", [][]byte{full, two}, "an increment is missing between them"},
		{"increments out of order", [][]byte{full, one, two, one}, "give them in order"},
		{"two full ones", [][]byte{full, full}, "give one full backup"},
		{"another store's increment", [][]byte{full, foreign}, "of another store"},
		{"a flipped bit", [][]byte{flipped}, "does not match its checksum"},
		{"one that is cut off", [][]byte{full[:len(full)-20]}, "it is cut off"},
		{"one that goes on after its end", [][]byte{append(bytes.Clone(full), 'x')}, "something follows its end"},
		{"one whose last frame is missing", [][]byte{full[:len(full)-len(lastFrame(full))]}, "it is cut off"},
		{"none", nil, "there is none"},
		{"something else", [][]byte{[]byte("hello, world")}, "it is none of pawl's"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			_, err := restoreInto(t, dir, test.backups...)
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("restore: %v; want %q", err, test.says)
			}
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("something is left of it: %v", err)
			}
		})
	}
	for _, since := range []Since{{Epoch: "another", Revision: 1}, {Revision: 1 << 50}} {
		if _, err := s.Backup(t.Context(), io.Discard, since); err == nil || !strings.Contains(err.Error(), "make a full one") {
			t.Errorf("since %+v: %v", since, err)
		}
	}
}

// lastFrame is the end of a backup.
func lastFrame(backup []byte) []byte {
	at := bytes.LastIndex(backup, []byte(`{"items"`))
	return backup[at-backupFrameHeader:]
}

func TestARestoreOverwritesNothing(t *testing.T) {
	opts := filled(t)
	s := mustOpen(t, opts)
	backup := backupOf(t, s, Since{})
	mustClose(t, s)
	before := sums(t, opts.Dir)
	if _, err := restoreInto(t, opts.Dir, backup); err == nil || !strings.Contains(err.Error(), "nothing is overwritten") {
		t.Errorf("restore over a store: %v", err)
	}
	if sums(t, opts.Dir) != before {
		t.Error("the store was changed")
	}
}

// A restore that was killed leaves no store that opens.
func TestAnUnfinishedRestoreIsNoStore(t *testing.T) {
	s := mustOpen(t, filled(t))
	backup := backupOf(t, s, Since{})
	mustClose(t, s)
	var killed string
	dir := filepath.Join(t.TempDir(), "store")
	slow := &stopper{from: bytes.NewReader(backup), at: 3, stop: func() {
		killed = copyDir(t, dir)
		copyOne(t, filepath.Join(dir, unfinishedName), filepath.Join(killed, unfinishedName))
	}}
	if _, err := Restore(t.Context(), RestoreOptions{Dir: dir}, slow); err != nil {
		t.Fatal(err)
	}
	for _, acceptLoss := range []bool{false, true} {
		opts := testOptions(t, killed)
		opts.AcceptLoss = acceptLoss
		if _, err := Open(opts); err == nil || !strings.Contains(err.Error(), "did not come to its end") {
			t.Errorf("open: %v", err)
		}
	}
	if _, err := Check(t.Context(), killed, nil, nil); err == nil {
		t.Error("check finds nothing wrong")
	}
	mustClose(t, mustOpen(t, testOptions(t, dir)))
}

// stopper calls stop before its read number at.
type stopper struct {
	from io.Reader
	at   int
	stop func()
}

func (s *stopper) Read(b []byte) (int, error) {
	if s.at--; s.at == 0 {
		s.stop()
	}
	return s.from.Read(b[:min(len(b), 4096)])
}
