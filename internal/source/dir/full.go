package dir

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/pawlsync/pawl/internal/source"
)

// rounds is how often files are looked at again that may be being written, or that
// were not there, before a full set goes on without them.
const rounds = patience

// tellAll tells all that there is. Trouble with the tree is told, and is no error.
func (s *Source) tellAll(ctx context.Context, in source.Inlet, w *watcher) error {
	s.pending = newPending() // this is a look at everything
	w.take()
	list, err := s.walk(w.add)
	s.troubled(in, err)
	if err != nil {
		return nil
	}
	w.only(list.dirs)
	f := s.full(w, list)
	if err := in.Full(ctx, f.items(ctx), func() []source.Kept { return f.kept }); err != nil {
		return err
	}
	if f.cut == nil { // else what was known stays so
		s.index, s.list = f.index, f.list
	} else if ctx.Err() == nil {
		s.troubled(in, f.cut)
	}
	return nil
}

// full is one full set.
type full struct {
	*Source
	w     *watcher
	list  *listing
	old   *index
	index *index // of what is told
	kept  []source.Kept
	late  []string // to be looked at again
	gone  bool     // one of them was not there
	cut   error    // the set was cut off

	missed map[string]bool // files that were not there at the look before
}

// full begins a full set of what list has.
func (s *Source) full(w *watcher, list *listing) *full {
	return &full{Source: s, w: w, list: list, old: s.index, index: newIndex(), missed: map[string]bool{}}
}

// items reads files and tells what they hold, until ctx ends.
func (f *full) items(ctx context.Context) iter.Seq2[source.Item, error] {
	return func(yield func(source.Item, error) bool) {
		todo := f.todo()
		for round := 0; len(todo) > 0; round++ {
			f.late, f.gone = nil, false
			if f.cut = f.read(ctx, todo, round == rounds, yield); f.cut != nil {
				break
			}
			if len(f.late) == 0 {
				break
			}
			if todo, f.cut = f.again(ctx); f.cut != nil {
				break
			}
		}
		switch {
		case f.cut == nil:
			f.finish(ctx)
		case f.cut != errStopped:
			yield(source.Item{}, f.cut)
		}
	}
}

// errStopped says that nobody wants more of the set.
var errStopped = errors.New("stopped")

// todo is every file, and those that were told before and are not there any more.
func (f *full) todo() []string {
	return append(slices.Clip(f.list.files), f.list.unlisted(f.old)...)
}

// read reads files, several at once, and tells what they hold in their order.
func (f *full) read(ctx context.Context, todo []string, last bool, yield func(source.Item, error) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for r := range f.readAhead(ctx, todo) {
		if !f.tell(r, last, yield) {
			return errStopped
		}
	}
	return ctx.Err()
}

// tell tells what a file holds, and notes it; last: there is no other look at it.
// It returns false when nobody wants more.
func (f *full) tell(r reading, last bool, yield func(source.Item, error) bool) bool {
	switch {
	case r.doubtful && !last:
		f.late = append(f.late, r.path)
		return true
	case r.doubtful:
		f.w.note(r.path)
	case r.gone:
		f.missing(r.path, last)
		return true
	}
	f.index.set(r.path, r.known)
	f.kept = append(f.kept, r.kept...)
	for _, it := range r.items {
		if !yield(it, nil) {
			return false
		}
	}
	return true
}

// missing is what to do about a file that is not there: it is gone when it was not
// there at two looks, and did not come up elsewhere meanwhile.
func (f *full) missing(p string, last bool) {
	switch {
	case f.missed[p]:
	case last:
		f.restless(p)
	default:
		f.missed[p] = true
		f.late, f.gone = append(f.late, p), true
	}
}

// finish sees to it that nothing is swept that may have been on its way from a file that
// was not read yet to one that was.
func (f *full) finish(ctx context.Context) {
	if !f.lacks() {
		return
	}
	f.pause(ctx) // what the system tells comes a moment later
	if !f.w.calm() && !f.asRead() {
		f.restless(".")
	}
}

func (f *full) pause(ctx context.Context) {
	select {
	case <-time.After(f.opts.Settle):
	case <-ctx.Done():
	}
}

// asRead reports whether the tree is as this set has it.
func (f *full) asRead() bool {
	list, err := f.walk(f.w.add)
	if err != nil || list.root != f.list.root || !slices.Equal(list.files, f.list.files) {
		return false
	}
	l := loader{Source: f.Source}
	for _, p := range list.files {
		k := f.index.files[p]
		if k == nil {
			return false
		}
		if info, err := f.fs.stat(f.at(p)); err == nil && stampOf(info) == k.stamp {
			continue
		}
		_, err := f.check(p)
		if !l.look(list, p, err, k, false).same {
			return false
		}
	}
	return true
}

// lacks reports whether something that was told may not be in this set.
func (f *full) lacks() bool {
	for key := range f.old.count {
		if f.index.count[key] == 0 {
			return true
		}
	}
	return len(f.old.files) == 0 // who knows what was told before
}

// restless says that nobody knows what is at p, so that nothing is swept, and everything
// is looked at again.
func (f *full) restless(p string) {
	f.kept = append(f.kept, source.Kept{Place: p, Err: errRestless})
	f.index.set(p, &known{blind: []string{p}})
	f.w.note("")
}

// again returns what is to be looked at in another round, after a pause: what is late
// and, where something was gone, what came since the tree was listed. It may have been
// renamed into what was read before.
func (f *full) again(ctx context.Context) ([]string, error) {
	if f.pause(ctx); ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if !f.gone {
		return f.late, nil
	}
	list, err := f.walk(f.w.add)
	switch {
	case err != nil:
		return nil, err
	case list.root != f.list.root:
		return nil, errReplaced
	}
	seen := make(map[string]bool, len(f.list.files)+len(f.late))
	for _, p := range append(slices.Clip(f.list.files), f.late...) {
		seen[p] = true
	}
	todo := f.late
	for _, p := range list.files {
		if !seen[p] {
			todo = append(todo, p)
		}
	}
	f.w.only(list.dirs)
	f.list = list
	return todo, nil
}
