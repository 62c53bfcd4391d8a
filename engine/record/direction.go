package record

import (
	"errors"
	"fmt"
	"time"
)

// Direction says which way a resource is kept in sync.
type Direction string

// The directions. The empty one means "as the sink says".
const (
	Outbound Direction = "outbound" // what the source wants goes to the target
	Inbound  Direction = "inbound"  // what the target has is taken in; nothing is ever sent (R31)
	Both     Direction = "both"     // each side's changes go to the other (R32)
)

// ErrDirection is wrapped by the error about an unknown direction.
var ErrDirection = errors.New("unknown direction")

// Validate says what is wrong with d; the empty direction is right.
func (d Direction) Validate() error {
	switch d {
	case "", Outbound, Inbound, Both:
		return nil
	}
	return fmt.Errorf("%w: %q; use outbound, inbound or both", ErrDirection, d)
}

// TakesIn reports whether what the target has becomes ours.
func (d Direction) TakesIn() bool { return d == Inbound || d == Both }

// Origin says whose idea a desired state was.
type Origin string

// The origins.
const (
	FromSource Origin = ""       // it was put
	FromTarget Origin = "target" // it was found at the target, and taken over (R32)
)

// Observed is an object as it was last found at the target.
type Observed struct {
	Content []byte // in the form of a payload; nil in lists and watches
	Hash    Hash   // of Content
	Cursor  string // how far the target's changes were known then, where it says so
	At      time.Time
}
