package pawl

import "time"

// Op says what a call is about.
type Op uint8

// The operations of an adapter. Their numbers are those of the ABI.
const (
	OpDescribe   Op = 1
	OpConfigure  Op = 2
	OpObserve    Op = 3
	OpApply      Op = 4
	OpDelete     Op = 5
	OpApplyBatch Op = 6
	OpPoll       Op = 7
	OpUnlock     Op = 8
	OpRestore    Op = 9
	OpCompare    Op = 10
)

// Tri is an answer that may be unknown.
type Tri uint8

// The answers.
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

// ConflictPolicy says what the engine does about a target that somebody else
// changed. An adapter needs it only where the target wants to be told.
type ConflictPolicy uint8

// The conflict policies.
const (
	SourceWins ConflictPolicy = 1
	TargetWins ConflictPolicy = 2
	ReportOnly ConflictPolicy = 3
)

// Mode says what an Apply may do.
type Mode uint8

// The modes.
const (
	Upsert     Mode = 0 // create or replace
	CreateOnly Mode = 1 // create; an object that exists is StatusAlreadyExists
)

// MaxAdapterStateBytes bounds Observation.AdapterState.
const MaxAdapterStateBytes = 65536

// Request is one call about one resource. Its slices and strings stay valid
// for as long as they are referenced, and are read only: they share memory.
type Request struct {
	Sink           string
	Key            string // opaque UTF-8, at most 1,024 bytes, no control characters
	Generation     uint64
	Payload        []byte // what is desired; empty for a tombstone
	ContentHash    []byte // SHA-256 of Payload, 32 bytes
	IdempotencyKey string // stable over the retries of one generation
	Acked          *Acked // what the target last confirmed; nil: never acked
	Attempted      []Attempt
	ConflictPolicy ConflictPolicy
	Mode           Mode
	Force          bool   // the operator asked to take over conflicting fields
	TimeoutMillis  uint32 // what was left of the call's deadline when it started
	// UID, of Delete: delete the object of this uid only, else answer Conflict.
	// It may be another one than Acked.UID. Empty: no precondition.
	UID string
	// Saga is what the call knows of the saga that it belongs to. Nil: none.
	Saga *SagaRun
	// Epoch is that of the store which the resource is in: another one after it was
	// restored. Generations compare within one epoch alone. Empty in a saga's call.
	Epoch string
}

// SagaRun is what a call that belongs to a saga knows of it. ID and Step are the
// mark: write them into the target together with the object, in one request.
type SagaRun struct {
	ID   string // of this run, 32 hexadecimal digits: no other run, of whatever store, has the same
	Step uint32 // its place in the saga, from 0
	// Locks are what the run holds, or is to take with this very write, of an
	// adapter whose Manifest says Lock: hexadecimal digits, sorted. A write that finds
	// one taken by another run changes nothing and is a Conflict.
	Locks []string
	// Held: the run holds Locks already. The write goes through only if it still does.
	Held bool
	// Before is the object as it was before the step: Apply and Delete are conditional
	// on it, and Restore brings it back. Nil: Observe is to report it.
	Before *Image
}

// Image is an object as it was before a saga's step wrote it: what Observe reported then.
type Image struct {
	Exists  bool
	CID     string // Observation.CID: what a write is conditional on
	UID     string // Observation.UID
	Content []byte // Observation.Content, in the adapter's own terms; at most MaxImageBytes
}

// MaxImageBytes bounds Observation.Content where the call is a saga's and bears no image yet.
const MaxImageBytes = 1 << 20

// Acked is what the target last confirmed of a resource.
type Acked struct {
	Generation   uint64
	ContentHash  []byte // SHA-256 of the payload that was confirmed, or empty
	Ref          string
	AsFound      string
	UID          string
	Cursor       string
	AdapterState []byte // what the adapter returned with that ack
	Payload      []byte // where HasPayload; kept only while newer work waits and the policy is not source-wins
	HasPayload   bool
}

// Attempt is content that was sent and not answered: it may have landed.
type Attempt struct {
	ContentHash []byte
	Payload     []byte // where HasPayload
	HasPayload  bool
}

// Observation is what a call saw of the target's object.
type Observation struct {
	Exists         bool
	Ref            string   // how the target names the object
	CID            string   // id of its content there: an ETag, a resourceVersion
	AsFound        string   // hash of what the adapter owns there, in its own terms
	MatchDesired   Tri      // equal to Request.Payload at every field owned now or at the last ack
	MatchAcked     Tri      // equal to what was last acked
	MatchAttempted Tri      // equal to one of Request.Attempted
	Differing      []string // paths that differ from desired; never values
	Content        []byte   // see Manifest.ReportsContent; of a saga's call without SagaRun.Before, the content of that Image; nil: not reported
	At             time.Time
	Meta           map[string]string
	Cursor         string
	UID            string
	Object         string // identity of the object: two resources with the same one contend
	AdapterState   []byte // kept with the ack and given back in Request.Acked; at most MaxAdapterStateBytes
	Ours           Tri    // bears our mark; of a saga's call, that of this run and step
}

// isZero reports whether nothing was observed.
func (o *Observation) isZero() bool {
	return !o.Exists && o.Ref == "" && o.CID == "" && o.AsFound == "" &&
		o.MatchDesired == 0 && o.MatchAcked == 0 && o.MatchAttempted == 0 &&
		len(o.Differing) == 0 && o.Content == nil && o.At.IsZero() && len(o.Meta) == 0 &&
		o.Cursor == "" && o.UID == "" && o.Object == "" && len(o.AdapterState) == 0 && o.Ours == 0
}

// Manifest says what a plugin can do.
type Manifest struct {
	Name    string
	Version string
	// Ops that the adapter implements.
	// Defaults to observe, apply and delete; apply_batch where the adapter is an ApplyBatcher and BatchMax is above 1;
	// unlock where it is an Unlocker, restore where it is a Restorer, poll where it is a Poller, and compare
	// where it is a Comparer.
	Ops               []Op
	ConfigSchema      string // JSON Schema of the sink's config
	PayloadSchema     string // JSON Schema of payloads; "": opaque bytes
	ApplyConfirms     bool   // an OK of Apply proves that the target persisted it
	ApplyIdempotent   bool   // the same Apply twice is harmless
	FindsByKey        bool   // finds its object by key and never creates a second one; the host refuses plugins that don't
	ReportsUID        bool   // observations carry the object's uid
	AsFoundComparable bool   // AsFound of an object equal to a payload is that payload's content hash in lower-case hex
	Undoable          []Op   // which of OpApply and OpDelete Restore undoes; needs a Restorer
	Lock              bool   // takes a saga's locks with its write; needs Mark and an Unlocker
	Mark              bool   // marks what a saga writes, and Observe tells by Ours whether that landed
	BatchMax          uint32 // requests of one ApplyBatch; 0 or 1: none
	Overlap           string // which keys must not share a batch: "" (all may) or "key-prefix"
	UpstreamKinds     []string
	ReportsContent    bool // Observation.Content is the object in the form of a payload, of Observe and Poll; needs Observe
}

// Config is what an instance is told before its first call.
type Config struct {
	Sink      string
	JSON      []byte        // the sink's plugin config as a JSON object, {} where there is none
	Upstreams []UpstreamRef // granted, in the order of the operator's config
}

// UpstreamRef is what a plugin may know of an upstream: no credential.
type UpstreamRef struct {
	Name    string
	Kind    string // "http", "kubernetes", …
	BaseURL string // without user information and query
}

// Configured is an adapter's answer to its configuration.
type Configured struct {
	// Target is the identity of what the sink talks to; when it changes, acks of the old target count no more.
	// Defaults to the base URLs of the granted upstreams.
	Target string
	// Manifest replaces the flags and ops of the registered one for this sink. Nil: they stay.
	Manifest *Manifest
}

// Header is one header or trailer line.
type Header struct{ Name, Value string }

// HTTPRequest is sent by Do.
type HTTPRequest struct {
	Upstream string // name of a granted upstream
	Method   string
	Path     string // path and query, starts with "/"; appended to the upstream's base URL
	Headers  []Header
	Body     []byte // nil: none; empty but not nil: a body of no bytes
	// Timeout of this request. Defaults to what is left of the call.
	Timeout time.Duration
}

// HTTPResponse is the target's answer, whole. Its slices and strings share memory: read only.
type HTTPResponse struct {
	Status   int
	Headers  []Header
	Body     []byte
	Trailers []Header
}

// Header returns the value of the first header of that name, whatever its case, or "".
func (r *HTTPResponse) Header(name string) string {
	for i := range r.Headers {
		if equalFold(r.Headers[i].Name, name) {
			return r.Headers[i].Value
		}
	}
	return ""
}

// equalFold compares header names: ASCII, case ignored.
func equalFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := 0; i < len(a); i++ {
		if a[i] != b[i] && lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
