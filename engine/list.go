package engine

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/schedule"
)

// Bounds of one answer.
const (
	listMax     = 1000
	listWalk    = 512     // heads that are read in the search for a phase, before the schedule is asked
	listPortion = 1 << 14 // entries of the schedule that are looked at in one go, under the lock
	listLooks   = 1000    // records that are read
)

// List returns resources in key order, a page at a time. It reads some thousand records
// at most: a page of those of one owner may have fewer than were asked for, or none,
// and others follow all the same.
//
// # Errors
//
// ErrInvalid for a page token that this engine did not give; the error of ctx;
// ErrClosed.
func (e *Engine) List(ctx context.Context, o ListOptions) (Page, error) {
	if err := e.open(); err != nil {
		return Page{}, &Error{Op: "list", Err: err}
	}
	span := outbox.Span{Sink: o.Sink, Prefix: o.Prefix}
	var err error
	if span.After, err = parsePage(o.Page); err != nil {
		return Page{}, &Error{Op: "list", Err: err, Hint: "start again with the first page"}
	}
	if o.Limit <= 0 {
		o.Limit = 100
	}
	o.Limit = min(o.Limit, listMax)
	info := e.store.Info()
	page := Page{Token: token(info.Epoch, info.Revision)}
	for looks := 0; ; {
		keys, more, err := e.candidates(ctx, span, &o)
		if err != nil {
			return Page{}, fail("list", record.Key{}, err, "")
		}
		for i, key := range keys {
			item, fits, err := e.listed(key, &o)
			if err != nil {
				return Page{}, fail("list", key, err, "")
			}
			if fits {
				page.Items = append(page.Items, item)
			}
			looks++
			if last := i == len(keys)-1 && !more; !last && (len(page.Items) == o.Limit || looks == listLooks) {
				page.Next = pageAfter(key)
				return page, nil
			}
		}
		if !more {
			return page, nil
		}
		span.After = &keys[len(keys)-1]
	}
}

// candidates returns the first keys of span that may belong to a page, and whether
// others follow. Only the store knows all resources in order, but it knows them one
// after the other; the schedule finds those of a phase that few have.
func (e *Engine) candidates(ctx context.Context, span outbox.Span, o *ListOptions) (keys []record.Key, more bool, err error) {
	want := o.Limit
	if o.Owner != nil {
		want = max(want, listLooks/4) // most of them may be others'
	}
	walked := 0
	var at record.Key
	err = e.heads(ctx, span, func(h outbox.Head) bool {
		if more = len(keys) == want || len(o.Phases) > 0 && walked == listWalk; more {
			return false
		}
		walked++
		at = h.Key
		if h.Generation != 0 && !h.Gone && h.Key.Sink != journalSink && e.fits(&h, o) {
			keys = append(keys, h.Key)
		}
		return true
	})
	if err = errors.Join(err, ctx.Err()); err != nil || !more || len(keys) == want {
		return keys, more, err
	}
	sel := schedule.Selection{Sink: span.Sink, Prefix: span.Prefix, After: &at, Limit: want + 1, Fits: e.planned(o.Phases)}
	for e.look(&sel) {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
	}
	keys = append(keys, sel.Keys()...)
	more = len(keys) > want
	return keys[:min(len(keys), want)], more, nil
}

// heads is Heads of the store, which finds a prefix at once in one sink alone.
func (e *Engine) heads(ctx context.Context, span outbox.Span, fn func(outbox.Head) bool) error {
	if span.Sink != "" || span.Prefix == "" {
		return e.store.Heads(ctx, span, fn)
	}
	going := true
	for _, sink := range e.sinksInOrder() {
		if span.After != nil && sink < span.After.Sink {
			continue
		}
		span.Sink = sink
		err := e.store.Heads(ctx, span, func(h outbox.Head) bool {
			going = fn(h)
			return going
		})
		if err != nil || !going {
			return err
		}
	}
	return nil
}

// sinksInOrder are the names of all sinks that have resources.
func (e *Engine) sinksInOrder() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sched.SinkNames()
}

func (e *Engine) fits(h *outbox.Head, o *ListOptions) bool {
	return len(o.Phases) == 0 || slices.Contains(o.Phases, e.effective(h.Key, h.Generation, h.Status).Phase)
}

// look lets sel look at a portion of the schedule.
func (e *Engine) look(sel *schedule.Selection) (more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sched.Look(sel, listPortion)
}

// planned says as effective does, by what the schedule knows, whether a resource is in
// one of the phases.
func (e *Engine) planned(want []record.Phase) func(string, record.Phase, bool) bool {
	orphaned := slices.Contains(want, record.Orphaned)
	return func(sink string, phase record.Phase, flying bool) bool {
		switch {
		case phase == "": // gone, but for its order
			return false
		case flying && (phase == record.Pending || phase == record.Stalled):
			phase = record.Delivering
		}
		return slices.Contains(want, phase) || orphaned && e.targets.of(sink) == nil
	}
}

// listed reads one resource of a page; fits is false where it does not belong there, or
// not any more.
func (e *Engine) listed(key record.Key, o *ListOptions) (item Resource, fits bool, err error) {
	rec, err := e.store.Get(key)
	if errors.Is(err, outbox.ErrDamaged) { // the others are as good as ever
		return damaged(key, err), o.Owner == nil, nil
	}
	if err != nil || !rec.Desired.Exists() || o.Owner != nil && rec.Desired.Owner != *o.Owner {
		return Resource{}, false, err
	}
	if !o.Payloads {
		rec = withoutPayloads(rec)
	}
	item = e.view(key, rec)
	return item, len(o.Phases) == 0 || slices.Contains(o.Phases, item.Status.Phase), nil
}

// damaged stands in a list for a resource whose record can't be read.
func damaged(key record.Key, err error) Resource {
	return Resource{Key: key, Status: record.Status{
		Phase: record.Failed, Reason: record.ReasonDamaged,
		Message: err.Error() + "; forget it, then put it again",
	}}
}

// A page token is the last key of the page before, unreadable so that nobody
// takes it apart.
func pageAfter(k record.Key) string {
	return base64.RawURLEncoding.EncodeToString([]byte(k.Sink + "\x00" + k.Name))
}

// parsePage returns the key of a page token; nil where there is none.
func parsePage(s string) (*record.Key, error) {
	if s == "" {
		return nil, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		if i := slices.Index(raw, 0); i >= 0 {
			k := record.Key{Sink: string(raw[:i]), Name: string(raw[i+1:])}
			if k.Validate() == nil {
				return &k, nil
			}
		}
	}
	return nil, fmt.Errorf("%w: %q is no page token", ErrInvalid, s)
}
