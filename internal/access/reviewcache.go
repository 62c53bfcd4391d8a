package access

import (
	"crypto/sha256"
	"errors"
	"maps"
	"sync"
	"time"
)

// answers keeps what was found out about tokens for a short time, by their hashes:
// no token stays in memory. The zero value is ready.
type answers struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]*reviewed
}

// reviewed is an answer, or one that is awaited.
type reviewed struct {
	done  chan struct{} // closed when the rest is set
	id    *Identity
	err   error
	until time.Time
}

// isRefusal reports whether the answer is there, and lets nobody in.
func (e *reviewed) isRefusal() bool {
	select {
	case <-e.done:
		return e.id == nil
	default:
		return false
	}
}

// answersMax bounds what is kept, whatever callers send.
const answersMax = 4096

// get returns what is known of a token, or asks; many who want to know the same
// ask once.
func (a *answers) get(hash [sha256.Size]byte, now func() time.Time, keep time.Duration, ask func() (*Identity, error)) (*Identity, error) {
	a.mu.Lock()
	e := a.known[hash]
	if e != nil && !e.isOver(now()) {
		a.mu.Unlock()
		<-e.done
		return e.id, e.err
	}
	e = &reviewed{done: make(chan struct{})}
	a.makeRoom(now())
	a.known[hash] = e
	a.mu.Unlock()

	defer close(e.done)
	e.id, e.err = ask()
	e.until = now().Add(keep)
	if _, refused := errors.AsType[*Refusal](e.err); e.err != nil && !refused { // nothing was found out: the next one asks
		a.mu.Lock()
		if a.known[hash] == e {
			delete(a.known, hash)
		}
		a.mu.Unlock()
	}
	return e.id, e.err
}

// isOver reports whether the answer counts no more.
func (e *reviewed) isOver(now time.Time) bool {
	select {
	case <-e.done:
		return now.After(e.until)
	default:
		return false
	}
}

// makeRoom forgets what is over where there is much; where that is not enough, who was
// not let in, and then all: rubbish, which anybody can send, must not make us ask again
// about those who are let in.
func (a *answers) makeRoom(now time.Time) {
	if a.known == nil {
		a.known = map[[sha256.Size]byte]*reviewed{}
	}
	for _, forget := range []func(*reviewed) bool{
		func(e *reviewed) bool { return e.isOver(now) },
		func(e *reviewed) bool { return e.isRefusal() },
		func(*reviewed) bool { return true },
	} {
		if len(a.known) < answersMax {
			return
		}
		maps.DeleteFunc(a.known, func(_ [sha256.Size]byte, e *reviewed) bool { return forget(e) })
	}
}
