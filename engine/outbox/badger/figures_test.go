package badger

import (
	"testing"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

func TestFiguresCountWhatIsThere(t *testing.T) {
	key := testKey(t, 1)
	opts := testOptions(t, t.TempDir())
	opts.Key = key
	s := mustOpen(t, opts)
	defer s.Close()
	change := func(sink, name string, c outbox.Change) {
		t.Helper()
		err := s.Update(record.Key{Sink: sink, Name: name}, func(outbox.Record) (outbox.Change, error) { return c, nil }).Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		change("web", name, outbox.Change{Desired: &record.Desired{Payload: content(60)}, NewGeneration: true})
	}
	change("web", "c", outbox.Change{Desired: &record.Desired{Tombstone: true}, Status: &record.Status{Attempts: 1}, NewGeneration: true})
	change("app", "x", outbox.Change{Desired: &record.Desired{Gone: true}, NewGeneration: true})
	change("app", "y", outbox.Change{Status: &record.Status{Attempts: 1}})
	f, err := s.Figures(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f.Resources() != 3 || f.Tombstones != 1 || f.Statuses != 2 || f.Key != key.String() || f.Format != formatNumber || !f.Restored.IsZero() {
		t.Errorf("%+v", f)
	}
	if len(f.Sinks) != 2 || f.Sinks[0].Name != "app" || f.Sinks[1].Resources != 3 || f.Sinks[1].Bytes < 2*int64(len(content(60))) {
		t.Errorf("sinks: %+v", f.Sinks)
	}
	if f.ValueLog == 0 || f.Logs == 0 || f.Journal == 0 {
		t.Errorf("on disk: %+v", f)
	}
}
