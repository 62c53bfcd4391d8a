package badger

import "time"

// restAfter is how long a store goes unused until it gives back the memory of its
// mapped files: at least once, at most twice as long.
const restAfter = time.Minute

// restLoop gives back what a store holds that nobody uses. Badger reads and writes
// through mapped files, whose pages count as the process's memory from the first touch
// until somebody else needs them: after a burst that is the whole store.
func (s *Store) restLoop() {
	var r rest
	for {
		select {
		case <-time.After(restAfter):
		case <-s.life.Done():
			return
		}
		if r.due(s.uses.Load()) {
			releaseMapped(s.dataDir())
		}
	}
}

// rest says when a store may rest.
type rest struct {
	uses   uint64 // at the last look
	rested bool   // since then
}

// due is called at intervals with how often the store was used in all. It says true once
// after an interval without any use.
func (r *rest) due(uses uint64) bool {
	if uses != r.uses {
		r.uses, r.rested = uses, false
		return false
	}
	due := !r.rested
	r.rested = true
	return due
}
