package source

import (
	"encoding/json"
	"fmt"
	"time"
)

// FuseOptions say how much a source may delete by itself. The zero value allows
// nothing; the configuration has the defaults.
type FuseOptions struct {
	Window  time.Duration // deletions are counted over it
	Share   float64       // of the largest set within the window, from 0 to 1
	AtLeast int           // deletions that are always allowed
}

// Fuse counts what one source deletes in a sliding window. It is a pure value: time
// comes in, and who uses it makes it durable. The window moves in steps of a
// sixtieth of its length, so that a deletion counts for up to a step longer.
type Fuse struct {
	o     FuseOptions
	slots []fuseSlot // by time, the newest last
	size  int        // the newest that was seen
	blown bool
}

// fuseSlot is what happened within one step.
type fuseSlot struct {
	At      int64 `json:"at"` // its begin, in nanoseconds since 1970
	Deleted int   `json:"deleted,omitempty"`
	Largest int   `json:"largest,omitempty"` // number of resources that the source had at most
}

const fuseSteps = 60

// Allowed is how many may be deleted within a window in which deleted were, of a source
// that had largest resources at most.
func (o FuseOptions) Allowed(deleted, largest int) int {
	allowed := max(o.AtLeast, int(o.Share*float64(largest)))
	if o.Share >= 1 { // everything, however often it comes and goes
		allowed = max(allowed, deleted+largest)
	}
	return allowed
}

// NewFuse returns a fuse that has seen nothing.
func NewFuse(o FuseOptions) *Fuse { return &Fuse{o: o} }

// Saw notes how many resources the source has at the moment.
func (f *Fuse) Saw(now time.Time, size int) {
	s := f.slot(now)
	f.size = size
	s.Largest = max(s.Largest, size)
}

// Room is how many may be deleted now; 0 while it is blown.
func (f *Fuse) Room(now time.Time) int {
	if f.blown {
		return 0
	}
	deleted, allowed, _ := f.Window(now)
	return max(0, allowed-deleted)
}

// Window returns how many were deleted in the window, how many may be in all, and
// the largest number of resources that the source had in it.
func (f *Fuse) Window(now time.Time) (deleted, allowed, largest int) {
	f.slot(now)
	for _, s := range f.slots {
		deleted += s.Deleted
		largest = max(largest, s.Largest)
	}
	return deleted, f.o.Allowed(deleted, largest), largest
}

// Count notes n deletions; a negative n takes back those that did not happen.
func (f *Fuse) Count(now time.Time, n int) {
	s := f.slot(now)
	s.Deleted = max(0, s.Deleted+n)
}

// Blow makes Room 0 until Mend: once something is held somebody has to look, and
// what comes after it is no smaller mistake for coming later.
func (f *Fuse) Blow() { f.blown = true }

// Mend ends what Blow began.
func (f *Fuse) Mend() { f.blown = false }

// Blown reports whether Blow was called since the last Mend.
func (f *Fuse) Blown() bool { return f.blown }

// slot returns the slot of now, and drops those that have left the window. A clock
// that is set back neither lengthens nor ends what was counted: slots of the future
// become the present's.
func (f *Fuse) slot(now time.Time) *fuseSlot {
	step := max(1, int64(f.o.Window)/fuseSteps)
	at := now.UnixNano() - now.UnixNano()%step
	kept := f.slots[:0]
	for _, s := range f.slots {
		s.At = min(s.At, at)
		if s.At+step > now.UnixNano()-int64(f.o.Window) {
			kept = append(kept, s)
		}
	}
	f.slots = kept
	if n := len(f.slots); n == 0 || f.slots[n-1].At < at {
		f.slots = append(f.slots, fuseSlot{At: at, Largest: f.size})
	}
	return &f.slots[len(f.slots)-1]
}

// fuseNote is a Fuse as it is stored.
type fuseNote struct {
	Blown bool       `json:"blown,omitempty"`
	Size  int        `json:"size,omitempty"`
	Slots []fuseSlot `json:"slots,omitempty"`
}

// Note is what a later Fuse goes on from.
func (f *Fuse) Note() []byte {
	raw, err := json.Marshal(fuseNote{Blown: f.blown, Size: f.size, Slots: f.slots})
	if err != nil {
		panic(err) // it has numbers only
	}
	return raw
}

// Recall takes over what Note returned; nothing where note is empty. Another length
// of the window counts from now on.
func (f *Fuse) Recall(note []byte) error {
	if len(note) == 0 {
		return nil
	}
	var n fuseNote
	if err := json.Unmarshal(note, &n); err != nil {
		return fmt.Errorf("what the fuse had counted can't be read: %w", err)
	}
	f.blown, f.size, f.slots = n.Blown, n.Size, n.Slots
	return nil
}
