// Package pawl is for authors of Pawl plugins: adapters that bring one kind of
// target to the state that is desired of it.
//
// An adapter implements Observe, Apply and Delete and registers itself:
//
//	type adapter struct{ pawl.Unimplemented }
//
//	func (adapter) Observe(ctx context.Context, r *pawl.Request) (pawl.Observation, error)
//	func (adapter) Apply(ctx context.Context, r *pawl.Request) (pawl.Observation, error)
//	func (adapter) Delete(ctx context.Context, r *pawl.Request) error
//
//	func init() { pawl.Register(manifest, adapter{}) }
//	func main() {}
//
// It is built with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o adapter.wasm .
//
// and tested as any Go code with package pawltest.
//
// # Calls
//
// One instance of a plugin serves many calls at once, each on a goroutine of
// its own and never two at a time for one resource. A call that waits in Do or
// Sleep is parked and costs no more than its memory, so write it as if it
// blocked. All goroutines share one thread: a loop without I/O delays the others.
//
// A call's context ends when the host gives the call up. Guest timers
// (time.After, context.WithTimeout) work, but are looked at every few
// milliseconds only; Do takes the deadline of a derived context along to the
// host, which keeps it exactly.
//
// # Outcomes
//
// A nil error is OK; of Observe with Exists=false it is "not found". Any other
// outcome is an *Error (see Rejected, Conflict, RetryAfter and so on), a bare
// Status, or a *Failure of Do passed on. An error of any other type means "try
// again later". A panic is logged and traps the whole instance, which the host
// counts as the plugin's fault and whose other calls it runs again; so return
// an error for what depends on input.
package pawl

import "context"

// Adapter talks to one kind of target. Its methods are called for many
// resources at once, on one thread.
type Adapter interface {
	// Observe looks at the target's object and changes nothing. An object that
	// does not exist is Observation{} with a nil error, or NotFound.
	Observe(ctx context.Context, r *Request) (Observation, error)
	// Apply makes the target's object what r.Payload says. It finds the object
	// by r.Key: a second Apply never creates a second object. The Observation
	// says what is known of the object now; it may be empty.
	Apply(ctx context.Context, r *Request) (Observation, error)
	// Delete removes the object; one that does not exist is nil or NotFound.
	Delete(ctx context.Context, r *Request) error
}

// Configurer is an Adapter that wants its config. Configure is called once per
// instance, before any other method. An error refuses the sink: make it say
// which key is wrong and what would be right.
type Configurer interface {
	Configure(ctx context.Context, c Config) (Configured, error)
}

// BatchItem is the outcome of one request of a batch.
type BatchItem struct {
	Observation Observation
	Err         error
}

// ApplyBatcher is an Adapter that applies several resources in one go, at most
// Manifest.BatchMax. It answers with one item per request, in order, or with an
// error for the batch as a whole, which the engine then tries in halves.
type ApplyBatcher interface {
	ApplyBatch(ctx context.Context, rs []*Request) ([]BatchItem, error)
}

// Restorer is an Adapter that undoes what a saga's step did. Which of Apply and
// Delete it undoes stands in Manifest.Undoable.
type Restorer interface {
	// Restore makes the object what r.Saga.Before says, if what the step wrote still
	// stands: r.Payload, empty for a deletion. Nil: it is as before, also where it was
	// already. Conflict: somebody changed it since, and it was left as it is. Where
	// nothing was there before, only an object that bears the mark is removed, by its
	// identity. The Observation says what is known of the object now; it may be empty.
	Restore(ctx context.Context, r *Request) (Observation, error)
}

// Unlocker is an Adapter that takes a saga's locks, see Manifest.Lock.
type Unlocker interface {
	// Unlock gives up whatever r.Saga.ID holds at the target, locks and marks, and
	// leaves objects as they are. Nil: there is none of it.
	Unlock(ctx context.Context, r *Request) error
}

// Unimplemented answers every method of Adapter with StatusRejected. Embed it,
// and leave what the target can't do out of Manifest.Ops.
type Unimplemented struct{}

// Observe answers that it is not implemented.
func (Unimplemented) Observe(context.Context, *Request) (Observation, error) {
	return Observation{}, Rejected("the plugin does not implement observe")
}

// Apply answers that it is not implemented.
func (Unimplemented) Apply(context.Context, *Request) (Observation, error) {
	return Observation{}, Rejected("the plugin does not implement apply")
}

// Delete answers that it is not implemented.
func (Unimplemented) Delete(context.Context, *Request) error {
	return Rejected("the plugin does not implement delete")
}

// Register tells the host of the one adapter in this program. Call it from
// init: in a plugin main is never run. Outside of a plugin it does nothing.
func Register(m Manifest, a Adapter) {
	register(m, a)
}
