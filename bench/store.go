package main

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox/badger"
	"github.com/pawlsync/pawl/engine/record"
)

const sinkName = "bench"

func key(n int) record.Key {
	return record.Key{Sink: sinkName, Name: fmt.Sprintf("apps/team-%03d/object-%08d", n%1000, n)}
}

// open opens an engine over a Badger store in dir with one sink.
func open(ctx context.Context, dir string, s engine.SinkOptions) (*engine.Engine, error) {
	return engine.Open(ctx, engine.Options{
		Store: badger.Opener(badger.Options{Dir: filepath.Join(dir, "store")}),
		Sinks: []engine.SinkOptions{s},
	})
}

func benchPut(r *report) error {
	during := 6 * time.Second
	if r.short {
		during = 2 * time.Second
	}
	want := map[int]float64{1: 0.75, 16: 0.5, 256: 0.25, 4096: 0.25}
	for i, callers := range []int{1, 16, 256, 4096} {
		raw, err := openRawLog(filepath.Join(r.dir, fmt.Sprint("raw-", i)))
		if err != nil {
			return err
		}
		eng, err := open(r.ctx, filepath.Join(r.dir, fmt.Sprint(i)), engine.SinkOptions{Name: sinkName, Sink: &null{}, Suspended: true})
		if err != nil {
			return err
		}
		put := func(n int) error {
			_, err := eng.Put(r.ctx, engine.Put{Key: key(n), Payload: payload(n)})
			return err
		}
		rawPut := func(n int) error { return raw.put([]byte(key(n).Name), payload(n)) }
		// Half of each before and after the other: the disk's mood changes.
		base := 0
		var ours, theirs float64
		for range 2 {
			a, _, err := load(callers, during/2, rawPut)
			if err != nil {
				return err
			}
			b, n, err := load(callers, during/2, func(n int) error { return put(base + n) })
			if err != nil {
				return err
			}
			base += n + callers
			theirs, ours = theirs+a/2, ours+b/2
		}
		if err := raw.close(); err != nil {
			return err
		}
		if err := eng.Close(r.ctx); err != nil {
			return err
		}
		r.line("%d callers: %.0f Puts/s, raw log %.0f/s", callers, ours, theirs)
		r.atLeast(fmt.Sprintf("durable Put ÷ raw log, %d callers", callers), ours/theirs, want[callers], " ×")
	}
	return nil
}

func benchHot(r *report) error {
	eng, err := open(r.ctx, r.dir, engine.SinkOptions{Name: sinkName, Sink: &null{}, Suspended: true})
	if err != nil {
		return err
	}
	defer eng.Close(r.ctx)
	n := 200_000
	if r.short {
		n = 50_000
	}
	before := eng.Stats().Store
	rate, err := times(1000, n, func(i int) error {
		_, err := eng.Put(r.ctx, engine.Put{Key: key(0), Payload: payload(i)})
		return err
	})
	if err != nil {
		return err
	}
	after := eng.Stats().Store
	r.line("%.0f Puts/s, %d transactions", rate, after.Commits-before.Commits)
	r.under("records written per Put, 1,000 callers on one key", float64(after.Records-before.Records)/float64(n), 0.01, "")
	return nil
}

func benchChurn(r *report) error {
	const keys = 1000
	cycles := 1_000_000
	if r.short {
		cycles = 100_000
	}
	dir := filepath.Join(r.dir, "engine")
	store, err := badger.Open(badger.Options{Dir: filepath.Join(dir, "probe")})
	if err != nil {
		return err
	}
	store.Close()
	eng, err := open(r.ctx, dir, engine.SinkOptions{Name: sinkName, Sink: &null{}, MaxInFlight: 1024})
	if err != nil {
		return err
	}
	round := func(base int) (time.Duration, error) {
		began := time.Now()
		var wg sync.WaitGroup
		errs := make(chan error, 64)
		for w := range 64 {
			wg.Go(func() {
				for i := w; i < keys; i += 64 {
					res, err := eng.Put(r.ctx, engine.Put{Key: key(i), Payload: payload(base + i)})
					if err == nil {
						_, err = eng.Wait(r.ctx, key(i), res.Generation)
					}
					if err != nil {
						errs <- err
						return
					}
				}
			})
		}
		wg.Wait()
		select {
		case err := <-errs:
			return 0, err
		default:
		}
		return time.Since(began), nil
	}
	var first, last []time.Duration
	for i := range cycles / keys {
		took, err := round(i * keys)
		if err != nil {
			return err
		}
		if i < cycles/keys/10 {
			first = append(first, took)
		}
		if i >= cycles/keys*9/10 {
			last = append(last, took)
		}
	}
	if err := eng.Close(r.ctx); err != nil {
		return err
	}
	s, err := badger.Open(badger.Options{Dir: filepath.Join(dir, "store")})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Compact(r.ctx); err != nil {
		return err
	}
	live := float64(keys * 1400) // payload, desired and status of each
	r.line("disk %d KiB after compaction, live data about %.0f KiB", s.Stats().DiskBytes>>10, live/1024)
	r.under("disk ÷ live data, after a million cycles and compaction", float64(s.Stats().DiskBytes)/live, 4, " ×")
	r.under("a cycle of all keys, last tenth ÷ first tenth", median(last)/median(first), 1.3, " ×")
	return nil
}
