package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/badger"
)

// cycles puts and acknowledges n times over a few keys. The disk must not grow
// with n, and what is left after compaction must be in proportion to what is
// alive.
func cycles() error {
	return inStore(func(s *badger.Store, path string) error {
		start, peak := time.Now(), int64(0)
		const steps = 10
		for step := range steps {
			err := spread(*callers, *number/steps, func(i int) error {
				key := name(i % *keys)
				if err := wait(put(s, key, randomPayload(rand.New(rand.NewPCG(uint64(i), uint64(step)))))); err != nil {
					return err
				}
				return wait(ack(s, key))
			})
			if err != nil {
				return err
			}
			peak = max(peak, diskBytes(path))
		}
		took := time.Since(start)
		ctx := context.Background()
		if err := s.Compact(ctx); err != nil {
			return err
		}
		live, err := liveBytes(ctx, s)
		if err != nil {
			return err
		}
		disk, stats := diskBytes(path), s.Stats()
		ratio := float64(disk) / float64(live)
		fmt.Printf("cycles %d over %d keys: %.0f/s, disk at most %d MiB, after compaction %.1f MiB, live %.1f MiB: ratio %.1f (target 4), %.3f records written per update\n",
			*number, *keys, float64(*number)/took.Seconds(), peak>>20, float64(disk)/(1<<20), float64(live)/(1<<20), ratio,
			float64(stats.Records)/float64(stats.Changes))
		if ratio > 4 {
			return fmt.Errorf("cycles: the disk holds %.1f times what is alive", ratio)
		}
		return nil
	})
}

// liveBytes is what the resources themselves take.
func liveBytes(ctx context.Context, s *badger.Store) (live int64, err error) {
	err = s.Heads(ctx, outbox.Span{}, func(h outbox.Head) bool {
		rec, getErr := s.Get(h.Key)
		if getErr != nil {
			err = getErr
			return false
		}
		live += int64(len(h.Key.Name) + len(rec.Desired.Payload) + 300)
		return true
	})
	return live, err
}
