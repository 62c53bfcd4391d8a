package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlsync/pawl/engine/outbox/badger"
	"github.com/pawlsync/pawl/engine/record"
)

// puts compares durable Puts of distinct keys with a raw log that does nothing
// but append and fdatasync, with the same group commit.
func puts() error {
	var missed []error
	for _, c := range []struct {
		callers int
		target  float64
	}{{1, 0.75}, {16, 0.5}, {256, 0.25}, {4096, 0.25}} {
		raw, store, err := sideBySide(c.callers)
		if err != nil {
			return err
		}
		ratio := store / raw
		fmt.Printf("puts  %5d callers: raw log %8.0f/s  store %8.0f/s  ratio %.2f (target %.2f)\n",
			c.callers, raw, store, ratio, c.target)
		if ratio < c.target {
			missed = append(missed, fmt.Errorf("puts: ratio %.2f with %d callers is below %.2f", ratio, c.callers, c.target))
		}
	}
	return errors.Join(missed...)
}

// sideBySide runs both in turns, so that what else runs on the machine meets
// both.
func sideBySide(callers int) (raw, store float64, err error) {
	const rounds = 3
	err = inStore(func(s *badger.Store, path string) error {
		l, err := newRawLog(filepath.Join(path, "raw"))
		if err != nil {
			return err
		}
		for round := range rounds {
			n, err := rate(callers, round, func(key record.Key, payload []byte) error { return l.put(key, payload) })
			if err != nil {
				return err
			}
			raw += n / rounds
			n, err = rate(callers, round, func(key record.Key, payload []byte) error { return wait(put(s, key, payload)) })
			if err != nil {
				return err
			}
			store += n / rounds
		}
		return l.close()
	})
	return raw, store, err
}

// rate returns how often a second fn was done by all callers.
func rate(callers, round int, fn func(record.Key, []byte) error) (float64, error) {
	var total atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, callers)
	start := time.Now()
	for c := range callers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(c), uint64(round)))
			for i := 0; time.Since(start) < *duration; i++ {
				key := record.Key{Sink: "bench", Name: fmt.Sprintf("ns-%d/object-%d-%d-%d", c%50, round, c, i)}
				if err := fn(key, randomPayload(r)); err != nil {
					errs <- err
					return
				}
				total.Add(1)
			}
		})
	}
	wg.Wait()
	close(errs)
	return float64(total.Load()) / time.Since(start).Seconds(), <-errs
}

// randomPayload is new for every put: the store keeps what it is given.
func randomPayload(r *rand.Rand) []byte {
	b := make([]byte, payloadBytes)
	for i := 0; i < len(b); i += 8 {
		v := r.Uint64()
		for j := range 8 {
			b[i+j] = byte(v >> (8 * j))
		}
	}
	return b
}

// rawLog appends and calls fdatasync, once for all who wait meanwhile.
type rawLog struct {
	file *os.File
	wake chan struct{}
	stop chan struct{}

	mu   sync.Mutex
	next *rawGroup
}

type rawGroup struct {
	buf  []byte
	done chan struct{}
	err  error
}

func newRawLog(path string) (*rawLog, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	l := &rawLog{file: f, wake: make(chan struct{}, 1), stop: make(chan struct{}), next: &rawGroup{done: make(chan struct{})}}
	go l.write()
	return l, nil
}

func (l *rawLog) put(key record.Key, payload []byte) error {
	l.mu.Lock()
	g := l.next
	g.buf = append(g.buf, key.Name...)
	g.buf = append(g.buf, payload...)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	<-g.done
	return g.err
}

func (l *rawLog) write() {
	spare := []byte(nil)
	for {
		select {
		case <-l.wake:
		case <-l.stop:
			return
		}
		l.mu.Lock()
		g := l.next
		l.next = &rawGroup{buf: spare[:0], done: make(chan struct{})}
		l.mu.Unlock()
		if len(g.buf) > 0 {
			_, err := l.file.Write(g.buf)
			g.err = errors.Join(err, fdatasync(l.file))
		}
		spare = g.buf
		close(g.done)
	}
}

func (l *rawLog) close() error {
	close(l.stop)
	return l.file.Close()
}
