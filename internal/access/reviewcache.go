package access

import (
	"crypto/sha256"
	"errors"
	"maps"
	"sync"
	"time"
)

// answers keeps what was found out about tokens for a short time, by their hashes:
// no token stays in memory. Of those that were let in it is remembered for longer that they
// were. The zero value is ready.
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

// isThere reports whether the answer is no longer awaited.
func (e *reviewed) isThere() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// isRefusal reports whether the answer is there, and lets nobody in.
func (e *reviewed) isRefusal() bool { return e.isThere() && e.id == nil }

// isOver reports whether the answer is there, and counts no more.
func (e *reviewed) isOver(now time.Time) bool { return e.isThere() && now.After(e.until) }

// answersMax bounds what is kept, whatever callers send.
const answersMax = 4096

// get returns what is known of a token, or asks; many who want to know the same
// ask once. ask is told whether the token was let in when it was last asked about.
func (a *answers) get(hash [sha256.Size]byte, now func() time.Time, keep time.Duration, ask func(known bool) (*Identity, error)) (*Identity, error) {
	a.mu.Lock()
	before := a.known[hash]
	if before != nil && !before.isOver(now()) {
		a.mu.Unlock()
		<-before.done
		return before.id, before.err
	}
	e := &reviewed{done: make(chan struct{})}
	a.makeRoom(now())
	a.known[hash] = e
	a.mu.Unlock()

	defer close(e.done)
	known := before != nil && before.id != nil
	e.id, e.err = ask(known)
	e.until = now().Add(keep)
	if _, refused := errors.AsType[*Refusal](e.err); e.err != nil && !refused { // nothing was found out: the next one asks
		a.mu.Lock()
		defer a.mu.Unlock()
		switch {
		case a.known[hash] != e: // there was no room for it
		case known:
			a.known[hash] = before
		default:
			delete(a.known, hash)
		}
	}
	return e.id, e.err
}

// makeRoom forgets, where there is much, who was not let in; where that is not enough,
// answers that are over, and then all: rubbish, which anybody can send, must make us forget
// nobody who is let in.
func (a *answers) makeRoom(now time.Time) {
	if a.known == nil {
		a.known = map[[sha256.Size]byte]*reviewed{}
	}
	for _, forget := range []func(*reviewed) bool{
		func(e *reviewed) bool { return e.isRefusal() },
		func(e *reviewed) bool { return e.isOver(now) },
		func(*reviewed) bool { return true },
	} {
		if len(a.known) < answersMax {
			return
		}
		maps.DeleteFunc(a.known, func(_ [sha256.Size]byte, e *reviewed) bool { return forget(e) })
	}
}
