// Package record holds the values that every layer of the engine shares: what
// is desired of a resource, and what is known of it.
//
// It is a leaf: it imports no other package of Pawl, reads no clock and does
// no I/O. Values are plain structs; a slice in one belongs to the struct, and
// whoever wants to change it copies it first.
package record

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// Hash is the SHA-256 of some content. The zero Hash means "none".
type Hash [sha256.Size]byte

// HashOf returns the hash of content.
func HashOf(content []byte) Hash { return sha256.Sum256(content) }

// IsZero reports whether h stands for no content.
func (h Hash) IsZero() bool { return h == Hash{} }

// String returns the first 12 hexadecimal digits, enough to tell contents
// apart in a log; Hex returns all 64.
func (h Hash) String() string { return hex.EncodeToString(h[:6]) }

// Hex returns h as 64 hexadecimal digits, or "" for the zero Hash.
func (h Hash) Hex() string {
	if h.IsZero() {
		return ""
	}
	return hex.EncodeToString(h[:])
}

// ConflictPolicy says what to do about drift: a target that differs from what
// was last acknowledged although the source did not change.
type ConflictPolicy string

// The conflict policies. The empty one means "as the sink says".
const (
	SourceWins ConflictPolicy = "source-wins" // apply the desired state again
	TargetWins ConflictPolicy = "target-wins" // accept what is there
	ReportOnly ConflictPolicy = "report-only" // report it, touch nothing
)

// DeletionPolicy says what becomes of the target's object when its resource is
// deleted.
type DeletionPolicy string

// The deletion policies. The empty one means "as the resource, else the sink,
// says".
const (
	DeleteTarget  DeletionPolicy = "delete"          // delete it; not found is success
	AckThenDelete DeletionPolicy = "ack-then-delete" // store what is there, then delete it
	Retain        DeletionPolicy = "retain"          // leave it alone, forget the resource
)

// Order places a Put among those of its source, so that one that was overtaken
// on its way is refused as stale. The zero Order asks for no such check.
type Order struct {
	Source string // the source's name
	Epoch  string // its incarnation: an object's UID, a sender's start; another epoch starts anew
	Number uint64 // grows within an epoch
}

// Desired is what the source wants of one resource: a payload and policies, or
// a tombstone.
type Desired struct {
	// Generation is the store's revision at which this state was put. It grows
	// per resource and is never used twice. 0 means that nothing is desired.
	Generation uint64
	// Tombstone: the resource is to be deleted; Payload is empty.
	Tombstone bool
	// Gone: the resource is deleted, acknowledged and invisible; what is left
	// keeps Order until GoneUntil, so that a late Put is still seen as stale.
	Gone      bool
	GoneUntil time.Time

	Payload   []byte // opaque to the engine
	Hash      Hash   // of Payload
	Conflict  ConflictPolicy
	Deletion  DeletionPolicy
	Suspend   bool // the source's own flag; see Status.Suspended for the operator's
	Order     Order
	Owner     string // the source that put it
	Direction Direction
	// Origin says whose idea it was. Where it is the target's, SourceHash is that of
	// what the source had put before (see reconcile.ContentHash), so that the same,
	// put once more, changes nothing.
	Origin     Origin
	SourceHash Hash
	PutAt      time.Time // wall clock
	Retry      Retry     // zero fields: the sink's
	// IdempotencyKey, where set, is what calls for this state bear in place of a key
	// that the store makes. A tombstone's is that of the state which it replaced.
	IdempotencyKey string
	// WaitingSince is when the oldest state was put that this one, or those that
	// it replaced, left unacknowledged; equal to PutAt unless older work waited.
	WaitingSince time.Time
}

// ErrPolicy is wrapped by the errors about an unknown policy.
var ErrPolicy = errors.New("unknown policy")

// Validate says what is wrong with p; the empty policy is right.
func (p ConflictPolicy) Validate() error {
	switch p {
	case "", SourceWins, TargetWins, ReportOnly:
		return nil
	}
	return fmt.Errorf("%w: conflict policy %q; use source-wins, target-wins or report-only", ErrPolicy, p)
}

// Validate says what is wrong with p; the empty policy is right.
func (p DeletionPolicy) Validate() error {
	switch p {
	case "", DeleteTarget, AckThenDelete, Retain:
		return nil
	}
	return fmt.Errorf("%w: deletion policy %q; use delete, ack-then-delete or retain", ErrPolicy, p)
}

// Exists reports whether something is desired: a payload or a tombstone.
func (d *Desired) Exists() bool { return d.Generation != 0 && !d.Gone }

// Acked is the target's confirmation of one generation.
type Acked struct {
	Generation uint64
	Hash       Hash   // of the payload that was desired then; zero for accepted drift of an unknown content
	Missing    bool   // accepted drift: the target's object is missing and stays so (R24)
	Ref        string // how the target names the object
	AsFound    string // hash of what the adapter owned there, in the adapter's own terms
	UID        string
	Cursor     string
	Object     string // identity of the object at the target; two resources with the same one contend (R37)
	Adapter    []byte // adapter state: up to 64 KiB kept for the adapter, opaque
	Target     string // identity of the target that confirmed it (R13)
	Payload    []byte // kept only while newer work waits and the policy is not source-wins
	At         time.Time
}

// Attempt is content that was sent and not answered, or replaced before it was
// known to be acknowledged. It may still land.
type Attempt struct {
	Generation uint64
	Hash       Hash
	Delete     bool
	Payload    []byte    // kept where the policy is not source-wins
	Deadline   time.Time // after it the request can't land any more
}

// Phase sums a resource up in one word.
type Phase string

// The phases.
const (
	Pending    Phase = "Pending"    // work waits
	Delivering Phase = "Delivering" // a call is under way (never stored)
	AckedPhase Phase = "Acked"      // the target confirmed the newest generation
	Drifted    Phase = "Drifted"    // the target differs and the policy forbids to touch it
	Stalled    Phase = "Stalled"    // attempts ran out; tried again now and then
	Failed     Phase = "Failed"     // the target refused it; waits for a new generation or an operator
	Obsolete   Phase = "Obsolete"   // the target says that this state is of the past; terminal
	Deleting   Phase = "Deleting"   // the target's deletion is under way
	Orphaned   Phase = "Orphaned"   // its sink is not configured (never stored)
)

// Phases lists every phase, in the order in which people read them.
func Phases() []Phase {
	return []Phase{Pending, Delivering, AckedPhase, Drifted, Stalled, Failed, Obsolete, Deleting, Orphaned}
}

// Reason says in one CamelCase word why a phase or condition is as it is.
type Reason string

// The reasons that the engine gives.
const (
	ReasonNone          Reason = ""
	ReasonUnreachable   Reason = "Unreachable"
	ReasonUnauthorized  Reason = "Unauthorized"
	ReasonRejected      Reason = "Rejected"
	ReasonRetryable     Reason = "Retryable"
	ReasonConflict      Reason = "Conflict"
	ReasonNotConverged  Reason = "NotConverged"
	ReasonPluginFault   Reason = "PluginFault"
	ReasonPaused        Reason = "Paused"     // retry-after
	ReasonInProgress    Reason = "InProgress" // the target is still at it
	ReasonContended     Reason = "Contended"  // R37
	ReasonFighting      Reason = "Fighting"   // R38
	ReasonNotOurs       Reason = "NotOurs"    // R55
	ReasonDrift         Reason = "Drift"
	ReasonAccepted      Reason = "Accepted" // drift accepted by policy or operator
	ReasonObsolete      Reason = "Obsolete"
	ReasonSettling      Reason = "Settling"      // an unanswered request may still land; looked at again after its deadline
	ReasonTargetChanged Reason = "TargetChanged" // R13
	ReasonRestored      Reason = "Restored"      // R67
	ReasonDamaged       Reason = "Damaged"       // the stored record can't be read
	ReasonSource        Reason = "Source"        // suspended by the source's flag
	ReasonOperator      Reason = "Operator"
	ReasonSink          Reason = "Sink"          // suspended with its whole sink
	ReasonMissing       Reason = "Missing"       // of inbound: the target has no such object (R31)
	ReasonNoContent     Reason = "NoContent"     // the adapter reported nothing that could be taken in (R31, R32)
	ReasonTooLarge      Reason = "TooLarge"      // the target's object is larger than what is kept (R31, R32)
	ReasonTakenOver     Reason = "TakenOver"     // the target's change is what is desired now (R32)
	ReasonTargetDeleted Reason = "TargetDeleted" // deleted at the target; its source has yet to (R32)
)

// The condition types.
const (
	CondAcked     = "Acked"
	CondObserved  = "Observed"
	CondDrifted   = "Drifted"
	CondStalled   = "Stalled"
	CondSuspended = "Suspended"
)

// Truth is a condition's status.
type Truth string

// The truths.
const (
	True    Truth = "True"
	False   Truth = "False"
	Unknown Truth = "Unknown"
)

// Condition is one aspect of a resource, in Kubernetes style.
type Condition struct {
	Type               string
	Status             Truth
	Reason             Reason
	Message            string
	LastTransitionTime time.Time
	ObservedGeneration uint64
}

// Transition is one line of a resource's history. It never holds payload.
type Transition struct {
	At         time.Time
	Phase      Phase
	Reason     Reason
	Message    string
	Generation uint64
	Took       time.Duration // of the delivery that led to it
}

// Command is an operator's order for one resource. It is stored before it is
// carried out, so that it survives a restart, and cleared by the delivery that
// did it.
type Command string

// The commands.
const (
	NoCommand     Command = ""
	CommandAccept Command = "accept" // take what the target holds for acknowledged (R25, R55)
	CommandForce  Command = "force"  // apply, whatever the conflict policy (R25)
)

// HistoryLength is how many transitions a resource keeps (R65).
const HistoryLength = 20

// Status is what the engine knows of one resource.
type Status struct {
	// Generation is the one that Phase, Reason, Message and Attempts speak of.
	// Where it is below the desired one they are of the past, and the resource
	// reads as Pending with no attempt made.
	Generation uint64
	Phase      Phase
	Reason     Reason
	Message    string
	Attempts   int // of this generation since the last stall

	// NextAt is when the resource is due; zero: nothing is due but drift checks.
	// Delay is what was waited for then. A clock that was set back makes NextAt
	// look far away; nobody waits longer than Delay (R40).
	NextAt time.Time
	Delay  time.Duration

	FailedAt time.Time // when a call last failed (R02)
	Retry    Retry     // Desired.Retry: what plans a resource has read no more than its status
	LookedAt time.Time // when the target was last observed or confirmed something

	Acked     *Acked
	Attempted []Attempt

	DriftPaths  []string    // where the target differs, when Drifted or not converged
	Corrections []time.Time // drift corrected within the last hour (R38)

	Suspended bool    // the operator's flag
	Command   Command // an operator's order that waits for its delivery
	Looks     int     // polls of an operation that the target still works on, for their backoff (R36, R53)
	// Direction is the one that Phase speaks of; empty: outbound.
	Direction Direction
	// Observed is what the target has, of a resource that takes it in: all of it
	// under inbound; under both what differs from what is desired, and is only
	// reported. Else nil.
	Observed   *Observed
	Conditions []Condition
	History    []Transition // oldest first, at most HistoryLength
	UpdatedAt  time.Time
}
