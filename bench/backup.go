package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/badger"
	"github.com/pawlsync/pawl/internal/wholefile"
)

// benchBackup puts at a steady rate, by turns without and with a backup under way.
func benchBackup(r *report) error {
	const perSecond = 5000
	resources, rounds := 1_000_000, 3
	if r.short {
		resources, rounds = 100_000, 2
	}
	var store *badger.Store
	eng, err := engine.Open(r.ctx, engine.Options{
		Store: func(o outbox.Observer) (outbox.Store, error) {
			s, err := badger.Open(badger.Options{Dir: filepath.Join(r.dir, "store"), Observer: o})
			store = s
			return s, err
		},
		Sinks: []engine.SinkOptions{{Name: sinkName, Sink: &null{}, Suspended: true}},
	})
	if err != nil {
		return err
	}
	defer eng.Close(r.ctx)
	put := func(n int) error {
		_, err := eng.Put(r.ctx, engine.Put{Key: key(n % resources), Payload: payload(n)})
		return err
	}
	if _, err := times(1024, resources, put); err != nil {
		return err
	}
	var n atomic.Int64
	n.Store(int64(resources))
	next := func() error { return put(int(n.Add(1))) }
	var without, with sample
	for range rounds {
		var took time.Duration
		during, err := steadily(r.ctx, perSecond, next, func() error {
			began := time.Now()
			err := backUp(r, store)
			took = time.Since(began)
			return err
		})
		if err != nil {
			return err
		}
		before, err := steadily(r.ctx, perSecond, next, func() error {
			time.Sleep(took)
			return nil
		})
		if err != nil {
			return err
		}
		r.line("a backup of %d resources took %s; Put p50 %s and p99 %s meanwhile, %s and %s without", resources, took.Round(time.Millisecond),
			quantile(during, 0.5), quantile(during, 0.99), quantile(before, 0.5), quantile(before, 0.99))
		with, without = append(with, quantile(during, 0.99).Seconds()), append(without, quantile(before, 0.99).Seconds())
	}
	ratio := with.over(without)
	r.line("Put p99 with a backup ÷ without, by rounds: %s", ratio)
	r.under(fmt.Sprintf("Put p99 during a backup ÷ without, %d Puts/s", perSecond), ratio.median(), 3, " ×")
	return nil
}

// backUp does what `pawl store backup` does: it checks what it writes.
func backUp(r *report, s *badger.Store) error {
	from, to := io.Pipe()
	go func() {
		_, err := s.Backup(r.ctx, to, badger.Since{})
		to.CloseWithError(err)
	}()
	defer from.Close()
	f, err := wholefile.Create(filepath.Join(r.dir, "backup-"+rand.Text()))
	if err != nil {
		return err
	}
	b, err := badger.VerifyBackup(io.TeeReader(from, f), nil, nil)
	if err == nil && b.End.Damaged > 0 {
		err = fmt.Errorf("%d records are damaged", b.End.Damaged)
	}
	return f.Finish(err)
}

// steadily calls do so many times a second while meanwhile runs, and returns how long
// each took from the moment at which it was due: one that has to wait for others pays
// for it.
func steadily(ctx context.Context, perSecond int, do, meanwhile func() error) ([]time.Duration, error) {
	ended := make(chan error, 1)
	go func() { ended <- meanwhile() }()
	var mu sync.Mutex
	var all []time.Duration
	var failed error
	var wg sync.WaitGroup
	began := time.Now()
	for i := 0; ; i++ {
		due := began.Add(time.Duration(i) * time.Second / time.Duration(perSecond))
		if wait := time.Until(due); wait > time.Millisecond {
			time.Sleep(wait)
		}
		select {
		case err := <-ended:
			wg.Wait()
			return all, cmp.Or(err, failed, ctx.Err())
		default:
		}
		wg.Go(func() {
			err := do()
			took := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			all, failed = append(all, took), cmp.Or(failed, err)
		})
	}
}

func quantile(all []time.Duration, q float64) time.Duration {
	slices.Sort(all)
	return all[int(q*float64(len(all)-1))].Round(10 * time.Microsecond)
}
