package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/badger"
	"github.com/pawlsync/pawl/engine/record"
)

func name(i int) record.Key {
	// Spread over the key space, as hashes or namespaces do.
	return record.Key{Sink: "bench", Name: fmt.Sprintf("ns-%d/object-%08x", i%50, uint32(i)*2654435761)}
}

// load puts n resources, acknowledges them all, opens the store again and goes
// through its heads.
func load() error {
	path, err := os.MkdirTemp(*dir, "pawl-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(path)
	// The part of the target that the store may have; the rest is the engine's.
	limit := int64(512 << 20)
	if *number > 1_000_000 {
		limit = limit * int64(*number) / 1_000_000 * 13 / 25
	}
	watch := watchMemory()
	defer watch.stop()
	opts := badger.Options{Dir: path, ReserveBytes: -1}
	s, err := badger.Open(opts)
	if err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		do   func(i int, r *rand.Rand) error
	}{
		{"put", func(i int, r *rand.Rand) error { return wait(put(s, name(i), randomPayload(r))) }},
		{"ack", func(i int, _ *rand.Rand) error { return wait(ack(s, name(i))) }},
	} {
		start := time.Now()
		err := spread(*callers, *number, func(i int) error {
			return step.do(i, rand.New(rand.NewPCG(uint64(i), 7)))
		})
		if err != nil {
			return errors.Join(err, s.Close())
		}
		took := time.Since(start)
		fmt.Printf("load  %d resources, %s: %8.0f/s  peak anonymous %4d MiB  disk %5d MiB\n",
			*number, step.name, float64(*number)/took.Seconds(), watch.peak.Load()>>20, diskBytes(path)>>20)
	}
	if err := s.Close(); err != nil {
		return err
	}
	if err := list(opts); err != nil {
		return err
	}
	peak := watch.peak.Load()
	fmt.Printf("load  %d resources: peak anonymous %d MiB (the store's share: %d MiB)\n", *number, peak>>20, limit>>20)
	if peak > limit {
		return fmt.Errorf("load: %d MiB are above %d MiB", peak>>20, limit>>20)
	}
	return nil
}

func list(opts badger.Options) error {
	start := time.Now()
	s, err := badger.Open(opts)
	if err != nil {
		return err
	}
	opened, n := time.Since(start), 0
	err = s.Heads(context.Background(), outbox.Span{}, func(outbox.Head) bool { n++; return true })
	took := time.Since(start) - opened
	fmt.Printf("load  open %v, %d heads in %v, %.2f µs each\n",
		opened.Round(time.Millisecond), n, took.Round(time.Millisecond), float64(took.Microseconds())/float64(max(n, 1)))
	return errors.Join(err, s.Close())
}

// memory watches the anonymous memory of this process.
type memory struct {
	peak atomic.Int64
	done chan struct{}
	wg   sync.WaitGroup
}

func watchMemory() *memory {
	debug.FreeOSMemory()
	m := &memory{done: make(chan struct{})}
	m.wg.Go(func() {
		for {
			m.peak.Store(max(m.peak.Load(), anonymous()))
			select {
			case <-time.After(20 * time.Millisecond):
			case <-m.done:
				return
			}
		}
	})
	return m
}

func (m *memory) stop() {
	close(m.done)
	m.wg.Wait()
}

func anonymous() int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), "RssAnon:")
	var kib int64
	fmt.Sscan(rest, &kib)
	return kib << 10
}

// diskBytes is what dir occupies; files are sparse.
func diskBytes(dir string) (total int64) {
	filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		var st syscall.Stat_t
		if err == nil && syscall.Lstat(path, &st) == nil {
			total += st.Blocks * 512
		}
		return nil
	})
	return total
}

func fdatasync(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
