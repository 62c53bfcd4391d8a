package dir

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/source"
)

// pending is what one look at changes leaves to the next.
type pending struct {
	missed map[string]bool // files that were not there
	relist bool            // they may have been renamed into what nobody told of yet
	doubts map[string]int  // how often a file was found to be changing
	// owed are keys that a file had, by the look that found them missing. They are gone once
	// the tree was listed and nothing in it moved until the look after: a look is no
	// moment, and what it missed at one place may have been on its way to another.
	owed   map[record.Key]int
	look   int
	listed bool // since anything moved
	put    int  // how often deletions were put off
}

func newPending() pending {
	return pending{missed: map[string]bool{}, doubts: map[string]int{}, owed: map[record.Key]int{}}
}

// tellChanges looks at what changed, and tells it. again: everything should be told.
func (s *Source) tellChanges(ctx context.Context, in source.Inlet, w *watcher) (again bool) {
	paths, whole, calm := w.take()
	if s.list == nil {
		return true // there is nothing to compare with
	}
	s.pending.look++
	calm = calm && s.pending.listed
	s.pending.listed = calm
	todo, dirs := s.sort(paths)
	if whole = whole || dirs; whole || s.pending.relist {
		more, ok := s.relist(w, whole)
		if !ok {
			return true
		}
		todo = slices.Compact(slices.Sorted(slices.Values(append(todo, more...))))
	}
	todo, quiet := s.glance(todo)
	if !quiet {
		w.noteAll(todo)
		return false
	}
	c := changes{Source: s, in: in, w: w, calm: calm, path: onePath(paths), added: map[record.Key]struct{}{}}
	return c.tell(ctx, todo)
}

// relist lists the tree anew, and returns the files that are new, and those that are not
// there any more; whole: all of them. ok is false where another tree is there, or none.
func (s *Source) relist(w *watcher, whole bool) (todo []string, ok bool) {
	list, err := s.walk(w.add)
	if err != nil || list.root != s.list.root {
		return nil, false
	}
	w.only(list.dirs)
	s.list, s.pending.relist, s.pending.listed = list, false, true
	for _, p := range list.files {
		if whole || s.index.files[p] == nil {
			todo = append(todo, p)
		}
	}
	return append(todo, list.unlisted(s.index)...), true
}

// sort finds the documents among paths; dirs: there are directories too, or were.
func (s *Source) sort(paths map[string]struct{}) (todo []string, dirs bool) {
	for p := range paths {
		if _, was := s.list.dirs[p]; was {
			dirs = true
			continue
		}
		if info, err := s.fs.stat(s.at(p)); err == nil && info.IsDir() {
			dirs = dirs || s.filter.dir(p) && !s.list.ignores.match(p, true)
		}
		if s.index.files[p] != nil || s.reads(s.list, p) {
			todo = append(todo, p)
		}
	}
	return todo, dirs
}

// glance looks at the stamps of files, and returns those that are not what they were,
// first those that are gone: what they held may have come up in another. quiet is false
// where it is too early to read them.
func (s *Source) glance(todo []string) (changed []string, quiet bool) {
	quiet = true
	var gone []string
	for _, p := range todo {
		old := s.index.files[p]
		if _, broken := s.list.brokenAbove(p); broken != nil || strings.HasSuffix(p, "/") {
			changed = append(changed, p)
			continue
		}
		info, err := s.fs.stat(s.at(p))
		if isGone(err) || err == nil && info.IsDir() || !s.reads(s.list, p) {
			if old != nil && !s.pending.missed[p] {
				s.pending.missed[p], s.pending.relist = true, true
				quiet = false // editors put another one there in a moment
			}
			gone = append(gone, p)
			continue
		}
		if err != nil {
			changed = append(changed, p)
			continue
		}
		st := stampOf(info)
		if old != nil && old.stamp == st {
			continue
		}
		changed = append(changed, p)
		if within(st.age(time.Now()), s.opts.Settle) && s.doubt(p) {
			quiet = false
		}
	}
	return append(gone, changed...), quiet
}

func onePath(paths map[string]struct{}) string {
	for p := range paths {
		return p
	}
	return ""
}

// doubt reports whether a file that is changing should be looked at again; not for ever.
func (s *Source) doubt(p string) bool {
	s.pending.doubts[p]++
	return s.pending.doubts[p] <= patience
}

// changes are told together.
type changes struct {
	*Source
	in   source.Inlet
	w    *watcher
	calm bool   // nothing moved since the look before, which found the tree as it is
	path string // one of those that are looked at; "": all

	items []source.Item // to be put next
	bytes int
	kept  []source.Kept
	later []source.Item // of keys that another document has, perhaps not for long
	// added are the keys of documents that came: to a file that had none of that key, or
	// to another one in the same file.
	added map[record.Key]struct{}
	again bool
	doubt bool
}

// What is put at once, at the most.
const (
	putItems = 1000
	putBytes = 4 << 20
)

func (c *changes) tell(ctx context.Context, todo []string) (again bool) {
	l := loader{Source: c.Source}
	for _, p := range todo {
		if ctx.Err() != nil {
			return false
		}
		old := c.index.files[p]
		_, err := c.check(p)
		r := l.look(c.list, p, err, old, false)
		if r.doubtful && c.Source.doubt(p) {
			c.doubt = true
			c.w.note(p)
			continue
		}
		delete(c.pending.doubts, p)
		delete(c.pending.missed, p)
		if r.same {
			old.stamp = r.known.stamp
			continue
		}
		c.replace(ctx, p, old, r)
	}
	c.finish(ctx)
	return c.again
}

// replace takes what came of reading p in the place of what was known.
func (c *changes) replace(ctx context.Context, p string, old *known, r reading) {
	if old == nil {
		old = &known{}
	}
	had := make(map[record.Key]uint64, len(old.docs))
	for _, d := range old.docs {
		had[d.key] = d.sum
		_, came := c.added[d.key]
		c.again = c.again || c.index.count[d.key] > 1 && !came
		if _, owed := c.pending.owed[d.key]; !owed {
			c.pending.owed[d.key] = c.pending.look
		}
	}
	c.index.set(p, r.known)
	if r.known != nil {
		c.put(ctx, r, had)
	}
	for _, d := range old.docs {
		if d.sum == 0 && c.index.count[d.key] == 0 {
			c.kept = append(c.kept, source.Kept{Key: d.key})
		}
	}
	for _, place := range old.blind {
		c.kept = append(c.kept, source.Kept{Place: place})
	}
	if len(old.blind) > 0 && (r.known == nil || len(r.known.blind) == 0) {
		c.again = true // nothing could be swept because of it
	}
	c.kept = append(c.kept, r.kept...)
}

// put puts the documents of r that are not as they were told. had is what was told of
// the same file.
func (c *changes) put(ctx context.Context, r reading, had map[record.Key]uint64) {
	sums := map[record.Key]uint64{}
	for _, d := range r.known.docs {
		sums[d.key] = d.sum
		delete(c.pending.owed, d.key)
		if _, ok := had[d.key]; !ok || c.index.count[d.key] > 1 {
			c.added[d.key] = struct{}{}
		}
	}
	for _, it := range r.items {
		switch {
		case c.index.count[it.Key] > 1:
			c.later = append(c.later, it)
		case had[it.Key] != sums[it.Key]:
			c.items = append(c.items, it)
			c.bytes += len(it.Payload)
		}
	}
	if len(c.items) >= putItems || c.bytes >= putBytes {
		c.flush(ctx)
	}
}

func (c *changes) flush(ctx context.Context) {
	if len(c.items) > 0 {
		_ = c.in.Put(ctx, c.items) // what is refused is told, and everything is asked for again where that may help
	}
	c.items, c.bytes = nil, 0
}

// finish tells what is left: what has one document now, and what has none.
func (c *changes) finish(ctx context.Context) {
	for _, it := range c.later {
		if c.index.count[it.Key] == 1 {
			c.items = append(c.items, it)
		}
	}
	c.flush(ctx)
	for key := range c.added {
		c.again = c.again || c.index.count[key] > 1
	}
	if len(c.kept) > 0 {
		c.in.Keep(c.kept)
	}
	if c.doubt || c.again {
		return // what is owed may be in what could not be read, or is seen with everything
	}
	gone, sure := c.gone()
	if !sure {
		c.putOff()
		return
	}
	if len(gone) > 0 && len(c.index.count) == 0 {
		// Nothing is left. That is told as a set, which is held, rather than as deletions.
		c.again = true
		return
	}
	clear(c.pending.owed)
	c.pending.put = 0
	if len(gone) > 0 {
		_ = c.in.Delete(ctx, gone) // as with Put
	}
}

// gone are the keys that no document has any more; sure: nothing can have been on its way.
func (c *changes) gone() (gone []record.Key, sure bool) {
	sure = true
	for key, look := range c.pending.owed {
		if c.index.count[key] == 0 {
			gone = append(gone, key)
			sure = sure && c.calm && look < c.pending.look
		}
	}
	slices.SortFunc(gone, record.Key.Compare)
	return gone, sure
}

// putOff leaves deletions to the next look; not for ever: then everything is told, which
// knows what to do in a tree that is never quiet.
func (c *changes) putOff() {
	if c.pending.put++; c.pending.put > patience {
		c.again = true
		return
	}
	c.pending.relist = !c.pending.listed
	c.w.note(c.path)
}
