package source

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Pauses before a source is run again, or asked for a full set again, double from
// the first to the longest, jittered in their upper half.
const (
	pauseFirst = 2 * time.Second
	pauseMax   = 5 * time.Minute
)

// errEnded is what a Run ends with that should have gone on.
var errEnded = errors.New("it ended by itself")

// run keeps a source running until ctx ends.
func (in *inlet) run(ctx context.Context) {
	for failures := 0; ; failures++ {
		began := time.Now()
		in.setRunning(true)
		err := in.runOnce(ctx)
		in.setRunning(false)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > pauseMax {
			failures = 0
		}
		pause := in.m.pause(failures)
		in.trouble(runFailed, fmt.Errorf("%w; it is begun again by itself", err))
		in.log.Debug("the source is begun again", "in", pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// runOnce runs the source. What panics in it is its own trouble, not the daemon's.
func (in *inlet) runOnce(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the source panicked: %v", p)
		}
	}()
	if err := in.spec.Source.Run(ctx, in); err != nil {
		return err
	}
	return errEnded
}

func (in *inlet) setRunning(on bool) {
	in.mu.Lock()
	in.running = on
	in.mu.Unlock()
}

// again tells a trouble that passes, and asks the source for a full set after a
// while. One that sends by itself tries again by itself.
func (in *inlet) again(err error) {
	in.trouble(notStored, err)
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.asking || in.spec.Source == nil {
		return
	}
	in.asking = true
	pause := in.m.pause(in.retries)
	in.retries++
	time.AfterFunc(pause, func() {
		in.mu.Lock()
		in.asking = false
		in.mu.Unlock()
		if in.ctx.Err() == nil {
			in.spec.Source.Rescan()
		}
	})
}

// settled notes that a full set was stored.
func (in *inlet) settled() {
	in.mu.Lock()
	in.retries = 0
	in.mu.Unlock()
	in.trouble(notStored, nil)
}

// pause is the n-th pause, from 0.
func (m *Manager) pause(n int) time.Duration {
	p := pauseMax
	if n < 8 {
		p = min(pauseFirst<<n, pauseMax)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return p/2 + time.Duration(m.random.Int64N(int64(p/2)))
}
