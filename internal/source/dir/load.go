package dir

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"strings"
	"syscall"
	"time"
	"unique"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/manifest"
	"github.com/pawlsync/pawl/internal/source"
)

// reading is what came of reading a file.
type reading struct {
	path string
	gone bool
	same bool // content is what it was; nothing else is set but known, which is new
	// doubtful: it may be being written, so that it should be read again.
	doubtful bool
	known    *known
	items    []source.Item // of the documents that are right
	kept     []source.Kept // of the others
}

// loader reads files, one at a time.
type loader struct {
	*Source
	buf []byte // used again; nothing that is parsed refers to it
}

// look reads the file at p, or keeps what it had where it is below a directory that
// can't be read. What ends in / stands for such a directory itself. checked is what check
// said of p.
func (l *loader) look(list *listing, p string, checked error, old *known, reread bool) reading {
	if dir, err := list.brokenAbove(p); err != nil {
		return keepAll(p, old, unreadable(dir, err))
	}
	if !l.reads(list, p) {
		return reading{path: p, gone: true}
	}
	return l.load(p, checked, old, reread)
}

// load reads the file at p. old is what is known of it, or nil. reread parses it even
// where it did not change.
func (l *loader) load(p string, checked error, old *known, reread bool) reading {
	var st stamp
	err := checked
	if err == nil {
		st, err = l.read(p)
	}
	switch {
	case isGone(err):
		return reading{path: p, gone: true}
	case errors.Is(err, errChanging):
		r := keepAll(p, old, fmt.Errorf("%s %w", p, err))
		r.doubtful = true
		return r
	case err != nil:
		return keepAll(p, old, unreadable(p, err))
	}
	now := time.Now()
	k := &known{stamp: st.trusted(now), sum: max(maphash.Bytes(l.seed, l.buf), 1)}
	if old != nil && !reread && old.sum == k.sum {
		k.docs, k.blind = old.docs, old.blind
		return reading{path: p, same: true, known: k}
	}
	if len(bytes.TrimSpace(l.buf)) == 0 {
		r := keepAll(p, old, fmt.Errorf("%s %w", p, errEmpty))
		r.doubtful = within(st.age(now), patience*l.opts.Settle)
		return r
	}
	r := l.parse(p, l.buf, k, old)
	// What parses may be the first half of something, and what does not is likely to be.
	r.doubtful = within(st.age(now), l.opts.Settle) || len(r.kept) > 0 && within(st.age(now), patience*l.opts.Settle)
	return r
}

// within reports whether a change is less than d old. One that seems to come from the
// future by more is of a wrong clock, and says nothing.
func within(age, d time.Duration) bool { return -d < age && age < d }

// isGone reports whether there is no such file.
func isGone(err error) bool {
	return errors.Is(err, errGone) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// keepAll keeps all that is known of p, which can't be read.
func keepAll(p string, old *known, err error) reading {
	r := reading{path: p, known: &known{}}
	r.keep(p, old, err)
	return r
}

// keep keeps what is known of r's file and not among its documents. Where nothing is
// known nobody can say what may go, and so nothing may.
func (r *reading) keep(place string, old *known, err error) {
	has := make(map[record.Key]bool, len(r.known.docs))
	for _, d := range r.known.docs {
		has[d.key] = true
	}
	if old == nil || len(old.docs) == 0 || len(old.blind) > 0 {
		r.known.blind = append(r.known.blind, place)
		r.kept = append(r.kept, source.Kept{Place: place, Err: err})
	}
	if old == nil {
		return
	}
	for _, d := range old.docs {
		if !has[d.key] {
			r.known.docs = append(r.known.docs, told{key: d.key})
			r.kept = append(r.kept, source.Kept{Key: d.key, Place: place, Err: err})
		}
	}
}

// parse makes items of a file's content, and remembers them in k.
func (l *loader) parse(p string, content []byte, k, old *known) reading {
	r := reading{path: p, known: k}
	var lost []string // what is wrong where no key can be read
	var lostAt string
	for _, e := range manifest.Parse(content, p) {
		it, place, err := l.item(&e)
		switch {
		case err == nil:
			r.items = append(r.items, it)
			k.docs = append(k.docs, told{it.Key, l.sumOf(&it)})
		case it.Key != (record.Key{}):
			r.kept = append(r.kept, source.Kept{Key: it.Key, Place: place, Err: err})
			k.docs = append(k.docs, told{key: it.Key})
		default:
			if lost == nil {
				lostAt = place
			} else {
				err = fmt.Errorf("%s: %w", place, err)
			}
			lost = append(lost, err.Error())
		}
	}
	if lost != nil {
		r.keep(lostAt, old, errors.New(strings.Join(lost, "; ")))
	}
	return r
}

// item makes an item of a document, or says what is wrong with it and where; the item
// has the key then, if it can be read.
func (l *loader) item(e *manifest.Entry) (it source.Item, place string, err error) {
	it = source.Item{Key: e.Key, Payload: e.Payload, Conflict: e.Conflict, Deletion: e.Deletion, Suspend: e.Suspend, Direction: e.Direction,
		Retry: e.Retry, IdempotencyKey: e.IdempotencyKey, Place: fmt.Sprintf("%s:%d", e.File, e.Line)}
	if e.Object != nil {
		it.Payload = e.Object
		if it.Key, err = l.objects.keyOf(e.Object); err != nil {
			it.Key = record.Key{}
		}
	}
	it.Key.Sink = unique.Make(it.Key.Sink).Value() // all documents share the few that there are
	switch {
	case e.Delete: // whatever else is wrong with it
		return it, it.Place, errDelete
	case e.Wrong != nil:
		return it, placeOf(e.Wrong[0]), said(e.Wrong)
	}
	return it, it.Place, err
}

func placeOf(e *manifest.Error) string {
	if e.Line == 0 {
		return e.File
	}
	return fmt.Sprintf("%s:%d", e.File, e.Line)
}

// said is what is wrong with a document, but for the place of the first.
func said(wrong manifest.Errors) error {
	first := wrong[0]
	text := first.What
	if hint := cmp.Or(first.Kept, first.Hint); hint != "" {
		text += "; " + hint
	}
	for _, e := range wrong[1:] {
		text += "; " + e.Error()
	}
	return errors.New(text)
}
