package source

import (
	"iter"

	"github.com/pawlsync/pawl/engine/record"
)

// keySet holds the keys that one source owns, in less than 100 bytes each beside the
// name and the place.
type keySet struct {
	sinks map[string]map[string]mark // by sink and name
	n     int
}

// mark is when and where a key was last told.
type mark struct {
	set   uint32 // number of the full set; 0: not since the start
	place string
}

func newKeySet() keySet { return keySet{sinks: map[string]map[string]mark{}} }

func (s *keySet) get(key record.Key) (mark, bool) {
	m, ok := s.sinks[key.Sink][key.Name]
	return m, ok
}

func (s *keySet) put(key record.Key, m mark) {
	names := s.sinks[key.Sink]
	if names == nil {
		names = map[string]mark{}
		s.sinks[key.Sink] = names
	}
	before := len(names)
	names[key.Name] = m
	s.n += len(names) - before
}

func (s *keySet) remove(key record.Key) {
	names := s.sinks[key.Sink]
	before := len(names)
	delete(names, key.Name)
	s.n -= before - len(names)
}

func (s *keySet) all() iter.Seq2[record.Key, mark] {
	return func(yield func(record.Key, mark) bool) {
		for sink, names := range s.sinks {
			for name, m := range names {
				if !yield(record.Key{Sink: sink, Name: name}, m) {
					return
				}
			}
		}
	}
}
