package schedule

import (
	"slices"
	"strings"

	"github.com/pawlsync/pawl/engine/record"
)

// Selection finds those resources of the smallest keys that fit. It looks at every
// entry, in portions, so that who guards the schedule need not do so throughout. What
// changes between two portions is found as it was or as it is, or, where its entry
// came to be after the place was passed, not at all.
type Selection struct {
	Sink   string      // "": all
	Prefix string      // of the key's name
	After  *record.Key // exclusive; nil: from the first
	Limit  int         // how many are wanted
	// Fits says whether a resource of that sink, phase and state is wanted. flying:
	// its delivery is under way, or not settled.
	Fits func(sink string, phase record.Phase, flying bool) bool

	next  uint32       // the entry to look at
	found []record.Key // up to twice Limit, in no order beyond Limit
	bound record.Key   // once there are Limit: the largest of those that count
	full  bool
}

// Look looks at up to n more entries, and reports whether there are more.
func (s *Schedule) Look(sel *Selection, n int) (more bool) {
	end := min(s.slab.next, sel.next+uint32(n))
	for ; sel.next < end; sel.next++ {
		e := s.slab.at(sel.next)
		if e.sink == none || e.is(removed) {
			continue
		}
		sink := s.sinks[e.sink].name
		if sel.Sink != "" && sink != sel.Sink || !sel.Fits(sink, phases[e.phase], !e.waiting()) {
			continue
		}
		name := s.names.bytes(e.name, int(e.size))
		if begins(name, sel.Prefix) && (sel.After == nil || beyond(sink, name, sel.After)) &&
			!(sel.full && beyond(sink, name, &sel.bound)) {
			sel.add(record.Key{Sink: sink, Name: string(name)})
		}
	}
	return sel.next < s.slab.next
}

// SinkNames returns the names of all sinks that have entries, in order.
func (s *Schedule) SinkNames() []string {
	var names []string
	for _, k := range s.sinks {
		if k != nil && k.entries > 0 {
			names = append(names, k.name)
		}
	}
	slices.Sort(names)
	return names
}

func begins(name []byte, prefix string) bool {
	return len(name) >= len(prefix) && string(name[:len(prefix)]) == prefix
}

// beyond reports whether a key is larger than k.
func beyond(sink string, name []byte, k *record.Key) bool {
	if c := strings.Compare(sink, k.Sink); c != 0 {
		return c > 0
	}
	return string(name) > k.Name
}

// add takes k in. Now and then it drops what is too many, so that each costs little,
// in whichever order they come.
func (sel *Selection) add(k record.Key) {
	sel.found = append(sel.found, k)
	if len(sel.found) >= 2*sel.Limit {
		sel.cut()
	}
}

func (sel *Selection) cut() {
	slices.SortFunc(sel.found, record.Key.Compare)
	sel.found = slices.Compact(sel.found) // one that moved to another entry meanwhile is there twice
	if len(sel.found) >= sel.Limit {
		sel.found = sel.found[:sel.Limit]
		sel.bound, sel.full = sel.found[sel.Limit-1], true
	}
}

// Keys returns what was found, in key order, at most Limit.
func (sel *Selection) Keys() []record.Key {
	sel.cut()
	return sel.found
}
