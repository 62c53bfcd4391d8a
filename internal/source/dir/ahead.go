package dir

import (
	"context"
	"iter"
	"runtime"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Files are read ahead of those that are told: so many, and so many bytes of them.
const (
	aheadFiles = 512
	aheadBytes = 16 << 20
)

// readAhead reads files, on all processors, and returns what came of them in their
// order. It ends early when ctx does.
func (f *full) readAhead(ctx context.Context, todo []string) iter.Seq[reading] {
	return func(yield func(reading) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var workers sync.WaitGroup
		defer workers.Wait() // they read what the caller is about to change
		defer cancel()
		var done [aheadFiles]chan reading // of the i-th file: i % aheadFiles
		for i := range done {
			done[i] = make(chan reading, 1)
		}
		jobs, room := make(chan int), semaphore.NewWeighted(aheadBytes)
		weights := make(chan int64, aheadFiles-1) // in the order of the files; with it no channel of done is used twice at once
		go f.dispatch(ctx, todo, room, weights, jobs)
		for range max(2, runtime.GOMAXPROCS(0)) {
			workers.Go(func() {
				l := loader{Source: f.Source}
				for i := range jobs {
					done[i%aheadFiles] <- l.look(f.list, todo[i], f.old.files[todo[i]], true)
				}
			})
		}
		for i := range todo {
			select {
			case r := <-done[i%aheadFiles]:
				room.Release(<-weights)
				if !yield(r) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// dispatch hands out files as there is room for them.
func (f *full) dispatch(ctx context.Context, todo []string, room *semaphore.Weighted, weights chan<- int64, jobs chan<- int) {
	defer close(jobs)
	for i, p := range todo {
		weight := int64(1)
		if info, err := f.fs.stat(f.at(p)); err == nil {
			weight = min(1+info.Size(), aheadBytes)
		}
		if room.Acquire(ctx, weight) != nil {
			return
		}
		select {
		case weights <- weight:
		case <-ctx.Done():
			return
		}
		select {
		case jobs <- i:
		case <-ctx.Done():
			return
		}
	}
}
