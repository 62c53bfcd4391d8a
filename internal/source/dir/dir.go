// Package dir is the source of desired state that is a directory of YAML and JSON
// documents, as package manifest reads them.
//
// The tree is watched, and read as a whole from time to time. Nothing that can't be
// read is taken for something that is gone: a document with a mistake, an unreadable
// file or directory keeps what it had, and a file is not looked at while it is being
// written. What is remembered of a document takes some 200 bytes; payloads are not.
//
// Follow Run: it tells all (full.go), waits for the system to tell of changes
// (watch.go), and then looks at what changed (change.go). Both read files by load.go
// and remember them in an index (index.go).
package dir

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/pawlsync/pawl/internal/source"
)

// Options are what a directory is read by.
type Options struct {
	// Path is the directory, with all below it. It need not exist yet.
	Path string
	// Include are patterns of the files that are read, relative to Path, with ** for any
	// number of directories. Defaults to all. Only .yaml, .yml and .json files are ever read.
	Include []string
	// Exclude are patterns of what is left out, files and directories.
	Exclude []string
	// Rescan is how often everything is read again. Defaults to 5m.
	Rescan time.Duration
	// Settle is how long a file must have been quiet before it is read. Defaults to 200ms.
	Settle time.Duration
	// Kubernetes takes manifests of Kubernetes. Defaults to none: they are mistakes.
	Kubernetes *Kubernetes
	// Log gets what an operator should know. Defaults to none.
	Log *slog.Logger
}

const (
	defaultRescan = 5 * time.Minute
	defaultSettle = 200 * time.Millisecond
	// missingEvery is how often a directory that is not there is looked for.
	missingEvery = 2 * time.Second
)

// Source is a directory. It implements source.Source.
type Source struct {
	opts    Options
	filter  filter
	objects *objects
	log     *slog.Logger
	asked   chan struct{}
	seed    maphash.Seed

	// For tests.
	fs       fileSystem
	addWatch func(w *fsnotify.Watcher, dir string) error

	// Of Run.
	index   *index
	list    *listing // the newest; nil: none yet
	trouble bool     // was told, and is not over
	pending pending
}

// New returns the source of a directory. Its errors are of patterns and of the template
// of keys.
func New(opts Options) (*Source, error) {
	opts.Rescan, opts.Settle = orElse(opts.Rescan, defaultRescan), orElse(opts.Settle, defaultSettle)
	s := &Source{
		opts: opts, log: opts.Log, asked: make(chan struct{}, 1), seed: maphash.MakeSeed(),
		fs: system, addWatch: (*fsnotify.Watcher).Add, index: newIndex(), pending: newPending(),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if s.filter, err = newFilter(opts.Include, opts.Exclude); err != nil {
		return nil, err
	}
	if k := opts.Kubernetes; k != nil {
		s.objects = &objects{sink: k.Sink}
		if k.Key != "" {
			if s.objects.key, err = parseKey(k.Key); err != nil {
				return nil, fmt.Errorf("the template of keys %q: %w", k.Key, err)
			}
		}
	}
	return s, nil
}

func orElse(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

// Rescan asks for everything to be read again.
func (s *Source) Rescan() {
	select {
	case s.asked <- struct{}{}:
	default: // it is asked for already
	}
}

// Run implements source.Source. Its errors are those of in.
func (s *Source) Run(ctx context.Context, in source.Inlet) error {
	w := s.newWatcher()
	defer w.close()
	rescan := time.NewTimer(s.opts.Rescan)
	defer rescan.Stop()
	all := true
	for ctx.Err() == nil {
		if all {
			if err := s.tellAll(ctx, in, w); err != nil {
				return err
			}
			if s.trouble {
				rescan.Reset(min(missingEvery, s.opts.Rescan))
			} else {
				rescan.Reset(s.opts.Rescan)
			}
		}
		due, stop := w.due()
		select {
		case <-ctx.Done():
		case <-s.asked:
			all = true
		case <-rescan.C:
			all = true
		case <-w.wake: // there is more; it is due later
			all = false
		case <-due:
			all = s.tellChanges(ctx, in, w)
		}
		stop()
	}
	return nil
}

// troubled tells what keeps the tree from being read; nil: nothing any more.
func (s *Source) troubled(in source.Inlet, err error) {
	if err == nil && !s.trouble {
		return
	}
	s.trouble = err != nil
	if err != nil {
		path := s.opts.Path
		if abs, err := filepath.Abs(path); err == nil {
			path = abs // who reads it is elsewhere
		}
		err = fmt.Errorf("%s: %w", path, err)
	}
	in.Trouble(err)
}
