package engine

import (
	"errors"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/reconcile"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/schedule"
	"github.com/pawlsync/pawl/engine/sink"
)

// What goes wrong, for errors.Is.
var (
	ErrClosed       = errors.New("the engine is closed")
	ErrInvalid      = errors.New("invalid request")
	ErrTooLarge     = errors.New("over the limit")
	ErrUnknownSink  = errors.New("unknown sink")
	ErrWatchExpired = errors.New("the watch token is no longer valid")

	ErrNotFound = reconcile.ErrNotFound // there is no such resource
	ErrStale    = reconcile.ErrStale    // the source has put something newer
	ErrConflict = reconcile.ErrConflict // the generation is not the expected one
	ErrOwned    = reconcile.ErrOwned    // another source owns the resource
	ErrKeyUsed  = reconcile.ErrKeyUsed  // the content is another one than its idempotency key was given for
	ErrNoSpace  = outbox.ErrNoSpace     // the disk is nearly full

	ErrNothingToDo = reconcile.ErrNothingToDo // an operator's command does not apply
)

// Error says which operation on which resource failed, why, and what to do.
type Error struct {
	Op   string // "put", "delete", …
	Key  record.Key
	Err  error  // wraps one of the errors above
	Hint string // what to do next; may be empty
	// Generation is the current one, for ErrConflict, ErrStale, ErrOwned and ErrKeyUsed; 0: there is none.
	Generation uint64
}

// Error joins operation, key, cause and hint.
func (e *Error) Error() string {
	s := e.Op
	if e.Key.Sink != "" || e.Key.Name != "" {
		s += " " + e.Key.String()
	}
	s += ": " + e.Err.Error()
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func fail(op string, key record.Key, err error, hint string) *Error {
	if errors.Is(err, outbox.ErrClosed) {
		err = ErrClosed // closed between the check and the use
	}
	e := &Error{Op: op, Key: key, Err: err, Hint: hint}
	var r *reconcile.Refusal
	if errors.As(err, &r) {
		e.Generation = r.Generation
	}
	return e
}

// Put is a desired state to be stored.
type Put struct {
	Key     record.Key
	Payload []byte // opaque; JSON is compared by value, anything else bytewise

	Conflict record.ConflictPolicy // empty: the sink's
	Deletion record.DeletionPolicy // empty: the sink's
	Suspend  bool                  // store it, but call nothing
	// Direction says which way the resource is kept in sync; empty: the sink's.
	// ErrInvalid where that takes in what the target has, and the sink's adapter
	// reports no content.
	Direction record.Direction
	// Retry says how the resource is tried again; zero fields: as the sink says.
	// ErrInvalid where it is out of bounds.
	Retry record.Retry
	// IdempotencyKey, where set, is what calls for this content bear, in place of a key
	// that the engine makes: up to 255 bytes of printable ASCII. Other content needs
	// another key: with the same one it is refused with ErrKeyUsed.
	IdempotencyKey string

	// Owner is the source that puts it; empty: none. What another source owns is
	// refused with ErrOwned, unless TakeOver makes it Owner's from now on.
	Owner    string
	TakeOver bool
	Order    record.Order // zero: no check
	// OrderPartial: Order.Number does not cover the content, so that other content
	// under an equal number is accepted.
	OrderPartial bool

	// IfGeneration, where set, is the generation that the resource must have
	// now; 0: it must not exist.
	IfGeneration *uint64
}

// Delete asks for a resource to be deleted.
type Delete struct {
	Key          record.Key
	Deletion     record.DeletionPolicy // empty: the resource's, else the sink's
	DeletionElse record.DeletionPolicy // in place of the sink's
	Order        record.Order
	OrderPartial bool
	IfGeneration *uint64
	Owner        string // the source that asks, of what it owns; empty: none
	TakeOver     bool   // whoever owns it
}

// PutResult answers a Put or Delete that is durable.
type PutResult struct {
	Generation uint64 // of what is desired now
	Changed    bool   // false: it was desired already
	Replaced   bool   // older work that waited is never delivered
}

// BatchItem answers one Put of a batch.
type BatchItem struct {
	PutResult
	Err error
}

// Resource is one resource as its readers see it.
type Resource struct {
	Key     record.Key
	Desired record.Desired // Payload is nil unless it was asked for
	// Status is effective: one that speaks of an older generation reads as
	// Pending, the phase of one in flight is Delivering, and that of one whose
	// sink is not configured Orphaned.
	Status record.Status
}

// ListOptions select resources.
type ListOptions struct {
	Sink     string         // "": all
	Prefix   string         // of the key's name
	Phases   []record.Phase // none: all
	Owner    *string        // nil: all; "": those that nobody owns
	Limit    int            // most items of a page; defaults to 100, at most 1,000
	Page     string         // Page.Next of the page before
	Payloads bool
}

// Page is a part of a list, in key order.
type Page struct {
	Items []Resource
	Next  string // "": this was the last page
	// Token starts a Watch that misses nothing that happened after this page was
	// begun. Use the one of the first page.
	Token string
}

// WatchOptions select what to watch.
type WatchOptions struct {
	Sink   string // "": all
	Prefix string
	// Page and Next, where set, are those of a page of a list: only what stands there, or
	// would, is watched. ErrInvalid for what is no page token.
	Page, Next string
	// From is the token of a list or of the last event seen. "": from now on.
	From string
}

// Event is a resource's newest state. States in between may be skipped.
type Event struct {
	Resource Resource // without payload; of a removed one only the key
	Removed  bool
	Token    string // resumes the watch after this event
}

// WaitResult says how a Wait ended.
type WaitResult struct {
	// Done: the generation, or a newer one, is acknowledged, or the record is
	// gone. False: it came to rest otherwise, see Phase.
	Done       bool
	Gone       bool
	Phase      record.Phase
	Reason     record.Reason
	Message    string
	Generation uint64 // the one that Phase speaks of
}

// SinkStatus is a sink's state.
type SinkStatus struct {
	Name            string
	Configured      bool
	Plugin          string // name and version
	Digest          string // SHA-256 of its module, in hex; "" for a sink that is none
	Target          string
	Direction       record.Direction // of resources that say nothing themselves; "": outbound
	NotReady        string           // why no call can be made yet; "": they can
	Suspended       bool
	SuspendReason   record.Reason // why, when suspended
	Counts          map[record.Phase]int
	InFlight        int
	Waiting         [3]int // by class (fresh, retry, check), due now or later
	Breaker         schedule.BreakerState
	NextProbe       time.Time // zero unless the breaker is open
	PausedUntil     time.Time // zero: not paused
	OldestUnacked   time.Time // zero: nothing is unacknowledged
	LastError       string    // newest failure since the last success; never payload
	LastErrorStatus sink.Status
	LastErrorAt     time.Time
}

// Stats are the engine's figures.
type Stats struct {
	Store         outbox.Stats
	Info          outbox.Info
	Resources     int   // stored ones, gone ones whose order is remembered included
	ScheduleBytes int64 // memory of the schedule
	Watchers      int
	Waiters       int
}
