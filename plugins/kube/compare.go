package main

import (
	"bytes"

	"github.com/pawlsync/pawl/plugins/internal/jsondoc"
	pawl "github.com/pawlsync/pawl/sdk/go"
)

// maxPaths bounds how many differing paths are told, maxAsked of how many of them
// it is asked whose they are.
const (
	maxPaths = 32
	maxAsked = 256
)

// difference gathers where something differs.
type difference struct {
	differs bool
	paths   []string
}

// at notes a difference. What lies below a path that is told already adds
// nothing: a walk comes to it right after.
func (d *difference) at(path string) {
	d.differs = true
	if n := len(d.paths); n > 0 && isBelow(path, d.paths[n-1]) || n == maxPaths {
		return
	}
	d.paths = append(d.paths, path)
}

func isBelow(path, parent string) bool {
	return len(path) >= len(parent) && path[:len(parent)] == parent &&
		(len(path) == len(parent) || path[len(parent)] == '/' || path[len(parent)] == '[')
}

// drift compares live with what was recorded of it.
func (s *state) drift(live jsondoc.Value) (d difference) {
	next := 0
	var w walker
	w.leaf = func(l, _ jsondoc.Value, _ bool) {
		if next >= len(s.digests) || !unchanged(s.digests[next], l) {
			d.at(pathOf(w.path))
		}
		next++
	}
	w.walk(s.set, live, jsondoc.Value{})
	return d
}

// missing compares live with a manifest at the fields that the manifest sets.
func missing(set, live, want jsondoc.Value) (d difference) {
	var w walker
	w.leaf = func(l, wanted jsondoc.Value, whole bool) {
		if !same(l, wanted, whole) {
			d.at(pathOf(w.path))
		}
	}
	w.walk(set, live, want)
	return d
}

// same reports whether live is as a manifest wants it at one field.
func same(live, want jsondoc.Value, whole bool) bool {
	switch {
	case live.IsZero() || want.IsZero():
		return live.IsZero() == want.IsZero()
	case !whole:
		return true
	case want.Kind() == jsondoc.Object && hasNoMembers(want):
		return live.Kind() == jsondoc.Object
	}
	return jsondoc.Equal(live, want)
}

// leftovers adds fields that were ours, are still there, and that the manifest
// does not name any more.
func (s *state) leftovers(d *difference, live, want jsondoc.Value) {
	if s.set.IsZero() {
		return
	}
	var w walker
	w.leaf = func(l, wanted jsondoc.Value, _ bool) {
		if !l.IsZero() && wanted.IsZero() {
			d.at(pathOf(w.path))
		}
	}
	w.walk(s.set, live, want)
}

// judge says how live compares with what r knows. Where that is the content that
// was acknowledged, the values that the server told then count, and not what the
// manifest says: "1000m" is stored as "1".
func (a *adapter) judge(o *pawl.Observation, r *pawl.Request, want *desired, live jsondoc.Value) {
	owners, version := ownersOf(live), textOf(live, "apiVersion")
	var before *state
	if r.Acked != nil {
		before = decodeState(r.Acked.AdapterState)
	}
	// The fields may be called otherwise in another version.
	renamed := before != nil && before.apiVersion != version
	if renamed {
		before = nil
	}
	var now *state
	if before != nil {
		var drift difference
		now, drift = before.again(live, owners, a.cfg.manager)
		o.MatchAcked = pawl.TriOf(!drift.differs)
		asAcked := want == nil || bytes.Equal(r.Acked.ContentHash, r.ContentHash)
		if asAcked && (!drift.differs || !before.set.IsZero()) {
			o.MatchDesired, o.Differing = o.MatchAcked, drift.paths
			a.finish(o, now)
			return
		}
	}
	if want == nil { // a tombstone that nothing is known of
		return
	}
	set := setOf(want.root, owners)
	d := missing(set, live, want.root)
	if before != nil {
		before.leftovers(&d, live, want.root)
	}
	if now == nil || !d.differs {
		now = record(version, set, live, want.root)
	}
	a.finish(o, now)
	if renamed && d.differs && r.Acked.Generation != r.Generation {
		o.AsFound = "" // nothing can be said, and the engine applies what is newer
		return
	}
	o.MatchDesired, o.Differing = pawl.TriOf(!d.differs), d.paths
	a.judgeAttempts(o, r, owners, live)
	if r.ConflictPolicy == pawl.ReportOnly && !r.Force && d.differs {
		a.judgeConflicts(o, set, owners, live, want.root)
	}
}

// finish puts a state into an observation.
func (a *adapter) finish(o *pawl.Observation, s *state) {
	o.AdapterState = s.encode()
	o.AsFound = hex64(uint64(jsondoc.DigestBytes(string(o.AdapterState))))
}

// again holds live against a state, and returns the state of live at its fields.
func (s *state) again(live jsondoc.Value, owners []owner, manager string) (*state, difference) {
	if !s.set.IsZero() {
		drift := s.drift(live)
		if !drift.differs {
			return s, drift
		}
		return record(s.apiVersion, s.set, live, jsondoc.Value{}), drift
	}
	set := ours(owners, manager)
	if set.IsZero() {
		return s, difference{differs: true, paths: []string{"/"}}
	}
	now := record(s.apiVersion, set, live, jsondoc.Value{})
	if now.summed() == s.sum {
		return s, difference{}
	}
	return now, difference{differs: true, paths: []string{"/"}}
}

// judgeAttempts compares live with what was sent and not answered.
func (a *adapter) judgeAttempts(o *pawl.Observation, r *pawl.Request, owners []owner, live jsondoc.Value) {
	for i := range r.Attempted {
		at := &r.Attempted[i]
		match := pawl.Unknown
		switch {
		case bytes.Equal(at.ContentHash, r.ContentHash):
			match = o.MatchDesired
		case r.Acked != nil && bytes.Equal(at.ContentHash, r.Acked.ContentHash):
			match = o.MatchAcked
		case at.HasPayload:
			if sent, err := readManifest(at.Payload); err == nil {
				d := missing(setOf(sent.root, owners), live, sent.root)
				match = pawl.TriOf(!d.differs)
			}
		}
		if o.MatchAttempted != pawl.Yes && match != pawl.Unknown {
			o.MatchAttempted = match
		}
	}
}

// judgeConflicts looks whether an Apply that does not force would be refused, for
// a field that differs is somebody else's. That is told as drift, whatever the
// rest of the object is like.
func (a *adapter) judgeConflicts(o *pawl.Observation, set jsondoc.Value, owners []owner, live, want jsondoc.Value) {
	var told []string
	asked := 0
	var w walker
	w.leaf = func(l, wanted jsondoc.Value, whole bool) {
		if l.IsZero() || same(l, wanted, whole) || len(told) == maxPaths || asked == maxAsked {
			return
		}
		asked++
		for _, other := range owners {
			if ours := other.apply && other.manager == a.cfg.manager; !ours && owns(other.fields, w.path) {
				told = append(told, pathOf(w.path)+" (managed by "+other.manager+")")
				return
			}
		}
	}
	w.walk(set, live, want)
	if len(told) > 0 {
		o.MatchAcked, o.MatchAttempted, o.Differing = pawl.No, pawl.No, told
	}
}

// owns reports whether a set has a field.
func owns(set jsondoc.Value, path []string) bool {
	for _, element := range path {
		sub, ok := set.Get(element)
		if !ok && element[0] == 'k' {
			sub, ok = keyed(set, element)
		}
		if !ok {
			return false
		}
		set = sub
	}
	return true
}

// keyed finds an item of a list whose keys may be written otherwise.
func keyed(set jsondoc.Value, element string) (jsondoc.Value, bool) {
	want, err := jsondoc.Parse(element[2:])
	if err != nil {
		return jsondoc.Value{}, false
	}
	for e, sub := range set.Members {
		if e[0] != 'k' {
			continue
		}
		if have, err := jsondoc.Parse(e[2:]); err == nil && hasKeys(have.Root(), want.Root()) {
			return sub, true
		}
	}
	return jsondoc.Value{}, false
}
