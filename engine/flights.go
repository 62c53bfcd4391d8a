package engine

import (
	"sync"
	"sync/atomic"

	"github.com/pawlsync/pawl/engine/record"
)

// flight is one delivery under way, from its dispatch until its outcome is stored.
type flight struct {
	generation atomic.Uint64 // that is delivered; 0: not loaded yet, or its outcome is in the record
	overtaken  atomic.Bool   // something about the resource was committed since its record was last read
	landed     chan struct{}
}

// read notes that the record was read, at this generation. It is called while the
// store fixes the key's order, so that what is committed later overtakes it.
func (f *flight) read(generation uint64) {
	f.generation.Store(generation)
	f.overtaken.Store(false)
}

// flights are the deliveries under way, and those whose outcome was lost. They have
// a lock of their own, taken after Engine.mu where both are held: every Put of a
// known resource looks here.
type flights struct {
	mu    sync.Mutex
	byKey map[record.Key]*flight
	lost  map[record.Key]uint64 // generations whose delivery had an outcome that could not be stored
}

func newFlights() flights {
	return flights{byKey: map[record.Key]*flight{}, lost: map[record.Key]uint64{}}
}

// depart registers a new delivery.
func (f *flights) depart(key record.Key) *flight {
	fl := &flight{landed: make(chan struct{})}
	f.mu.Lock()
	f.byKey[key] = fl
	f.mu.Unlock()
	return fl
}

// of returns the delivery of key that is under way, or nil.
func (f *flights) of(key record.Key) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byKey[key]
}

// land takes a delivery off the books and reports whether it was still there. A key
// whose record was removed, and that was put again since, may be in flight anew.
func (f *flights) land(key record.Key, fl *flight) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byKey[key] != fl {
		return false
	}
	delete(f.byKey, key)
	return true
}

// committed notes that something about key became durable.
func (f *flights) committed(key record.Key, removed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl := f.byKey[key]; fl != nil {
		fl.overtaken.Store(true)
	}
	if removed {
		delete(f.lost, key)
	}
}

// lose notes that the outcome of delivering a generation could not be stored; find,
// that the record says what became of it.
func (f *flights) lose(key record.Key, generation uint64) {
	f.mu.Lock()
	f.lost[key] = generation
	f.mu.Unlock()
}

func (f *flights) find(key record.Key) {
	f.mu.Lock()
	delete(f.lost, key)
	f.mu.Unlock()
}

// wasLost reports whether the outcome of delivering a generation was lost.
func (f *flights) wasLost(key record.Key, generation uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost[key] == generation
}

// maybeSent reports whether a call about a generation is under way, or had an
// outcome that was lost.
func (f *flights) maybeSent(key record.Key, generation uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl := f.byKey[key]
	return fl != nil && fl.generation.Load() == generation || f.lost[key] == generation
}

// lostAny reports whether the outcome of any delivery was lost.
func (f *flights) lostAny() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.lost) > 0
}
