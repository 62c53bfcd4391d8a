package daemon

import (
	"errors"
	"sync"
)

// parts are what sinks run on, of one sort, plugins say: of each name the one in force,
// and for a while those that it replaced. One is closed when it is not in force any
// more and no sink uses it.
type parts[T comparable] struct {
	close func(T) error

	mu      sync.Mutex
	inForce map[string]T
	users   map[T]int // of every one that is open: sinks that run on it, or wait until they can
}

func newParts[T comparable](close func(T) error) *parts[T] {
	return &parts[T]{close: close, inForce: map[string]T{}, users: map[T]int{}}
}

// current is the one in force, or nil.
func (ps *parts[T]) current(name string) T {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.inForce[name]
}

// add puts a part in force, in place of the one before, which is closed if nobody uses
// it.
func (ps *parts[T]) add(name string, part T) error {
	ps.mu.Lock()
	before := ps.inForce[name]
	ps.inForce[name] = part
	if _, open := ps.users[part]; !open {
		ps.users[part] = 0
	}
	ps.mu.Unlock()
	if before == part {
		return nil
	}
	return ps.closeUnused(before)
}

// keep takes out of force what is not one of names.
func (ps *parts[T]) keep(names map[string]bool) error {
	ps.mu.Lock()
	var dropped []T
	for name, part := range ps.inForce {
		if !names[name] {
			delete(ps.inForce, name)
			dropped = append(dropped, part)
		}
	}
	ps.mu.Unlock()
	var errs []error
	for _, part := range dropped {
		errs = append(errs, ps.closeUnused(part))
	}
	return errors.Join(errs...)
}

// use counts one more sink that runs on part; leave, one less.
func (ps *parts[T]) use(part T) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.users[part]++
}

func (ps *parts[T]) leave(part T) error {
	ps.mu.Lock()
	ps.users[part]--
	ps.mu.Unlock()
	return ps.closeUnused(part)
}

// closeUnused closes part, if it is of no more use.
func (ps *parts[T]) closeUnused(part T) error {
	ps.mu.Lock()
	users, open := ps.users[part]
	for _, p := range ps.inForce {
		open = open && p != part
	}
	open = open && users == 0
	if open {
		delete(ps.users, part)
	}
	ps.mu.Unlock()
	if !open {
		return nil
	}
	return ps.close(part)
}

// closeAll closes every part; the sinks are closed.
func (ps *parts[T]) closeAll() error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var errs []error
	for part := range ps.users {
		errs = append(errs, ps.close(part))
	}
	clear(ps.users)
	clear(ps.inForce)
	return errors.Join(errs...)
}
