package source

import (
	"cmp"
	"slices"
	"strings"

	"github.com/pawlsync/pawl/engine/record"
)

// Problem is one thing that a source has and the engine does not take.
type Problem struct {
	Key     record.Key // zero where it can't be read
	Place   string
	Message string
	// Refused: the engine refused it; false: the source could not read it.
	Refused bool
}

// problems are what is wrong with a source's set, each under its key or, where that
// can't be read, its place.
type problems map[record.Key]Problem

// messageMax bounds what is kept of a message, in bytes.
const messageMax = 512

func problemID(key record.Key, place string) record.Key {
	if key != (record.Key{}) {
		return key
	}
	return record.Key{Name: place}
}

// add notes a problem, behind what is wrong with the same key at other places.
func (ps problems) add(p Problem) {
	id := problemID(p.Key, p.Place)
	if first, ok := ps[id]; ok && first.Place != p.Place {
		p.Message = first.Message + "; " + p.Place + ": " + p.Message
		p.Place, p.Refused = first.Place, first.Refused || p.Refused
	}
	if len(p.Message) > messageMax {
		p.Message = strings.ToValidUTF8(p.Message[:messageMax], "") + "…"
	}
	ps[id] = p
}

// clear drops what stands of a key, and of a place.
func (ps problems) clear(key record.Key, place string) {
	if len(ps) == 0 {
		return
	}
	delete(ps, problemID(key, place))
	if place != "" {
		delete(ps, record.Key{Name: place})
	}
}

// sorted returns the first limit of ps by place and key.
func (ps problems) sorted(limit int) []Problem {
	all := make([]Problem, 0, len(ps))
	for _, p := range ps {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.Place, b.Place), a.Key.Compare(b.Key)) })
	return all[:min(limit, len(all))]
}
