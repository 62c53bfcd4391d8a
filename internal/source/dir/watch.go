package dir

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// patience is how much longer than Settle changes may go on before they are looked at
// all the same.
const patience = 10

// watcher collects what the system tells of the tree. Where the system can watch no
// more, rescans see what changes.
type watcher struct {
	s    *Source
	sys  *fsnotify.Watcher // nil: the system has none left
	wake chan struct{}     // something was noted
	done chan struct{}

	watched map[string]struct{}
	limited bool // was told

	mu      sync.Mutex
	gather  gather
	stirred bool // documents changed, or things came, went or moved, since the last take
}

func (s *Source) newWatcher() *watcher {
	w := s.notWatching()
	sys, err := fsnotify.NewBufferedWatcher(1024)
	if err != nil {
		w.limit(".", err)
		close(w.done)
		return w
	}
	w.sys = sys
	go w.collect()
	return w
}

// notWatching returns a watcher that the system tells nothing.
func (s *Source) notWatching() *watcher {
	return &watcher{s: s, wake: make(chan struct{}, 1), done: make(chan struct{}), watched: map[string]struct{}{},
		gather: gather{quiet: s.opts.Settle, most: patience * s.opts.Settle}}
}

func (w *watcher) close() {
	if w.sys != nil {
		_ = w.sys.Close() // nothing was written
	}
	<-w.done
}

func (w *watcher) collect() {
	defer close(w.done)
	for {
		select {
		case e, ok := <-w.sys.Events:
			if !ok {
				return
			}
			w.event(e)
		case _, ok := <-w.sys.Errors: // events were lost, whatever it is
			if !ok {
				return
			}
			w.stir()
			w.note("")
		}
	}
}

func (w *watcher) event(e fsnotify.Event) {
	p, err := filepath.Rel(w.s.opts.Path, e.Name)
	if err != nil {
		return
	}
	p = filepath.ToSlash(p)
	switch base := path.Base(p); {
	case base == ignoreFile, strings.HasPrefix(base, ".."), p == ".":
		// What is read changed; or, with .., which directory the links of a mounted
		// ConfigMap lead to.
		w.stir()
		w.note("")
	case !strings.HasPrefix(base, "."): // hidden: editors' own
		if moved := e.Op&^(fsnotify.Write|fsnotify.Chmod) != 0; moved || w.s.filter.file(p) {
			w.stir()
		}
		w.note(p)
	}
}

// note notes that p is to be looked at; "" is the whole tree.
func (w *watcher) note(p string) {
	w.mu.Lock()
	w.gather.note(time.Now(), p)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// noteAll notes that paths are to be looked at.
func (w *watcher) noteAll(paths []string) {
	for _, p := range paths {
		w.note(p)
	}
}

// due returns what tells that changes can be looked at.
func (w *watcher) due() (due <-chan time.Time, stop func() bool) {
	w.mu.Lock()
	d, ok := w.gather.wait(time.Now())
	w.mu.Unlock()
	if !ok {
		return nil, func() bool { return true }
	}
	t := time.NewTimer(d)
	return t.C, t.Stop
}

// take returns what is to be looked at, and begins anew; calm: what is there is as it was
// at the last take.
func (w *watcher) take() (paths map[string]struct{}, whole, calm bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	calm, w.stirred = !w.stirred, false
	paths, whole = w.gather.take()
	return paths, whole, calm
}

func (w *watcher) stir() {
	w.mu.Lock()
	w.stirred = true
	w.mu.Unlock()
}

// calm reports whether what is there is as it was at the last take.
func (w *watcher) calm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.stirred
}

// add watches the directory p, again where it was watched: another one may be there now.
func (w *watcher) add(p string) {
	if w.sys == nil {
		return
	}
	switch err := w.s.addWatch(w.sys, w.s.at(p)); {
	case err == nil:
		w.watched[p] = struct{}{}
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission): // who reads it sees these
		w.limit(p, err)
	}
}

// only stops watching all but dirs.
func (w *watcher) only(dirs map[string]struct{}) {
	for p := range w.watched {
		if _, ok := dirs[p]; !ok {
			_ = w.sys.Remove(w.s.at(p)) // it may be gone, and the watch with it
			delete(w.watched, p)
		}
	}
}

// limit tells once that something can't be watched.
func (w *watcher) limit(p string, err error) {
	if w.limited {
		return
	}
	w.limited = true
	w.s.log.Warn("a directory can't be watched; changes in it, and in others, are seen at the next rescan",
		"dir", w.s.at(p), "rescan", w.s.opts.Rescan, "error", plain(err),
		"hint", "raise the system's limits of watches, as fs.inotify.max_user_watches and max_user_instances, or rescan more often")
}
