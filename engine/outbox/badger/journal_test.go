package badger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pawlsync/pawl/engine/outbox/internal/queue"
	"github.com/pawlsync/pawl/engine/record"
)

func testJournal(t *testing.T) *journal {
	t.Helper()
	j, err := newJournal(t.TempDir(), nil, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.close() })
	return j
}

// group makes entries for revisions from to to.
func group(from, to uint64, payload int) (keys []record.Key, entries []*entry) {
	for n := from; n <= to; n++ {
		c := &queue.Change{Key: keyOf(int(n)), Revision: n, Desired: queue.Set}
		c.Record.Desired = record.Desired{Generation: n, Payload: make([]byte, payload), Tombstone: n%2 == 0}
		keys, entries = append(keys, c.Key), append(entries, newEntry(c))
	}
	return keys, entries
}

func appendGroup(t *testing.T, j *journal, from, to uint64) {
	t.Helper()
	if _, err := j.append(group(from, to, 10)); err != nil {
		t.Fatal(err)
	}
}

// revisions reads a journal back.
func revisions(t *testing.T, dir string, applied uint64) (list []uint64, r replayed) {
	t.Helper()
	r, err := replay(dir, nil, applied, func(f *frame) error {
		return f.entries(func(_ record.Key, e *entry) error {
			list = append(list, e.revision)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return list, r
}

func TestTheJournalComesBack(t *testing.T) {
	j := testJournal(t)
	appendGroup(t, j, 1, 3)
	if err := j.rotate(); err != nil {
		t.Fatal(err)
	}
	appendGroup(t, j, 4, 5)
	got, r := revisions(t, j.dir, 0)
	if !slices.Equal(got, []uint64{1, 2, 3, 4, 5}) || r.reached != 5 || r.claimed != 3 || len(r.problems) > 0 {
		t.Errorf("got %v, %+v", got, r)
	}
	if err := j.cut(4, false); err != nil {
		t.Fatal(err)
	}
	if got, _ := revisions(t, j.dir, 4); !slices.Equal(got, []uint64{4, 5}) {
		t.Errorf("after a cut: %v", got)
	}
	if err := j.cut(5, true); err != nil {
		t.Fatal(err)
	}
	got, r = revisions(t, j.dir, 5)
	if len(got) > 0 || r.reached != 5 || r.claimed != 5 {
		t.Errorf("after all was cut: %v, %+v", got, r)
	}
}

func TestEveryFieldOfAFrameComesBack(t *testing.T) {
	j := testJournal(t)
	keys, entries := group(1, 2, 100)
	entries[0].status, entries[0].statusVal = queue.Set, []byte("status")
	entries[1].desired, entries[1].desiredVal, entries[1].status = queue.Drop, nil, queue.Drop
	if _, err := j.append(keys, entries); err != nil {
		t.Fatal(err)
	}
	i := 0
	_, err := replay(j.dir, nil, 0, func(f *frame) error {
		return f.entries(func(key record.Key, e *entry) error {
			w := entries[i]
			if key != keys[i] || e.revision != w.revision || e.desired != w.desired || e.status != w.status ||
				string(e.desiredVal) != string(w.desiredVal) || string(e.statusVal) != string(w.statusVal) ||
				e.flags != w.flags || e.desired == queue.Set && e.generation != w.generation {
				t.Errorf("entry %d: %+v, want %+v", i, e, w)
			}
			i++
			return nil
		})
	})
	if err != nil || i != 2 {
		t.Errorf("%d entries, %v", i, err)
	}
}

// A large group goes into several frames. None of them says of another that it
// was durable: a power cut may keep the later one alone.
func TestALargeGroupIsOneGroupStill(t *testing.T) {
	j := testJournal(t)
	if _, err := j.append(group(1, 20, 512<<10)); err != nil {
		t.Fatal(err)
	}
	got, r := revisions(t, j.dir, 0)
	if len(got) != 20 || r.frames < 2 || r.reached != 20 || r.claimed != 0 {
		t.Errorf("%d revisions in %d frames, reached %d, claimed %d", len(got), r.frames, r.reached, r.claimed)
	}
}

func TestAFailedSyncIsFinal(t *testing.T) {
	j := testJournal(t)
	appendGroup(t, j, 1, 1)
	fault := errors.New("input/output error")
	j.sync = func(*os.File) error { return fault }
	if _, err := j.append(group(2, 2, 10)); !errors.Is(err, errBroken) || !errors.Is(err, fault) {
		t.Errorf("append = %v, want errBroken and its cause", err)
	}
	j.sync = fdatasync
	if _, err := j.append(group(3, 3, 10)); !errors.Is(err, errBroken) {
		t.Errorf("append = %v after a failed fsync, want errBroken", err)
	}
}

// P1 rests on it: nobody is told before the journal is on disk.
func TestAPutWaitsForItsFsync(t *testing.T) {
	s := mustOpen(t, testOptions(t, t.TempDir()))
	defer s.Close()
	entered, goOn := make(chan bool), make(chan bool)
	s.journal.sync = func(f *os.File) error {
		close(entered)
		<-goOn
		return fdatasync(f)
	}
	ticket := putNumber(s, keyOf(1), 1)
	<-entered
	s.journal.sync = fdatasync
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ticket.Wait(canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("wait = %v while fdatasync is under way", err)
	}
	if rec, err := s.Get(keyOf(1)); err != nil || rec.Desired.Generation != 0 {
		t.Errorf("get = %+v, %v while fdatasync is under way", rec, err)
	}
	if got := s.mark.committed.revision; got != 0 {
		t.Errorf("the mark is at %d while fdatasync is under way: a power cut now would look like a loss", got)
	}
	close(goOn)
	if err := ticket.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAFailedWriteLeavesNoTrace(t *testing.T) {
	j := testJournal(t)
	appendGroup(t, j, 1, 1)
	keys, entries := group(2, 3, 10)
	start, prev := j.size, j.prev
	if err := j.write(keys, entries); err != nil {
		t.Fatal(err)
	}
	cause := errors.New("no space")
	if err := j.undo(start, prev, cause); err != cause {
		t.Fatalf("undo = %v", err)
	}
	appendGroup(t, j, 4, 4)
	if got, r := revisions(t, j.dir, 0); !slices.Equal(got, []uint64{1, 4}) || r.reached != 4 || len(r.problems) > 0 {
		t.Errorf("got %v, %+v", got, r)
	}
}

// Damage before what a later frame knows to be durable is a loss; a torn end
// is none.
func TestReplayTellsLossFromATornEnd(t *testing.T) {
	build := func(t *testing.T) (dir, path string, ends []int64) {
		j := testJournal(t)
		for n := uint64(1); n <= 4; n++ {
			appendGroup(t, j, n, n)
			ends = append(ends, j.size)
		}
		return j.dir, j.file.Name(), ends
	}
	for _, test := range []struct {
		name    string
		harm    func(t *testing.T, path string, ends []int64)
		want    []uint64
		reached uint64
		lost    bool
	}{
		{"nothing", func(*testing.T, string, []int64) {}, []uint64{1, 2, 3, 4}, 4, false},
		{"a flipped bit in the middle", func(t *testing.T, path string, ends []int64) { flip(t, path, ends[1]+50) }, []uint64{1, 2, 4}, 2, true},
		{"a flipped bit at the end", func(t *testing.T, path string, ends []int64) { flip(t, path, ends[3]-1) }, []uint64{1, 2, 3}, 3, false},
		{"a cut within the last frame", func(t *testing.T, path string, ends []int64) { cutFile(t, path, ends[3]-5) }, []uint64{1, 2, 3}, 3, false},
		{"a damaged header", func(t *testing.T, path string, _ []int64) { flip(t, path, 9) }, []uint64{1, 2, 3, 4}, 4, false},
		{"a damaged header, and the frame behind it", func(t *testing.T, path string, ends []int64) {
			flip(t, path, 9)
			flip(t, path, ends[0]-1)
		}, nil, 0, false}, // of a store, the mark knows better
	} {
		t.Run(test.name, func(t *testing.T) {
			dir, path, ends := build(t)
			test.harm(t, path, ends)
			got, r := revisions(t, dir, 0)
			if !slices.Equal(got, test.want) || r.reached != test.reached || (r.claimed > r.reached) != test.lost {
				t.Errorf("got %v, reached %d, claimed %d", got, r.reached, r.claimed)
			}
		})
	}
}

// A payload stands in its frame as it came. One that holds a frame, of a group
// that was cut off, is no frame.
func TestAPayloadIsNoFrame(t *testing.T) {
	forged, header := group(1<<40, 1<<40, 10)
	b := header[0].appendTo(make([]byte, frameHeader), forged[0])
	inner := frame{last: 1 << 40, count: 1}
	inner.finish(b, nonce{}, nil) // whoever puts it does not know the segment's
	for name, cut := range map[string]int64{"the end is cut off": 4096, "whole": 0} {
		t.Run(name, func(t *testing.T) {
			j := testJournal(t)
			appendGroup(t, j, 1, 1)
			keys, entries := group(2, 2, 0)
			c := &queue.Change{Key: keys[0], Revision: 2, Desired: queue.Set}
			c.Record.Desired = record.Desired{Generation: 2, Payload: append(b, make([]byte, 20000)...)}
			entries[0] = newEntry(c)
			if _, err := j.append(keys, entries); err != nil {
				t.Fatal(err)
			}
			cutFile(t, j.file.Name(), j.size-cut)
			want := []uint64{1, 2}
			if cut > 0 {
				want = want[:1]
			}
			if got, r := revisions(t, j.dir, 0); !slices.Equal(got, want) || r.newest != want[len(want)-1] {
				t.Errorf("got %v, want %v; newest %d", got, want, r.newest)
			}
		})
	}
}

func cutFile(t testing.TB, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

func TestTheMarkSurvivesATornWrite(t *testing.T) {
	dir := t.TempDir()
	m, err := createMark(dir, 5, 3)
	if err != nil {
		t.Fatal(err)
	}
	for n := uint64(10); n < 15; n++ {
		if err := errors.Join(m.claim(n+100), m.commit(n)); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), markName)
		if err := copyFile(m.file.Name(), path); err != nil {
			t.Fatal(err)
		}
		for slot, want := range map[int64]string{
			m.claimed.first + int64((m.claimed.counter-1)%2):     fmt.Sprint(max(n+99, 5), n),
			m.committed.first + int64((m.committed.counter-1)%2): fmt.Sprint(n+100, max(n-1, 3)),
		} {
			if n == 10 { // the values before are those of createMark
				continue
			}
			torn := t.TempDir()
			if err := copyFile(path, filepath.Join(torn, markName)); err != nil {
				t.Fatal(err)
			}
			flip(t, filepath.Join(torn, markName), slot*slotBytes+17)
			got, err := openMark(torn)
			if err != nil {
				t.Fatal(err)
			}
			if s := fmt.Sprint(got.claimed.revision, got.committed.revision); s != want {
				t.Errorf("slot %d torn: %s, want %s", slot, s, want)
			}
			got.file.Close()
		}
	}
	m.file.Close()
}

func FuzzReplay(f *testing.F) {
	keys, entries := group(1, 3, 20)
	b := append(make([]byte, frameHeader), entries[0].appendTo(nil, keys[0])...)
	fr := frame{last: 1, count: 1}
	fr.finish(b, nonce{1}, nil)
	f.Add(append(make([]byte, segmentHeader), b...)) // its header is damaged
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "00000001.log"), b, 0o600); err != nil {
			t.Fatal(err)
		}
		// Whatever the bytes: no panic, and an error at most.
		replay(dir, nil, 0, func(f *frame) error {
			return f.entries(func(record.Key, *entry) error { return nil })
		})
	})
}
