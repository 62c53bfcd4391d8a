package dir

import (
	"context"
	"iter"
	"runtime"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Files are read ahead of those that are told: so many bytes of them, and so many batches.
const (
	aheadBytes   = 16 << 20
	aheadBatches = 32
)

// A batch is read by one worker, which waking takes more than reading a file. One of large
// files has one.
const (
	batchFiles = 16
	batchBytes = 64 << 10
)

// batch is a run of files.
type batch struct {
	paths  []string
	errs   []error // of their checks
	weight int64   // bytes that it may take of aheadBytes
	done   chan []reading
}

// readAhead reads files, on all processors, and returns what came of them in their
// order. It ends early when ctx does.
func (f *full) readAhead(ctx context.Context, todo []string) iter.Seq[reading] {
	return func(yield func(reading) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var workers sync.WaitGroup
		defer workers.Wait() // they read what the caller is about to change
		defer cancel()
		jobs, order, room := make(chan *batch), make(chan *batch, aheadBatches), semaphore.NewWeighted(aheadBytes)
		workers.Go(func() { f.dispatch(ctx, todo, room, jobs, order) })
		for range max(2, runtime.GOMAXPROCS(0)) {
			workers.Go(func() {
				l := loader{Source: f.Source}
				for b := range jobs {
					b.done <- f.readBatch(&l, b)
				}
			})
		}
		for b := range order {
			readings := <-b.done
			room.Release(b.weight)
			for _, r := range readings {
				if ctx.Err() != nil || !yield(r) {
					return
				}
			}
		}
	}
}

// dispatch hands out batches as there is room for them, and tells their order. All that
// are in order were handed out.
func (f *full) dispatch(ctx context.Context, todo []string, room *semaphore.Weighted, jobs, order chan<- *batch) {
	defer close(order)
	defer close(jobs)
	for len(todo) > 0 {
		b := f.nextBatch(todo)
		todo = todo[len(b.paths):]
		if room.Acquire(ctx, b.weight) != nil {
			return
		}
		for _, to := range []chan<- *batch{jobs, order} {
			select {
			case to <- b:
			case <-ctx.Done():
				return
			}
		}
	}
}

// nextBatch takes files from the front of todo, and checks them.
func (f *full) nextBatch(todo []string) *batch {
	b := &batch{done: make(chan []reading, 1)}
	for _, p := range todo[:min(len(todo), batchFiles)] {
		size, err := f.check(p)
		b.errs = append(b.errs, err)
		if b.weight += 1 + size; b.weight >= batchBytes {
			break
		}
	}
	b.paths, b.weight = todo[:len(b.errs)], min(b.weight, aheadBytes)
	return b
}

func (f *full) readBatch(l *loader, b *batch) []reading {
	readings := make([]reading, len(b.paths))
	for i, p := range b.paths {
		readings[i] = l.look(f.list, p, b.errs[i], f.old.files[p], true)
	}
	return readings
}
