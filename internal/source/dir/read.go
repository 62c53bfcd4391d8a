package dir

import (
	"context"
	"fmt"
	"iter"

	"github.com/pawlsync/pawl/internal/source"
)

// Read reads a directory once, as a source of opts that has just started does: items and
// kept are what it would give Inlet.Full. kept is to be called once items has ended.
// Files that are being written are waited for as they are there, at most ten times
// Settle; places are relative to Path.
//
// # Errors
//
// Those of New; why the tree can't be read as a whole, for which a source tells trouble.
func Read(ctx context.Context, opts Options) (items iter.Seq2[source.Item, error], kept func() []source.Kept, err error) {
	s, err := New(opts)
	if err != nil {
		return nil, nil, err
	}
	w := s.notWatching()
	list, err := s.walk(w.add)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", opts.Path, err)
	}
	f := s.full(w, list)
	return f.items(ctx), func() []source.Kept { return f.kept }, nil
}

// Settings are those that another reader needs to read a directory as s does.
func (s *Source) Settings() source.DirSettings {
	out := source.DirSettings{Path: s.opts.Path, Include: s.opts.Include, Exclude: s.opts.Exclude}
	if k := s.opts.Kubernetes; k != nil {
		out.KubernetesSink, out.KubernetesKey = k.Sink, k.Key
	}
	return out
}
