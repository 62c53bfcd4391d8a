package main

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"github.com/pawlsync/pawl/plugins/internal/jsondoc"
	pawl "github.com/pawlsync/pawl/sdk/go"
)

// state is what an ack keeps: which rows are the resource's business. With it a
// row that is desired no more is removed, and a deletion knows its rows. Where
// rows are pruned the scope says it all; else their names are kept.
type state struct {
	scope    *scope
	owned    []string // keys of rows that we put there; sorted
	unwanted []string // keys of rows that must not be there; sorted
}

// stateOf reads what was kept with an ack; nil is an ack that never was.
func stateOf(a *pawl.Acked) (*state, error) {
	s := &state{}
	if a == nil || len(a.AdapterState) == 0 {
		return s, nil
	}
	if !s.decode(a.AdapterState) {
		return nil, pawl.Rejected("what was kept with the last acknowledgement can't be read; forget the resource and put it again")
	}
	return s, nil
}

// state is what an ack of d keeps, beside the rows that are left over from before.
func (d *desired) state(leftover []string) *state {
	s := &state{scope: d.scope, owned: leftover}
	for i := range d.want {
		if d.scope == nil {
			s.owned = append(s.owned, d.want[i].key)
		}
	}
	for i := range d.unwanted {
		s.unwanted = append(s.unwanted, d.unwanted[i].key)
	}
	slices.Sort(s.owned)
	slices.Sort(s.unwanted)
	return s
}

// stateVersion is the first byte of the encoding.
const stateVersion = 1

// encode writes the state. Names are sorted, and each is written as what differs from the one
// before: 10 bytes rather than 50.
func (s *state) encode() ([]byte, error) {
	b := []byte{stateVersion}
	if s.scope == nil {
		b = append(b, 0)
	} else {
		b = append(b, 1)
		b = appendText(appendText(b, s.scope.resourceType), s.scope.resourceID)
		b = appendNames(appendNames(b, s.scope.relations), s.scope.subjectTypes)
	}
	b = appendNames(appendNames(b, s.owned), s.unwanted)
	if len(b) > pawl.MaxAdapterStateBytes {
		return nil, pawl.Rejected("the names of " + strconv.Itoa(len(s.owned)+len(s.unwanted)) + " relationships take " + strconv.Itoa(len(b)) +
			" bytes of what is kept with an acknowledgement, more than the " + strconv.Itoa(pawl.MaxAdapterStateBytes) +
			" there are: spread them over more resources, or let the resource own its object (\"prune\": true), which keeps no names")
	}
	return b, nil
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendNames(b []byte, names []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(names)))
	last := ""
	for _, name := range names {
		b = appendName(b, last, name)
		last = name
	}
	return b
}

// appendName writes a name as what differs from the last one.
func appendName(b []byte, last, name string) []byte {
	n := 0
	for n < len(name) && n < len(last) && name[n] == last[n] {
		n++
	}
	return appendText(binary.AppendUvarint(b, uint64(n)), name[n:])
}

// reader takes apart what encode wrote.
type reader struct {
	b   []byte
	err bool
}

func (r *reader) number() int {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > math.MaxInt32 {
		r.err, r.b = true, nil
		return 0
	}
	r.b = r.b[size:]
	return int(n)
}

func (r *reader) text() string {
	n := r.number()
	if n > len(r.b) {
		r.err, r.b = true, nil
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

func (r *reader) names() (names []string) {
	last := ""
	for n := r.number(); n > 0 && !r.err; n-- {
		last = r.name(last)
		names = append(names, last)
	}
	return names
}

func (r *reader) name(last string) string {
	shared := r.number()
	if shared > len(last) {
		r.err, r.b = true, nil
		return ""
	}
	return last[:shared] + r.text()
}

func (s *state) decode(b []byte) bool {
	if len(b) < 2 || b[0] != stateVersion || b[1] > 1 {
		return false
	}
	r := &reader{b: b[2:]}
	if b[1] == 1 {
		s.scope = &scope{}
		s.scope.resourceType, s.scope.resourceID = r.text(), r.text()
		s.scope.relations, s.scope.subjectTypes = r.names(), r.names()
	}
	s.owned, s.unwanted = r.names(), r.names()
	return !r.err && len(r.b) == 0
}

func (s *state) isEmpty() bool { return s.scope == nil && len(s.owned) == 0 }

// owns reports whether a row is one that we put there.
func (s *state) owns(r *relationship) bool {
	if s.scope != nil && s.scope.has(&r.Row) {
		return true
	}
	_, ok := slices.BinarySearch(s.owned, r.key)
	return ok
}

// minds reports whether a row is the resource's business, there or not.
func (s *state) minds(r *relationship) bool {
	if s.owns(r) {
		return true
	}
	_, ok := slices.BinarySearch(s.unwanted, r.key)
	return ok
}

// asFound sums up rows: equal sets have equal sums, whatever their order. It tells
// whether something changed; it is no defence against somebody who wants to hide it.
type asFound struct {
	n   int
	sum jsondoc.Digest
}

func (f *asFound) add(r *relationship) {
	f.n++
	f.sum += r.digest()
}

func (f *asFound) String() string {
	return strconv.Itoa(f.n) + "-" + strconv.FormatUint(uint64(f.sum), 16)
}
