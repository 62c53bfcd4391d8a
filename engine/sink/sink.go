// Package sink is the contract between the engine and what talks to a target.
// A sink is either a plugin (engine/wasmhost) or, in a program that embeds the
// engine, any Go value that implements Sink.
package sink

import (
	"context"
	"time"

	"github.com/pawlsync/pawl/engine/record"
)

// Sink brings resources of one target to their desired state. Its methods are
// called from many goroutines at once, but never twice at a time for one
// resource. ctx carries the call's deadline; a Sink returns soon after it.
//
// A Sink must find its object by the resource's key: a second Apply of the
// same resource never creates a second object.
type Sink interface {
	// Manifest says what the sink can do. It does not change: a sink that could do
	// something else is another one, see engine.ReplaceSink.
	Manifest() Manifest
	// Observe looks at the target and changes nothing.
	Observe(ctx context.Context, r *Request) Result
	// Apply makes the target's object what r.Payload says.
	Apply(ctx context.Context, r *Request) Result
	// Delete removes the target's object; that it does not exist is success.
	Delete(ctx context.Context, r *Request) Result
	// Close releases what the sink holds; no call is in flight then.
	Close(ctx context.Context) error
}

// Batcher is a Sink that applies many resources in one call. It is used where
// Manifest.BatchMax is above 1.
type Batcher interface {
	Sink
	// ApplyBatch answers with one Result per request, in order, or with exactly
	// one Result and whole=true for the batch as such.
	ApplyBatch(ctx context.Context, rs []*Request) (results []Result, whole bool)
}

// Manifest says what a sink can do.
type Manifest struct {
	Name    string
	Version string
	Digest  string // SHA-256, in hex, of the module that it runs; "" where it runs none
	// Target is the identity of what the sink talks to: cluster, server or base
	// URL. When it changes, acks given by the old target count no more (R13).
	Target string
	// NotReady says why no call can be made yet, and then Target is not known; ""
	// where calls can be made. The engine holds such a sink's resources until
	// another one takes its place, see engine.ReplaceSink.
	NotReady string

	Observes          bool // has Observe; without it, stored acks stand
	Deletes           bool // has Delete; without it, tombstones are Failed until forgotten
	ApplyConfirms     bool // an OK of Apply proves that the target persisted it
	ApplyIdempotent   bool // the same Apply twice is harmless
	ReportsUID        bool // observations carry the object's UID (R55)
	AsFoundComparable bool // AsFound of an object equal to a payload is that payload's hash in hex
	OwnTimeout        bool // the sink cuts calls off by itself, from the moment that they start (R49)
	Marks             bool // a Participant: tells by Observe whether a saga's write landed
	Locks             bool // a Participant that takes locks with a write, and gives them up by Unlock
	RestoresApply     bool // Restore undoes an Apply
	RestoresDelete    bool // Restore undoes a Delete
	Polls             bool // a Poller
	Compares          bool // a Comparer
	ReportsContent    bool // Observation.Content of an object that exists is the object in the form of a payload
	BatchMax          int  // requests of one ApplyBatch; 0 or 1: none
	// Overlap reports whether two keys must not share a batch; nil: they always may.
	Overlap func(a, b string) bool
}

// Request is one call about one resource. Slices in it are the engine's: read only.
type Request struct {
	Key            record.Key
	Generation     uint64
	Payload        []byte // empty for a tombstone
	Hash           record.Hash
	IdempotencyKey string        // stable over the retries of one generation
	Acked          *record.Acked // nil: never acked
	Attempted      []record.Attempt
	Conflict       record.ConflictPolicy // effective, never empty
	Force          bool                  // the operator asked to take over what conflicts
	UID            string                // of Delete: delete this very object only; "": no precondition
	Mode           Mode                  // of Apply
	Run            *Run                  // nil: the call belongs to no saga
	// Epoch is the store's: another one after it was restored. Generations compare
	// within one alone. Empty in a saga's call.
	Epoch string
}

// Status is how a call ended.
type Status uint8

// The statuses. All but Fault may come from an adapter; the numbers up to
// Unreachable are those of the ABI.
const (
	OK            Status = 1
	NotFound      Status = 2 // Observe: it does not exist. Delete: success
	AlreadyExists Status = 3
	Conflict      Status = 4 // a precondition failed
	Rejected      Status = 5 // the target refuses this content for good
	Obsolete      Status = 6 // the target holds something newer
	InProgress    Status = 7 // the target works on it
	Unauthorized  Status = 8
	Retry         Status = 9  // the target answered that it can't now
	Unreachable   Status = 10 // no answer; also a deadline with host I/O pending
	Fault         Status = 64 // the plugin's fault: trap, out of fuel, malformed or no answer
)

var statusNames = map[Status]string{
	OK: "ok", NotFound: "not-found", AlreadyExists: "already-exists", Conflict: "conflict",
	Rejected: "rejected", Obsolete: "obsolete", InProgress: "in-progress", Unauthorized: "unauthorized",
	Retry: "retry", Unreachable: "unreachable", Fault: "plugin-fault",
}

// String returns the status as metrics and logs name it.
func (s Status) String() string {
	if n, ok := statusNames[s]; ok {
		return n
	}
	return "unknown"
}

// Answered reports whether the status is the target's own word, so that the
// target is known to be up.
func (s Status) Answered() bool { return s != Unreachable && s != Fault && s != 0 }

// Tri is an answer that may be unknown.
type Tri uint8

// The answers; their numbers are those of the ABI.
const (
	Unknown Tri = 0
	Yes     Tri = 1
	No      Tri = 2
)

// TriOf turns a bool into a known Tri.
func TriOf(b bool) Tri {
	if b {
		return Yes
	}
	return No
}

// Observation is what a call saw of the target's object.
type Observation struct {
	Exists         bool
	Ref            string // how the target names the object
	CID            string // id of its content there (an ETag, a resourceVersion)
	AsFound        string // hash of what the adapter owns there, in its own terms
	MatchDesired   Tri    // equal to Request.Payload at every field owned now or at the last ack
	MatchAcked     Tri
	MatchAttempted Tri
	Differing      []string // paths that differ from desired; never values
	Content        []byte   // nil: not reported; see Manifest.ReportsContent
	At             time.Time
	Meta           map[string]string
	Cursor         string
	UID            string
	Object         string // identity of the object at the target (R37)
	AdapterState   []byte // kept with the ack, given back in Request.Acked
	Ours           Tri    // bears our mark (R55)
}

// Result is how one call ended.
type Result struct {
	Status           Status
	Message          string        // for people; never payload values
	RetryAfter       time.Duration // 0: none
	RetryAfterTarget bool          // RetryAfter speaks for the whole target
	Observation      *Observation  // nil: nothing was seen
	// NotSent: of an unanswered call, the request certainly never left for the
	// target, so it can't land late.
	NotSent bool
	// Suspect: of a Fault, the call merely shared its instance with a faulting
	// entry; it is run again alone, uncharged (R47).
	Suspect bool
}
