// Command outbox measures the durable outbox: puts beside a raw log, memory and
// disk with many resources, and disk under overwrites.
//
//	go run ./outbox puts      ratio to an append-and-fdatasync log, per number of callers
//	go run ./outbox load      peak anonymous memory with -n resources, put, then acknowledged, then listed
//	go run ./outbox cycles    disk after -n puts and acks over -keys keys
//	go run ./outbox all
//
// Only ratios and sizes mean something: they hold on a machine that others use
// too. It exits with status 1 where a target is missed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/badger"
	"github.com/pawlsync/pawl/engine/record"
)

var (
	dir      = flag.String("dir", os.TempDir(), "where to make the stores")
	number   = flag.Int("n", 1_000_000, "resources of load, cycles of cycles")
	keys     = flag.Int("keys", 1000, "keys of cycles")
	duration = flag.Duration("duration", 3*time.Second, "of each run of puts")
	callers  = flag.Int("callers", 256, "callers of load and cycles")
	profile  = flag.String("cpuprofile", "", "file for a CPU profile")
)

// payloadBytes is the size of a payload.
const payloadBytes = 1 << 10

func main() {
	flag.Parse()
	if err := profiled(func() error { return run(flag.Arg(0)) }); err != nil {
		fmt.Fprintln(os.Stderr, "outbox:", err)
		os.Exit(1)
	}
}

func profiled(fn func() error) error {
	if *profile == "" {
		return fn()
	}
	f, err := os.Create(*profile)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return fn()
}

func run(what string) error {
	switch what {
	case "puts":
		return puts()
	case "load":
		return load()
	case "cycles":
		return cycles()
	case "all":
		return errors.Join(puts(), load(), cycles())
	}
	return fmt.Errorf("unknown %q: name puts, load, cycles or all", what)
}

// inStore runs fn on a fresh store and removes it.
func inStore(fn func(*badger.Store, string) error) error {
	path, err := os.MkdirTemp(*dir, "pawl-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(path)
	s, err := badger.Open(badger.Options{Dir: path, ReserveBytes: -1})
	if err != nil {
		return err
	}
	return errors.Join(fn(s, path), s.Close())
}

func put(s *badger.Store, key record.Key, payload []byte) outbox.Ticket {
	return s.Update(key, func(outbox.Record) (outbox.Change, error) {
		now := time.Now()
		return outbox.Change{NewGeneration: true, Desired: &record.Desired{
			Payload: payload, Owner: "bench", PutAt: now, WaitingSince: now,
		}}, nil
	})
}

// ack writes the status that an acknowledged resource has.
func ack(s *badger.Store, key record.Key) outbox.Ticket {
	return s.Update(key, func(cur outbox.Record) (outbox.Change, error) {
		now := time.Now()
		generation := cur.Desired.Generation
		return outbox.Change{Status: &record.Status{
			Generation: generation, Phase: record.AckedPhase, LookedAt: now, UpdatedAt: now,
			Acked: &record.Acked{Generation: generation, Hash: record.HashOf([]byte(key.Name)), Ref: "/objects/" + key.Name, Target: "target", At: now},
			Conditions: []record.Condition{
				{Type: record.CondAcked, Status: record.True, LastTransitionTime: now, ObservedGeneration: generation},
			},
			History: []record.Transition{
				{At: now, Phase: record.Pending, Generation: generation},
				{At: now, Phase: record.AckedPhase, Generation: generation, Took: time.Millisecond},
			},
		}}, nil
	})
}

// spread runs fn for 0 to n-1 in a number of goroutines, and returns the first
// error.
func spread(goroutines, n int, fn func(i int) error) error {
	var wg sync.WaitGroup
	errs := make(chan error, goroutines)
	for g := range goroutines {
		wg.Go(func() {
			for i := g; i < n; i += goroutines {
				if err := fn(i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

func wait(t outbox.Ticket) error { return t.Wait(context.Background()) }
