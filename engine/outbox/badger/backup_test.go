package badger

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

// contents is all that a store holds.
func contents(t testing.TB, s *Store) map[record.Key]outbox.Record {
	t.Helper()
	all := map[record.Key]outbox.Record{}
	err := s.Heads(t.Context(), outbox.Span{}, func(h outbox.Head) bool {
		rec, err := s.Get(h.Key)
		if err != nil {
			t.Error(err)
		}
		all[h.Key] = rec
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func backupOf(t testing.TB, s *Store, since Since) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := s.Backup(t.Context(), &b, since); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func headOf(t testing.TB, backup []byte) BackupHead {
	t.Helper()
	head, err := ReadBackupHead(bytes.NewReader(backup))
	if err != nil {
		t.Fatal(err)
	}
	return head
}

// A backup holds one moment, whatever is written while it is made: of two keys that
// are put by turns, the second is never ahead.
func TestABackupIsOneMoment(t *testing.T) {
	s := mustOpen(t, testOptions(t, t.TempDir()))
	defer s.Close()
	first, second := keyOf(1), record.Key{Sink: "a", Name: "read before key 1"}
	var stop atomic.Bool
	var n atomic.Uint64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !stop.Load() {
			x := n.Add(1)
			for _, key := range []record.Key{first, second} {
				if err := putNumber(s, key, x).Wait(t.Context()); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	for range 5 {
		confirmed := n.Load()
		var backup bytes.Buffer
		slow := writerFunc(func(b []byte) (int, error) {
			for before := n.Load(); n.Load() < before+3; { // writes go on, and are handed over
				time.Sleep(time.Millisecond)
			}
			return backup.Write(b)
		})
		if _, err := s.Backup(t.Context(), slow, Since{}); err != nil {
			t.Fatal(err)
		}
		again := restored(t, backup.Bytes())
		all := contents(t, again)
		a, b := number(all[first].Desired.Payload), number(all[second].Desired.Payload)
		if b > a || a > b+1 || a+1 < confirmed {
			t.Errorf("the first key is at %d, the second at %d, and %d had been confirmed", a, b, confirmed)
		}
		mustClose(t, again)
	}
	stop.Store(true)
	<-ended
}

// What a backup reads stays there until it has ended, though it is overwritten and
// compacted meanwhile.
func TestACutOutlivesCompaction(t *testing.T) {
	s := mustOpen(t, filled(t))
	defer s.Close()
	c, err := s.cut()
	if err != nil {
		t.Fatal(err)
	}
	defer c.release()
	for i := range 20 {
		if err := putNumber(s, keyOf(i), uint64(i+500)).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.apply(), s.reopen(t.Context()), s.withDB(func(db *badger.DB) error { return db.Flatten(1) })); err != nil {
		t.Fatal(err)
	}
	found := 0
	err = s.withDB(func(db *badger.DB) error {
		return s.eachItem(t.Context(), db, c, Since{}, func(it *item) error {
			if it.key[0] != kindDesired {
				return nil
			}
			found++
			d, err := openDesired(it.key, it.value)
			if n := number(d.Payload); err != nil || n == 0 || n > 20 {
				t.Errorf("%s is at %d, %v", nameOf(it.key), n, err)
			}
			return nil
		})
	})
	if err != nil || found != 20 {
		t.Errorf("%d records are there, %v; want 20", found, err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// A full backup and its increments hold what the store held when the last one was
// made, removals included, also after compaction, and whether the increment knows
// Badger's version or a revision alone.
func TestIncrementsHoldWhatChanged(t *testing.T) {
	t.Logf("-seed %d", *seed)
	r := rand.New(rand.NewPCG(*seed, 3))
	s := mustOpen(t, testOptions(t, t.TempDir()))
	defer s.Close()
	change := func(n int) {
		for range n {
			var last outbox.Ticket
			switch key := keyOf(r.IntN(300)); r.IntN(4) {
			case 0:
				last = s.Update(key, func(outbox.Record) (outbox.Change, error) { return outbox.Change{Remove: true}, nil })
			case 1:
				last = s.Update(key, func(outbox.Record) (outbox.Change, error) {
					return outbox.Change{Status: &record.Status{Attempts: r.IntN(100)}}, nil
				})
			default:
				last = putNumber(s, key, r.Uint64N(1000))
			}
			if err := last.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	change(400)
	backups := [][]byte{backupOf(t, s, Since{})}
	for i := range 4 {
		change(60)
		if err := s.SetMeta("sink/a", fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			if err := s.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		since := SinceOf(headOf(t, backups[len(backups)-1]))
		if i%2 == 1 {
			since = Since{Revision: since.Revision}
		}
		backups = append(backups, backupOf(t, s, since))
		again := restored(t, backups...)
		if was, is := contents(t, s), contents(t, again); !reflect.DeepEqual(was, is) {
			t.Errorf("after increment %d: %d records became others: %v", i, len(was), differing(was, is))
		}
		if doc, err := again.Meta("sink/a"); err != nil || string(doc) != fmt.Sprint(i) {
			t.Errorf("the document is %q, %v", doc, err)
		}
		mustClose(t, again)
	}
	if full, increment := len(backups[0]), len(backups[4]); increment > full/2 {
		t.Errorf("an increment has %d bytes, a full backup %d", increment, full)
	}
}

func differing(a, b map[record.Key]outbox.Record) (keys []string) {
	all := maps.Clone(a)
	maps.Copy(all, b)
	for key := range all {
		if !reflect.DeepEqual(a[key], b[key]) {
			keys = append(keys, key.String())
		}
	}
	return keys
}

// When the newest backup ended is known, also to the next start; one that failed is none.
func TestTheNewestBackupIsNoted(t *testing.T) {
	opts := filled(t)
	s := mustOpen(t, opts)
	broken := writerFunc(func([]byte) (int, error) { return 0, errors.New("the pipe broke") })
	if _, err := s.Backup(t.Context(), broken, Since{}); err == nil || !s.Stats().BackedUpAt.IsZero() {
		t.Errorf("a failed backup: %v, noted at %s", err, s.Stats().BackedUpAt)
	}
	before := time.Now().Truncate(time.Second)
	backupOf(t, s, Since{})
	at := s.Stats().BackedUpAt
	if at.Before(before) {
		t.Errorf("noted at %s, before %s", at, before)
	}
	mustClose(t, s)
	s = mustOpen(t, opts)
	defer s.Close()
	if again := s.Stats().BackedUpAt; !again.Equal(at) {
		t.Errorf("after a restart it is %s, was %s", again, at)
	}
}

// A backup can't bring in what says how the store itself is kept.
func TestABackupHoldsNothingOfTheStoresOwn(t *testing.T) {
	for _, key := range []string{docFormat, docBatch + "x", docUser + backupMark, "", "x", "q\x00a\x00b"} {
		var b bytes.Buffer
		w, err := newBackupWriter(&b, BackupHead{Format: backupFormat, StoreFormat: formatNumber, Epoch: "e", Revision: 5, Made: time.Now()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		value := seal(nil, []byte(key), 1, func(b []byte) []byte { return append(b, "x"...) })
		if err := w.item(&item{key: []byte(key), value: value}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.finish(); err != nil {
			t.Fatal(err)
		}
		if _, err := restoreInto(t, filepath.Join(t.TempDir(), "store"), b.Bytes()); !errors.Is(err, ErrBackup) {
			t.Errorf("%q: %v", key, err)
		}
	}
}

// Whatever a file holds, reading it as a backup ends with an error or with all of it.
func FuzzVerifyBackup(f *testing.F) {
	s := mustOpen(f, filled(f))
	full := backupOf(f, s, Since{})
	f.Add(full)
	f.Add(backupOf(f, s, Since{Revision: 10}))
	f.Add(full[:len(full)/2])
	mustClose(f, s)
	f.Fuzz(func(t *testing.T, b []byte) {
		found, err := VerifyBackup(bytes.NewReader(b), nil, nil)
		if err == nil && found.End.Items < found.End.Records+found.End.Damaged {
			t.Errorf("%+v", found)
		}
		c, err := openChain([]io.Reader{bytes.NewReader(b)}, nil)
		if err == nil {
			_ = c.each(func(*item) error { return nil })
		}
	})
}

// One record that can't be read keeps no other from being backed up, and comes back
// as what it is.
func TestABackupTellsWhatItCouldNotRead(t *testing.T) {
	opts := filled(t)
	s := mustOpen(t, opts)
	if err := putMarker(s, 7).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	(&disk{t: t, dir: opts.Dir}).Damage(t, keyOf(7))
	s = mustOpen(t, opts)
	defer s.Close()
	backup := backupOf(t, s, Since{})
	found, err := VerifyBackup(bytes.NewReader(backup), nil, nil)
	if err != nil || found.End.Damaged != 1 || len(found.Damaged) != 1 || !strings.Contains(found.Damaged[0], "demo/key 7") {
		t.Errorf("%+v, %v; want key 7 named", found, err)
	}
	dir := filepath.Join(t.TempDir(), "store")
	done, err := restoreInto(t, dir, backup)
	if err != nil || len(done.Damaged) != 1 || done.Records != 20 {
		t.Errorf("restored %+v, %v", done, err)
	}
	again := mustOpen(t, testOptions(t, dir))
	defer again.Close()
	if _, err := again.Get(keyOf(7)); !errors.Is(err, outbox.ErrDamaged) {
		t.Errorf("the damaged one reads: %v", err)
	}
	if n := len(listed(t, again, outbox.Span{})); n != 20 {
		t.Errorf("%d are listed", n)
	}
}
