package source

import (
	"context"
	"errors"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
)

// What goes wrong, for errors.Is.
var (
	// ErrFused: the fuse holds a deletion until an operator confirms it.
	ErrFused = errors.New("the deletion is held: the source deletes more than its fuse allows")
	// ErrUnknown: there is no source of that name.
	ErrUnknown = errors.New("there is no such source")
	// ErrNotConfigured: the source left the configuration, and owns resources still.
	ErrNotConfigured = errors.New("the source is not in the configuration any more")
	// ErrDeclares: it is a pawl source, which only says who may send.
	ErrDeclares = errors.New("each sender is a source by its own name")
	// ErrSame: a handover from a source to itself.
	ErrSame = errors.New("a source can't hand over to itself")
	// ErrUndeclared: no pawl source has a sender of that name.
	ErrUndeclared = errors.New("no source of the configuration has this sender")
	// ErrChanged: what would be deleted is no longer what was shown.
	ErrChanged = errors.New("what is held has changed since it was shown")
	// ErrNothingHeld: the fuse holds nothing.
	ErrNothingHeld = errors.New("nothing is held")
	// ErrNotRunning: the source can't be asked at the moment.
	ErrNotRunning = errors.New("the source is not running")
)

// kind tells what is to be done about an error of the engine.
type errorKind uint8

const (
	accepted errorKind = iota
	refused            // the item is wrong, or not the source's: told, until it is told anew
	passing            // it goes better later: the source is asked again
	fatal              // nothing more can be done in this life of the engine
)

func kindOf(err error) errorKind {
	switch {
	case err == nil, errors.Is(err, engine.ErrStale): // what is stored is newer
		return accepted
	case errors.Is(err, engine.ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fatal
	case errors.Is(err, engine.ErrNoSpace), errors.Is(err, engine.ErrHeld), errors.Is(err, outbox.ErrUnavailable):
		return passing
	case errors.Is(err, engine.ErrOwned), errors.Is(err, engine.ErrInvalid), errors.Is(err, engine.ErrTooLarge),
		errors.Is(err, engine.ErrUnknownSink), errors.Is(err, engine.ErrConflict), errors.Is(err, engine.ErrKeyUsed),
		errors.Is(err, outbox.ErrDamaged):
		return refused
	}
	return passing // a commit that failed
}
