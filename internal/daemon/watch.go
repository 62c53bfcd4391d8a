package daemon

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pawlsync/pawl/config"
)

// watch looks from time to time whether the configuration file, or the module of a
// plugin, changed. It looks rather than asks the system to tell: that works for
// every file system and every way to put a file in its place, a renamed one, one
// written in place, and the symbolic links of mounted volumes.
type watch struct {
	keeper *keeper
	config *config.Config // in force
	reload func() (*config.Config, error)
	every  time.Duration

	file    watched // the configuration
	plugins map[string]*watchedPlugin
}

// watched is a file of which changes matter.
type watched struct {
	path   string
	seen   fileState // by the last look
	judged fileState // that was acted upon
}

// watchedPlugin is a plugin, and what the configuration says of its module.
type watchedPlugin struct {
	watched
	source config.Plugin // all but the limits, which the sinks are opened with
	stale  bool          // source changed since
}

// fileState tells one state of a file from another without reading it.
type fileState struct {
	info os.FileInfo // nil: it can't be looked at
}

func stateOf(path string) fileState {
	if path == "" {
		return fileState{}
	}
	info, err := os.Stat(path)
	if err != nil {
		return fileState{}
	}
	return fileState{info}
}

func (s fileState) same(o fileState) bool {
	if s.info == nil || o.info == nil {
		return s.info == o.info
	}
	return s.info.Size() == o.info.Size() && s.info.ModTime().Equal(o.info.ModTime()) && os.SameFile(s.info, o.info)
}

// look reports whether there is something new that is to be acted upon, and whether
// the file may still be being written: it was not the same at the look before. At
// once: that does not matter.
func (w *watched) look(atOnce bool) (changed, unsettled bool) {
	now := stateOf(w.path)
	unsettled = !now.same(w.seen)
	w.seen = now
	switch {
	case now.same(w.judged):
		return false, false
	case unsettled && !atOnce:
		return false, true
	}
	w.judged = now
	return true, false
}

// newWatch notes what the files are like, before they are read.
func newWatch(c *config.Config, reload func() (*config.Config, error), every time.Duration) *watch {
	w := &watch{config: c, reload: reload, every: every, plugins: map[string]*watchedPlugin{}}
	w.file = watched{path: c.File, seen: stateOf(c.File)} // it was read before, and so is read once more
	for _, s := range c.Sinks {
		source := c.Plugins[s.Plugin]
		w.plugins[s.Plugin] = &watchedPlugin{watched: watchedAsNow(source.Path), source: source}
	}
	return w
}

func watchedAsNow(path string) watched {
	state := stateOf(path)
	return watched{path: path, seen: state, judged: state}
}

// run looks until ctx ends; hangup makes it look at once.
func (w *watch) run(ctx context.Context, hangup <-chan os.Signal) {
	next := time.NewTimer(w.every)
	defer next.Stop()
	for {
		atOnce := false
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			atOnce = true
		case <-next.C:
		}
		if w.look(ctx, atOnce) {
			next.Reset(w.every / 2)
		} else {
			next.Reset(w.every)
		}
	}
}

// look looks at every file, acts upon what changed, and reports whether something
// may still be being written.
func (w *watch) look(ctx context.Context, atOnce bool) (unsettled bool) {
	changed, unsettled := w.file.look(atOnce)
	if w.reload != nil && (changed || atOnce) {
		w.readConfig()
	}
	for name, p := range w.plugins {
		changed, writing := p.look(atOnce)
		unsettled = unsettled || writing
		if (changed || p.stale) && ctx.Err() == nil {
			p.stale = false
			w.judge(ctx, name, p)
		}
	}
	return unsettled
}

// readConfig reads the configuration again. It takes over where the modules of the
// plugins in use come from, and says what else changed.
func (w *watch) readConfig() {
	log := w.keeper.log
	c, err := w.reload()
	if err != nil {
		log.Error("the configuration changed and is wrong; the one in force stays", "error", err)
		return
	}
	other := slices.DeleteFunc(config.Differences(w.config, c), func(key string) bool { return w.takesOver(c, key) })
	if len(other) > 0 {
		log.Warn("the configuration changed; what is not the module of a plugin in use needs a restart", "file", c.File, "keys", other)
	}
	for name, p := range w.plugins {
		source, declared := c.Plugins[name]
		if !declared || sameModule(p.source, source) {
			continue
		}
		if p.source.Path != source.Path {
			p.watched = watched{path: source.Path, seen: stateOf(source.Path), judged: stateOf(source.Path)}
		}
		p.source, p.stale = source, true
		log.Info("the configuration names another module for a plugin", "plugin", name)
	}
}

// takesOver reports whether a key that differs in c is one that the running daemon
// acts upon.
func (w *watch) takesOver(c *config.Config, key string) bool {
	rest, ok := strings.CutPrefix(key, "plugins.")
	name, field, _ := strings.Cut(rest, ".")
	_, used := w.plugins[name]
	_, declared := c.Plugins[name]
	return ok && used && declared && field != "limits" && !strings.HasPrefix(field, "limits.")
}

// sameModule reports whether both say the same of where a module comes from.
func sameModule(a, b config.Plugin) bool {
	a.Limits, b.Limits = config.SinkLimits{}, config.SinkLimits{} // those are the sinks'
	return a == b
}

// judge reads a plugin's module, and swaps it if it is another one than before.
func (w *watch) judge(ctx context.Context, name string, p *watchedPlugin) {
	k := w.keeper
	log := k.log.With("plugin", name, "file", p.path)
	result, err := w.exchange(ctx, name, p)
	switch {
	case ctx.Err() != nil, result == "":
		return
	case err != nil:
		log.Error("a plugin's module changed and is refused; the old one goes on, and the daemon would not start with this one", "error", err)
	case result == resultPostponed:
		log.Warn("a plugin was replaced, but not yet at sinks whose target does not answer: there the old module goes on until it does", "digest", hexDigest(k.targets.modules.current(name).Digest()))
	default:
		log.Info("a plugin was replaced; what the old module began it ends", "digest", hexDigest(k.targets.modules.current(name).Digest()))
	}
	k.swapped(name, result)
}

// exchange is judge without words; result is "" where nothing was to be done.
func (w *watch) exchange(ctx context.Context, name string, p *watchedPlugin) (result string, err error) {
	_, wasm, err := w.keeper.targets.source.read(ctx, name, p.source)
	if err != nil {
		return resultRefused, err
	}
	if what := unpinned(wasm, p.source.SHA256); what != "" {
		return resultRefused, fmt.Errorf("plugins.%s.sha256: %s", name, what)
	}
	if unpinned(wasm, hexDigest(w.keeper.targets.modules.current(name).Digest())) == "" {
		return "", nil // it is in force already
	}
	m, err := w.keeper.targets.load(ctx, wasm, name, p.source)
	if err != nil {
		return resultRefused, err
	}
	return w.keeper.swap(ctx, m)
}
