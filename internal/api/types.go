package api

import (
	"encoding/json"
	"time"

	"github.com/pawlsync/pawl/engine/record"
)

// PutRequest is the body of a Put: the payload, as JSON or as base64, and how
// to treat it. Exactly one of Payload and PayloadBase64 is set.
type PutRequest struct {
	Payload        json.RawMessage       `json:"payload,omitempty" doc:"The desired state, any JSON value. It is stored byte for byte. With direction inbound it may be left out: null."`
	PayloadBase64  []byte                `json:"payloadBase64,omitempty" doc:"The desired state where it is not JSON, in base64."`
	Conflict       record.ConflictPolicy `json:"conflictPolicy,omitempty" enum:"source-wins,target-wins,report-only" doc:"What to do about drift. Defaults to the sink's."`
	Deletion       record.DeletionPolicy `json:"deletionPolicy,omitempty" enum:"delete,ack-then-delete,retain" doc:"What becomes of the target's object when the resource is deleted. Defaults to the sink's."`
	Suspend        bool                  `json:"suspend,omitempty" doc:"Store it, but call nothing."`
	Direction      record.Direction      `json:"direction,omitempty" enum:"outbound,inbound,both" doc:"Which way it is kept in sync: to the target, from it, or both ways. Defaults to the sink's."`
	Retry          *Retry                `json:"retry,omitempty" doc:"How it is tried again, where it is not as the sink says."`
	IdempotencyKey string                `json:"idempotencyKey,omitempty" maxLength:"255" doc:"What calls for this content bear, in place of a key that pawl makes: printable ASCII. Other content needs another key."`
	Owner          string                `json:"owner,omitempty" doc:"The source that puts it. What another source owns is refused."`
	TakeOver       bool                  `json:"takeOver,omitempty" doc:"Make it the owner's from now on, whoever owned it before."`
	Order          *Order                `json:"order,omitempty" doc:"Place among the changes of its source; a change that was overtaken is refused as stale."`
	IfGeneration   *uint64               `json:"ifGeneration,omitempty" doc:"The generation that the resource must have now; 0: it must not exist."`
}

// Bytes returns the payload as it is stored.
func (p *PutRequest) Bytes() []byte {
	if p.Payload != nil {
		return p.Payload
	}
	return p.PayloadBase64
}

// Order is a change's place among those of its source.
type Order struct {
	Source  string `json:"source" doc:"The source's name."`
	Epoch   string `json:"epoch,omitempty" doc:"The source's incarnation; another epoch starts anew."`
	Number  uint64 `json:"number" doc:"Grows within an epoch."`
	Partial bool   `json:"partial,omitempty" doc:"The number does not cover the content: other content under an equal number is accepted."`
}

// DeleteRequest says how to delete; it travels as query parameters. The zero
// value deletes as the resource, else the sink, says.
type DeleteRequest struct {
	Deletion     record.DeletionPolicy
	Order        *Order
	IfGeneration *uint64
}

// PutResult answers a Put or Delete that is durable.
type PutResult struct {
	Generation uint64 `json:"generation" doc:"Of what is desired now."`
	Changed    bool   `json:"changed" doc:"False: it was desired already."`
	Replaced   bool   `json:"replaced" doc:"Older work that waited is never delivered."`
}

// BatchLine is one line of a batch.
type BatchLine struct {
	Sink string `json:"sink" doc:"The sink's name."`
	Key  string `json:"key" doc:"The resource's key within the sink."`
	PutRequest
}

// BatchAnswer answers one line of a batch: with a result or an error.
type BatchAnswer struct {
	Line int `json:"line" doc:"Number of the line in the request, from 1. Blank lines count, and have no answer."`
	// PutResult is nil where Error is set.
	*PutResult
	Error *Problem `json:"error,omitempty" doc:"Why this line was refused."`
}

// Resource is one resource.
type Resource struct {
	Sink           string                `json:"sink"`
	Key            string                `json:"key"`
	Generation     uint64                `json:"generation" doc:"Of what is desired."`
	Tombstone      bool                  `json:"tombstone,omitempty" doc:"It is to be deleted."`
	Payload        json.RawMessage       `json:"payload,omitempty" doc:"Only where it was asked for; sensitive values read \"***\"."`
	PayloadBase64  []byte                `json:"payloadBase64,omitempty" doc:"In place of payload where that is not JSON."`
	PayloadHidden  bool                  `json:"payloadHidden,omitempty" doc:"The payload was asked for, but is not shown: its sink has sensitive paths and they can't be found in it."`
	PayloadHash    string                `json:"payloadHash,omitempty" doc:"SHA-256 of the payload, in hexadecimal. Where the sink has sensitive paths, it is keyed: equal for equal payloads of this resource until the daemon starts again, and no hash of anything else."`
	Conflict       record.ConflictPolicy `json:"conflictPolicy,omitempty" doc:"Absent: the sink's."`
	Deletion       record.DeletionPolicy `json:"deletionPolicy,omitempty" doc:"Absent: the sink's."`
	Suspend        bool                  `json:"suspend,omitempty" doc:"The source's own flag."`
	Direction      record.Direction      `json:"direction,omitempty" doc:"Absent: the sink's."`
	Origin         record.Origin         `json:"origin,omitempty" enum:"target" doc:"\"target\": what is desired was found there, and taken over."`
	Retry          *Retry                `json:"retry,omitempty" doc:"Absent: the sink's."`
	IdempotencyKey string                `json:"idempotencyKey,omitempty" doc:"The one that was given with it. Of a deletion: that of what it replaced."`
	Owner          string                `json:"owner,omitempty"`
	Order          *Order                `json:"order,omitempty"`
	PutAt          time.Time             `json:"putAt,omitzero"`
	HeldBy         string                `json:"heldBy,omitempty" doc:"The saga that nothing else is delivered before; of single resources only."`
	Status         Status                `json:"status"`
}

// RecordKey returns r's identity.
func (r *Resource) RecordKey() record.Key { return record.Key{Sink: r.Sink, Name: r.Key} }

// Status is what the engine knows of one resource.
type Status struct {
	Generation uint64         `json:"generation" doc:"The one that phase, reason, message and attempts speak of."`
	Phase      record.Phase   `json:"phase" enum:"Pending,Delivering,Acked,Drifted,Stalled,Failed,Obsolete,Deleting,Orphaned"`
	Reason     record.Reason  `json:"reason,omitempty"`
	Message    string         `json:"message,omitempty"`
	Attempts   int            `json:"attempts,omitempty" doc:"Failed ones of this generation since the last stall."`
	NextAt     time.Time      `json:"nextAt,omitzero" doc:"When it is due; absent: nothing is due but drift checks."`
	FailedAt   time.Time      `json:"failedAt,omitzero" doc:"When a call last failed."`
	LookedAt   time.Time      `json:"lookedAt,omitzero" doc:"When the target was last observed or confirmed something."`
	UpdatedAt  time.Time      `json:"updatedAt,omitzero"`
	Acked      *Acked         `json:"acked,omitempty"`
	Observed   *Observed      `json:"observed,omitempty" doc:"What the target has, of a resource that takes it in."`
	Attempted  []Attempt      `json:"attempted,omitempty" doc:"Content that was sent and not answered; it may still land."`
	DriftPaths []string       `json:"driftPaths,omitempty" doc:"Where the target differs."`
	Suspended  bool           `json:"suspended,omitempty" doc:"The operator's flag."`
	Command    record.Command `json:"command,omitempty" enum:"accept,force" doc:"An operator's order that waits for its delivery."`
	Conditions []Condition    `json:"conditions,omitempty"`
	History    []Transition   `json:"history,omitempty" doc:"Oldest first, of single resources only."`
}

// Acked is the target's confirmation of one generation.
type Acked struct {
	Generation uint64    `json:"generation"`
	Hash       string    `json:"hash,omitempty" doc:"Of the payload that was desired then, as payloadHash."`
	Missing    bool      `json:"missing,omitempty" doc:"Accepted drift: the target's object is missing and stays so."`
	Ref        string    `json:"ref,omitempty" doc:"How the target names the object."`
	UID        string    `json:"uid,omitempty"`
	Object     string    `json:"object,omitempty" doc:"Identity of the object at the target."`
	Target     string    `json:"target,omitempty" doc:"Identity of the target that confirmed it."`
	At         time.Time `json:"at,omitzero"`
}

// Observed is an object as it was last found at the target.
type Observed struct {
	Content       json.RawMessage `json:"content,omitempty" doc:"As payload, and only where that was asked for; sensitive values read \"***\"."`
	ContentBase64 []byte          `json:"contentBase64,omitempty" doc:"In place of content where that is not JSON."`
	ContentHidden bool            `json:"contentHidden,omitempty" doc:"As payloadHidden."`
	Hash          string          `json:"hash,omitempty" doc:"Of the content, as payloadHash."`
	Cursor        string          `json:"cursor,omitempty" doc:"How far the target's changes were known then, where it says so."`
	At            time.Time       `json:"at,omitzero"`
}

// Attempt is content that was sent and not answered.
type Attempt struct {
	Generation uint64    `json:"generation"`
	Hash       string    `json:"hash,omitempty" doc:"As payloadHash."`
	Delete     bool      `json:"delete,omitempty"`
	Deadline   time.Time `json:"deadline,omitzero" doc:"After it the request can't land any more."`
}

// Condition is one aspect of a resource, in Kubernetes style.
type Condition struct {
	Type               string        `json:"type"`
	Status             record.Truth  `json:"status" enum:"True,False,Unknown"`
	Reason             record.Reason `json:"reason,omitempty"`
	Message            string        `json:"message,omitempty"`
	LastTransitionTime time.Time     `json:"lastTransitionTime,omitzero"`
	ObservedGeneration uint64        `json:"observedGeneration,omitempty"`
}

// Transition is one line of a resource's history.
type Transition struct {
	At          time.Time     `json:"at,omitzero"`
	Phase       record.Phase  `json:"phase"`
	Reason      record.Reason `json:"reason,omitempty"`
	Message     string        `json:"message,omitempty"`
	Generation  uint64        `json:"generation"`
	TookSeconds float64       `json:"tookSeconds,omitempty" doc:"Of the delivery that led to it."`
}

// Page is a part of a list, in key order.
type Page struct {
	Items []Resource `json:"items" nullable:"false"`
	Next  string     `json:"next,omitempty" doc:"Give it as page to get the next part; absent: this was the last."`
	Token string     `json:"token" doc:"Starts a watch that misses nothing that happened after this page was begun. Use the one of the first page."`
}

// WatchEvent is one event of a watch: a resource's newest state, without
// payload and history.
type WatchEvent struct {
	Removed  bool     `json:"removed,omitempty" doc:"The resource is gone; only its sink and key are set."`
	Resource Resource `json:"resource"`
	Token    string   `json:"token" doc:"Resumes the watch after this event."`
}

// WaitResult says how a wait ended.
type WaitResult struct {
	Done       bool          `json:"done" doc:"The generation, or a newer one, is acknowledged, or the resource is gone."`
	Gone       bool          `json:"gone,omitempty"`
	TimedOut   bool          `json:"timedOut,omitempty" doc:"Nothing was decided within the timeout; ask again."`
	Phase      record.Phase  `json:"phase,omitempty"`
	Reason     record.Reason `json:"reason,omitempty"`
	Message    string        `json:"message,omitempty"`
	Generation uint64        `json:"generation,omitempty" doc:"The one that phase speaks of."`
}

// Sink is a target's state.
type Sink struct {
	Name            string               `json:"name"`
	Configured      bool                 `json:"configured" doc:"False: it left the configuration and has resources still."`
	Plugin          string               `json:"plugin,omitempty" doc:"Name and version."`
	Digest          string               `json:"digest,omitempty" doc:"SHA-256 of the plugin's module, in hexadecimal digits."`
	Target          string               `json:"target,omitempty" doc:"Identity of what it talks to."`
	Direction       record.Direction     `json:"direction,omitempty" enum:"outbound,inbound,both" doc:"Of its resources that say nothing themselves; absent: outbound."`
	NotReady        string               `json:"notReady,omitempty" doc:"Why the plugin can't be called yet: its target did not answer when it was configured. That is tried again; what is put meanwhile waits."`
	Suspended       bool                 `json:"suspended,omitempty" doc:"All calls are held."`
	SuspendReason   record.Reason        `json:"suspendReason,omitempty"`
	Counts          map[record.Phase]int `json:"counts" doc:"Resources by phase; a phase without any may be absent."`
	Totals          SinkTotals           `json:"totals"`
	InFlight        int                  `json:"inFlight" doc:"Calls under way."`
	Waiting         Waiting              `json:"waiting"`
	Breaker         string               `json:"breaker" doc:"State of the circuit breaker: closed, open or half-open (a probe is in flight)."`
	NextProbe       time.Time            `json:"nextProbe,omitzero" doc:"When an open breaker lets a call through."`
	PausedUntil     time.Time            `json:"pausedUntil,omitzero" doc:"The target asked for a pause (Retry-After)."`
	OldestUnacked   time.Time            `json:"oldestUnacked,omitzero"`
	LastError       string               `json:"lastError,omitempty"`
	LastErrorStatus string               `json:"lastErrorStatus,omitempty" doc:"How that call ended: unreachable, unauthorized, …"`
	LastErrorAt     time.Time            `json:"lastErrorAt,omitzero"`
}

// SinkTotals are counts since the daemon started; they only grow, so that two looks make
// a rate.
type SinkTotals struct {
	Puts   uint64 `json:"puts" doc:"Puts and Deletes since the daemon started that changed something."`
	Acked  uint64 `json:"acked" doc:"Generations that the target has acknowledged since the daemon started."`
	Failed uint64 `json:"failed" doc:"Deliveries since the daemon started that failed, those included that are tried again."`
}

// Waiting counts what is due, by class.
type Waiting struct {
	Fresh int `json:"fresh"`
	Retry int `json:"retry"`
	Check int `json:"check" doc:"Looks for drift."`
}

// SinkList is every sink, by name.
type SinkList struct {
	Items []Sink `json:"items" nullable:"false"`
}

// DaemonStatus is the daemon's state as a whole.
type DaemonStatus struct {
	Version   string               `json:"version"`
	StartedAt time.Time            `json:"startedAt"`
	Headlines []string             `json:"headlines" nullable:"false" doc:"What needs somebody's attention, most urgent first; empty: nothing."`
	Resources int                  `json:"resources"`
	Counts    map[record.Phase]int `json:"counts" doc:"Resources by phase, over all sinks."`
	Watchers  int                  `json:"watchers"`
	Waiters   int                  `json:"waiters"`
	Sagas     SagaCounts           `json:"sagas"`
	Store     Store                `json:"store"`
	Sinks     []Sink               `json:"sinks" nullable:"false"`
	Sources   []Source             `json:"sources" nullable:"false" doc:"Those of the configuration, and pawls that have sent."`

	Config *ConfigStatus `json:"config,omitempty" doc:"Of the configuration; absent where it can't be read again."`

	Certificate *Certificate `json:"certificate,omitempty" doc:"Of the API; absent where it has no TLS."`

	TokenProblem string `json:"tokenProblem,omitempty" doc:"Why the token file can't be used as it is now; the tokens that it held before stay in force."`
}

// Store is the state of the outbox on disk.
type Store struct {
	Directory    string `json:"directory,omitempty" doc:"Absent: in memory."`
	Epoch        string `json:"epoch" doc:"Random identity of this store's life."`
	Revision     uint64 `json:"revision" doc:"Newest durable one."`
	Lossy        bool   `json:"lossy,omitempty" doc:"It was restored, or opened over a loss that was accepted."`
	Bytes        int64  `json:"bytes" doc:"Size on disk."`
	FreeBytes    int64  `json:"freeBytes" doc:"Free on its file system; -1: unknown."`
	ReserveBytes int64  `json:"reserveBytes" doc:"Below it Puts are refused."`
	GarbageBytes int64  `json:"garbageBytes" doc:"What compaction could free, an estimate; -1: unknown."`
	RefusingPuts bool   `json:"refusingPuts,omitempty"`
	Waiting      int    `json:"waiting" doc:"Changes that wait for their commit."`
}

// Version says what is running.
type Version struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Built   string `json:"built,omitempty"`
	Go      string `json:"go" doc:"Version of Go that it was built with."`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// Explanation says why a resource is where it is and what happens next.
type Explanation struct {
	Text     string   `json:"text" doc:"A paragraph for people; never payload."`
	Resource Resource `json:"resource" doc:"Without payload, with history."`
	Sink     Sink     `json:"sinkStatus"`
}

// Health answers /livez and /readyz.
type Health struct {
	Status string `json:"status" enum:"ok"`
}
