package cli

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
	"github.com/pawlsync/pawl/internal/source"
	"github.com/pawlsync/pawl/internal/source/dir"
)

// sweep is a plan with --source: the folder as the source reads it, and what the source
// owns and it lacks.
type sweep struct {
	source api.Source
	client *client.Client
	ctx    context.Context

	folder string
	items  iter.Seq2[source.Item, error]
	kept   func() []source.Kept

	// What follows is written before the last line is sent.
	set   int                 // resources that it was told
	keeps int                 // resources that it owns and that stay for being kept
	stays map[record.Key]bool // what is kept
	blind bool                // of something not even the key can be read
	lacks int                 // resources that would be deleted
	err   error               // why the folder was not read to its end, or it is not known what the source owns
}

// sweepOf finds the source of --source, and the folder that stands for its directory;
// nil where there is none.
func sweepOf(ctx context.Context, c *client.Client, f *planFlags) (*sweep, error) {
	if f.source == "" {
		return nil, nil
	}
	s, err := c.Source(ctx, f.source)
	switch {
	case err != nil:
		return nil, err
	case s.State == api.SourceNotConfigured:
		return nil, fmt.Errorf("the source %s is not in the configuration any more, so that nothing of it is deleted; leave --source out", f.source)
	case s.Kind != "dir":
		return nil, fmt.Errorf("the source %s is of kind %s, and a folder can only stand for one of kind dir; leave --source out to plan files as apply takes them, or see `pawl diff` for how targets stand to what is stored", f.source, s.Kind)
	case s.Dir == nil:
		return nil, fmt.Errorf("the daemon does not tell how the source %s reads its directory; is it of this version?", f.source)
	}
	out := &sweep{source: s, client: c, ctx: ctx, folder: f.files[0], stays: map[record.Key]bool{}}
	o := dir.Options{Path: out.folder, Include: s.Dir.Include, Exclude: s.Dir.Exclude}
	if s.Dir.KubernetesSink != "" {
		o.Kubernetes = &dir.Kubernetes{Sink: s.Dir.KubernetesSink, Key: s.Dir.KubernetesKey}
	}
	out.items, out.kept, err = dir.Read(ctx, o)
	return out, err
}

// documents are those that the source would tell, and then what it could not take.
func (s *sweep) documents() iter.Seq[planned] {
	return func(yield func(planned) bool) {
		for it, err := range s.items {
			if err != nil {
				s.err = fmt.Errorf("%s was not read to its end, so that nothing of what is missing would be deleted: %w", s.folder, err)
				return
			}
			if !yield(planned{s.place(it.Place, it.Key, nil), s.line(&it)}) {
				return
			}
		}
		for _, k := range s.kept() {
			s.blind = s.blind || k.Key == (record.Key{})
			s.stays[k.Key] = true
			if !yield(planned{place: s.place(k.Place, k.Key, k.Err)}) {
				return
			}
		}
	}
}

// place is where the source has something: a file and, behind a colon, its line.
func (s *sweep) place(at string, key record.Key, wrong error) place {
	out := place{file: at, key: key}
	if i := strings.LastIndexByte(at, ':'); i >= 0 {
		if line, err := strconv.Atoi(at[i+1:]); err == nil {
			out.file, out.line = at[:i], line
		}
	}
	out.file = filepath.Join(s.folder, filepath.FromSlash(out.file))
	if wrong != nil {
		out.err = fmt.Errorf("%v: %w", out, wrong)
	}
	return out
}

// line asks what an item would come to, with its payload byte for byte.
func (s *sweep) line(it *source.Item) api.PlanLine {
	return api.PlanLine{Sink: it.Key.Sink, Key: it.Key.Name, PutRequest: api.PutRequest{
		PayloadBase64: it.Payload, Conflict: it.Conflict, Deletion: it.Deletion, Suspend: it.Suspend, Direction: it.Direction, Owner: s.source.Name,
		Retry: api.RetryOf(it.Retry), IdempotencyKey: it.IdempotencyKey,
	}}
}

// lines asks about what the source owns and was not told, once all documents were asked
// about.
func (s *sweep) lines(told map[record.Key]place, ask func(record.Key, api.PlanLine) bool) {
	if s == nil || s.err != nil {
		return
	}
	s.set = len(told)
	for r, err := range s.client.All(s.ctx, client.ListOptions{Limit: pageSize}) {
		if err != nil {
			s.err = err
			return
		}
		key := r.RecordKey()
		if _, has := told[key]; has || r.Owner != s.source.Name || r.Tombstone {
			continue
		}
		if s.stays[key] {
			s.keeps++
			continue
		}
		if s.blind {
			continue
		}
		s.lacks++
		if !ask(key, api.PlanLine{Sink: r.Sink, Key: r.Key, Delete: true, DeletionElse: s.source.Deletion, PutRequest: api.PutRequest{Owner: s.source.Name}}) {
			return
		}
	}
}

// swept says what would become of the deletions, for -o json.
type swept struct {
	Source  string `json:"source"`
	Deletes int    `json:"deletes"`
	Held    bool   `json:"held"`
	Why     string `json:"why,omitempty"`
}

// outcome says whether the source's fuse would let the deletions through; refused are
// items that would not be put.
func (s *sweep) outcome(refused int) swept {
	out := swept{Source: s.source.Name, Deletes: s.lacks}
	f := s.source.Fuse
	if f == nil {
		f = &api.SourceFuse{}
	}
	largest := max(f.Largest, s.source.Resources, s.set-refused+s.keeps)
	rule := source.FuseOptions{Share: f.Share, AtLeast: f.AtLeast}
	room := max(0, rule.Allowed(f.Deleted, largest)-f.Deleted)
	switch {
	case s.blind:
		out.Why = "of something not even the key can be read. A source that read it before keeps what it had, and deletes the rest"
	case s.lacks == 0:
	case s.set == 0:
		out.Held, out.Why = true, fmt.Sprintf("the set is empty; is %s the right folder?", s.folder)
	case f.Blown:
		out.Held, out.Why = true, "something is held already"
	case s.lacks > room:
		out.Held = true
		out.Why = fmt.Sprintf("%d are more than the %d that it may delete now", s.lacks, room)
	}
	return out
}

// text says the same to people; "" where there is nothing to say.
func (o swept) text() string {
	switch {
	case o.Held:
		return fmt.Sprintf("The fuse of %s would hold %s of what it lacks (%s), until `pawl source confirm %s`.", o.Source, plural(o.Deletes, "deletion"), o.Why, o.Source)
	case o.Why != "":
		return fmt.Sprintf("Nothing that %s lacks would be deleted: %s.", o.Source, o.Why)
	case o.Deletes > 0:
		return fmt.Sprintf("The fuse of %s lets %s through.", o.Source, plural(o.Deletes, "deletion"))
	}
	return ""
}
