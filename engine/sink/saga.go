package sink

import "context"

// Run is what a call that belongs to a saga knows of it. A sink that takes part in
// sagas writes the run's mark into the target together with its object, in one
// request, so that a later look can tell whether that very write landed; equal
// content proves nothing.
type Run struct {
	// ID names this run of the saga: 32 hexadecimal digits. No other run, of this
	// store or another, has the same.
	ID string
	// Step is the step's place in the saga, from 0. ID and Step are the mark.
	Step int
	// Locks are what the run holds, or is to take with this very write, at a sink
	// whose manifest says Locks: hexadecimal digits, sorted, each for one object of
	// any step. A write that finds one taken by another run changes nothing and is
	// a Conflict.
	Locks []string
	// Held: the run holds Locks already. The write goes through only if it still does.
	Held bool
	// Before is the object as it was before the step. Apply and Delete are
	// conditional on it, and Restore brings it back. Nil: Observe is to report it.
	Before *Image
}

// Image is an object as it was before a saga's step wrote it.
type Image struct {
	Exists  bool
	CID     string // as observed; what a write is conditional on
	UID     string // as observed
	Content []byte // in the adapter's own terms: what Restore needs to bring it back, at most MaxImage
}

// MaxImage is how many bytes an Image's content may have.
const MaxImage = 1 << 20

// Participant is a Sink that can take part in sagas. What of it is there the
// manifest says; a Request given to it bears a Run. Of one
//
//   - Observe reports Observation.Ours: Yes where the object bears this run's and
//     step's mark, No where it certainly does not; and, where Run.Before is nil,
//     Observation.Content is the content of an Image;
//   - Apply and Delete are conditional on Run.Before, and mark what they write.
type Participant interface {
	Sink
	// Restore makes the object what Run.Before says, if what Run's step wrote still
	// stands: Request.Payload is what it wrote, empty for a deletion. OK: it is as
	// before, also where it was already. Conflict: somebody changed it since, and it
	// was left as it is. Where nothing was there before, only an object that bears
	// the mark is removed, by its identity.
	Restore(ctx context.Context, r *Request) Result
	// Unlock gives up whatever Run.ID holds at the target, locks and marks. OK: there
	// is none of it. Objects are left as they are.
	Unlock(ctx context.Context, r *Request) Result
}

// Mode says what an Apply may do.
type Mode uint8

// The modes; their numbers are those of the ABI.
const (
	Upsert     Mode = 0 // create or replace
	CreateOnly Mode = 1 // create; an object that exists is AlreadyExists
)
