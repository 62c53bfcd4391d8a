package main

import (
	"sync"
	"sync/atomic"
	"time"
)

// load calls do from many callers, each with the numbers that it draws, for a
// while, and returns how many calls a second that made.
func load(callers int, during time.Duration, do func(n int) error) (rate float64, calls int, err error) {
	var next, made atomic.Int64
	var failed atomic.Pointer[error]
	began := time.Now()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for time.Since(began) < during && failed.Load() == nil {
				if err := do(int(next.Add(1))); err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
				made.Add(1)
			}
		})
	}
	wg.Wait()
	if e := failed.Load(); e != nil {
		return 0, 0, *e
	}
	n := made.Load()
	return float64(n) / time.Since(began).Seconds(), int(n), nil
}

// times calls do n times from many callers and returns the calls a second.
func times(callers, n int, do func(i int) error) (rate float64, err error) {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	began := time.Now()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for failed.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(i); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	wg.Wait()
	if e := failed.Load(); e != nil {
		return 0, *e
	}
	return float64(n) / time.Since(began).Seconds(), nil
}

// until calls do from many callers, each with the numbers that it draws, until it
// is stopped or one fails.
func until(stop *atomic.Bool, callers int, do func(n int) error) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for !stop.Load() && failed.Load() == nil {
				if err := do(int(next.Add(1))); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	wg.Wait()
	if e := failed.Load(); e != nil {
		return *e
	}
	return nil
}
