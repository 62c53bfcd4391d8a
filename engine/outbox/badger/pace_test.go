package badger

import (
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
)

func TestALongReadRestsWhileSomebodyWrites(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	var p pace
	for _, look := range []struct {
		name    string
		now     int // ms
		commits uint64
		want    time.Duration
	}{
		{"the first look begins", 0, 7, 0},
		{"too little was done", 1, 9, 0},
		{"three times as long as it worked", 2, 9, 6 * time.Millisecond},
		{"still, though the last portion saw no commit", 4, 9, 6 * time.Millisecond},
		{"no longer than the bound", 104, 9, maxPaceRest},
		{"a second without a commit is a store that nobody uses", 1002, 9, 0},
		{"until somebody writes again", 1005, 10, 9 * time.Millisecond},
	} {
		t.Run(look.name, func(t *testing.T) {
			if got := p.due(at(look.now), look.commits); got != look.want {
				t.Fatalf("it rests for %s, want %s", got, look.want)
			} else if got > 0 {
				p.rested(at(look.now))
			}
		})
	}
}

// Backup and Export rest beside a writer, and take no rest where nobody writes.
func TestBackupAndExportYieldToWriters(t *testing.T) {
	for _, read := range []struct {
		name string
		of   func(*Store, io.Writer) error
	}{
		{"backup", func(s *Store, w io.Writer) error { _, err := s.Backup(t.Context(), w, Since{}); return err }},
		{"export", func(s *Store, w io.Writer) error { _, err := s.Export(t.Context(), w, ExportOptions{}); return err }},
	} {
		t.Run(read.name, func(t *testing.T) {
			var rests atomic.Int64
			opts := testOptions(t, t.TempDir())
			opts.hooks.rest = func(time.Duration) { rests.Add(1) }
			s := mustOpen(t, opts)
			defer s.Close()
			for i := range 4 * paceItems {
				putNumber(s, keyOf(i), uint64(i))
			}
			if err := putNumber(s, keyOf(0), 1).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := read.of(s, slowWriter(nil)); err != nil || rests.Load() > 0 {
				t.Errorf("beside nobody: %d rests, %v", rests.Load(), err)
			}
			other := record.Key{Sink: "a", Name: "written meanwhile"}
			var n uint64
			beside := slowWriter(func() error { n++; return putNumber(s, other, n).Wait(t.Context()) })
			if err := read.of(s, beside); err != nil || rests.Load() == 0 {
				t.Errorf("beside a writer: %d rests, %v", rests.Load(), err)
			}
		})
	}
}

// slowWriter takes longer for each Write than a portion at least takes, and calls
// meanwhile.
type slowWriter func() error

func (w slowWriter) Write(b []byte) (int, error) {
	for began := time.Now(); time.Since(began) < paceWork; {
	}
	if w == nil {
		return len(b), nil
	}
	return len(b), w()
}
