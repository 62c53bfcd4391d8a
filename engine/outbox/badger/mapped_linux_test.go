package badger

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawlsync/pawl/internal/bubble"
)

func TestAStoreRestsOnceAfterAnIntervalWithoutUse(t *testing.T) {
	var r rest
	for i, look := range []struct {
		uses uint64
		want bool
	}{{3, false}, {3, true}, {3, false}, {3, false}, {4, false}, {6, false}, {6, true}, {6, false}} {
		if got := r.due(look.uses); got != look.want {
			t.Errorf("look %d: due is %v, want %v", i, got, look.want)
		}
	}
}

// mappedBytes is how much of the mapped files below dir is in memory.
func mappedBytes(t *testing.T, dir string) (n int64) {
	t.Helper()
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	ours := false
	for line := range strings.Lines(string(smaps)) {
		if rss, ok := strings.CutPrefix(line, "Rss:"); ok && ours {
			kb, err := strconv.ParseInt(strings.Fields(rss)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			n += kb << 10
		} else if address, _, _ := strings.Cut(line, " "); !strings.HasSuffix(address, ":") { // a mapping begins
			_, _, ours = mappingBelow(dir, line)
		}
	}
	return n
}

func TestAStoreThatRestsGivesItsMappedFilesBackAndLosesNothing(t *testing.T) { bubble.Test(t, rests) }

func rests(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link") // as a folder for data often is
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	opts := testOptions(t, link)
	var fs unix.Statfs_t
	if err := unix.Statfs(opts.Dir, &fs); err != nil || fs.Type == unix.TMPFS_MAGIC {
		t.Skip("on a file system in memory there is nothing to give back")
	}
	s := mustOpen(t, opts)
	defer s.Close()
	const keys = 3000
	for i := range keys {
		putMarker(s, i)
	}
	if err := putMarker(s, keys).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.apply(); err != nil {
		t.Fatal(err)
	}
	read := func() {
		t.Helper()
		for i := range keys {
			if rec, err := s.Get(keyOf(i)); err != nil || len(rec.Desired.Payload) != 3500 {
				t.Fatalf("key %d: %d bytes, %v", i, len(rec.Desired.Payload), err)
			}
		}
	}
	read()
	dir, err := filepath.EvalSymlinks(s.dataDir())
	if err != nil {
		t.Fatal(err)
	}
	before := mappedBytes(t, dir)
	if before < keys*3500 {
		t.Fatalf("%d bytes are mapped of a store of %d: this shows nothing", before, keys*3500)
	}
	time.Sleep(2*restAfter + time.Second) // of the bubble's clock
	synctest.Wait()
	if after := mappedBytes(t, dir); after > before/10 {
		t.Errorf("of %d mapped bytes %d are in memory still", before, after)
	}
	read()
}

// A use is what reads or writes, and being asked for figures is none.
func TestWhatCountsAsUseOfAStore(t *testing.T) {
	s := mustOpen(t, testOptions(t, t.TempDir()))
	defer s.Close()
	if err := putMarker(s, 1).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.apply(); err != nil {
		t.Fatal(err)
	}
	before := s.uses.Load()
	s.Stats()
	if s.uses.Load() != before {
		t.Error("a scrape of the metrics keeps the store from resting")
	}
	if _, err := s.Get(keyOf(1)); err != nil || s.uses.Load() == before {
		t.Errorf("a read does not count: %v", err)
	}
}
