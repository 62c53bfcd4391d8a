package main

import (
	"context"
	"sync"

	"github.com/pawlsync/pawl/plugins/spicedb/wire"
	pawl "github.com/pawlsync/pawl/sdk/go"
)

// rows are what a look found, by key.
type rows map[string]*relationship

// maxAlone is up to how many rows of one object and relation are asked for one by one.
const maxAlone = 4

// parallel is how many requests of one call are under way at once.
const parallel = 8

// look reads the rows of some scopes, and those of some keys.
func (a *adapter) look(ctx context.Context, r *pawl.Request, scopes []*scope, keys []relationship) (rows, error) {
	found := rows{}
	var mu sync.Mutex
	take := func(row *relationship) {
		mu.Lock()
		found[row.key] = row
		mu.Unlock()
	}
	var reads []func() error
	for _, s := range scopes {
		for _, f := range s.lookup() {
			reads = append(reads, func() error {
				_, err := a.read(ctx, r, &f, 0, func(row *relationship) {
					if s.has(&row.Row) {
						take(row)
					}
				})
				return err
			})
		}
	}
	groups := map[string][]*relationship{}
	for i := range keys {
		k := &keys[i]
		if !inAny(scopes, &k.Row) {
			group := k.ResourceType + ":" + k.ResourceID + "#" + k.Relation
			groups[group] = append(groups[group], k)
		}
	}
	for _, group := range groups {
		reads = append(reads, func() error { return a.lookFor(ctx, r, group, take) })
	}
	return found, inParallel(reads)
}

// lookup is how a scope is read: in one sweep where several filters would be needed.
func (s *scope) lookup() []wire.Filter {
	if fs := s.filters(); len(fs) == 1 {
		return fs
	}
	f := wire.Filter{ResourceType: s.resourceType, ResourceID: s.resourceID}
	if len(s.relations) == 1 {
		f.Relation = s.relations[0]
	}
	return []wire.Filter{f}
}

func inAny(scopes []*scope, r *wire.Row) bool {
	for _, s := range scopes {
		if s.has(r) {
			return true
		}
	}
	return false
}

// lookFor reads rows that share object and relation. Many are read in one sweep, but
// not where there are far more than those.
func (a *adapter) lookFor(ctx context.Context, r *pawl.Request, group []*relationship, take func(*relationship)) error {
	if len(group) > maxAlone {
		wanted := make(map[string]bool, len(group))
		for _, k := range group {
			wanted[k.key] = true
		}
		f := wire.Filter{ResourceType: group[0].ResourceType, ResourceID: group[0].ResourceID, Relation: group[0].Relation}
		whole, err := a.read(ctx, r, &f, a.cfg.page+10*len(group), func(row *relationship) {
			if wanted[row.key] {
				take(row)
			}
		})
		if whole || err != nil {
			return err
		}
	}
	for _, k := range group {
		f := exactly(&k.Row)
		if _, err := a.read(ctx, r, &f, 0, take); err != nil {
			return err
		}
	}
	return nil
}

// exactly chooses one row.
func exactly(r *wire.Row) wire.Filter {
	return wire.Filter{ResourceType: r.ResourceType, ResourceID: r.ResourceID, Relation: r.Relation,
		SubjectType: r.SubjectType, SubjectID: r.SubjectID, SubjectRelation: r.SubjectRelation, HasSubjectRelation: true}
}

// read gives take every row that f chooses, page by page, all as of one revision.
// It gives up after most rows, 0: never, and reports whether it saw all. Rows of what is
// not in the schema can't be there.
func (a *adapter) read(ctx context.Context, r *pawl.Request, f *wire.Filter, most int, take func(*relationship)) (whole bool, err error) {
	if whole, err = a.readKnown(ctx, r, f, most, take); isUnknownSchema(err) {
		return true, nil
	}
	return whole, err
}

// readKnown is read for what has to be in the schema.
func (a *adapter) readKnown(ctx context.Context, r *pawl.Request, f *wire.Filter, most int, take func(*relationship)) (whole bool, err error) {
	cursor, seen := "", 0
	for {
		n := 0
		frame := wire.AppendRead(newFrame(256+len(cursor)), f, a.cfg.page, cursor)
		err := a.call(ctx, methodRead, frame, r.TimeoutMillis, func(msg []byte) error {
			row, next, err := wire.ReadRow(msg)
			if err != nil {
				return pawl.Retry(err.Error())
			}
			n++
			cursor = next
			take(&relationship{key: keyOf(&row), Row: row})
			return nil
		})
		if seen += n; err != nil || n < a.cfg.page || cursor == "" {
			return true, err
		}
		if most > 0 && seen >= most {
			return false, nil
		}
	}
}

// inParallel runs all of fs, some at once, and returns their first error.
func inParallel(fs []func() error) error {
	if len(fs) == 1 {
		return fs[0]()
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first error
	next := 0
	for range min(parallel, len(fs)) {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				stop := first != nil || i >= len(fs)
				mu.Unlock()
				if stop {
					return
				}
				if err := fs[i](); err != nil {
					mu.Lock()
					if first == nil {
						first = err
					}
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return first
}
