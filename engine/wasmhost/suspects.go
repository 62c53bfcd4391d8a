package wasmhost

import (
	"slices"
	"sync"

	"github.com/pawlsync/pawl/engine/sink"
)

// maxSuspects bounds the set of keys that run alone next; beyond it a suspect
// runs among the others, as a call that nobody knows anything about does.
const maxSuspects = 16384

// suspects are the keys whose calls took part in a fault, and run alone next. A
// sink shares them with the one that it takes the place of: a key is not trusted
// more because another version of the plugin meets it.
type suspects struct {
	mu   sync.Mutex
	keys map[string]struct{}
}

func newSuspects() *suspects { return &suspects{keys: make(map[string]struct{})} }

// has reports whether a request of c took part in a fault before.
func (s *suspects) has(c *call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.keys) == 0 {
		return false
	}
	return slices.ContainsFunc(c.reqs, func(r *sink.Request) bool {
		_, ok := s.keys[r.Key.Name]
		return ok
	})
}

// add makes the next calls for c's keys run alone; clear ends that.
func (s *suspects) add(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range c.reqs {
		if len(s.keys) < maxSuspects {
			s.keys[r.Key.Name] = struct{}{}
		}
	}
}

func (s *suspects) clear(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range c.reqs {
		delete(s.keys, r.Key.Name)
	}
}
