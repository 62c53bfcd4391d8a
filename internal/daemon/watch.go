package daemon

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/internal/api"
)

// watch looks from time to time whether the configuration file, or the module of a
// plugin, changed. It looks rather than asks the system to tell: that works for
// every file system and every way to put a file in its place, a renamed one, one
// written in place, and the symbolic links of mounted volumes.
type watch struct {
	keeper   *keeper
	manager  *notifier
	reloader *reloader
	every    time.Duration
	asks     chan ask // of the API

	file    watched // the configuration
	plugins map[string]*watchedPlugin
}

// ask is a reload that somebody asks for.
type ask struct {
	dryRun bool
	answer chan<- api.Reload // has room for it
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
func newWatch(c *config.Config, every time.Duration) *watch {
	w := &watch{every: every, asks: make(chan ask), plugins: map[string]*watchedPlugin{}}
	w.file = watched{path: c.File, seen: stateOf(c.File)} // it was read before, and so is read once more
	w.watchPlugins(c)
	return w
}

// watchPlugins watches the modules of the plugins that c uses.
func (w *watch) watchPlugins(c *config.Config) {
	used := map[string]*watchedPlugin{}
	for _, s := range c.Sinks {
		source := c.Plugins[s.Plugin]
		p := w.plugins[s.Plugin]
		if p == nil || p.path != source.Path {
			p = &watchedPlugin{watched: watchedAsNow(source.Path)}
		}
		p.source = source
		used[s.Plugin] = p
	}
	w.plugins = used
}

// Reload reads the configuration again as soon as nothing else is being read, and waits
// for the end of it; ctx ends the wait alone. Of a dry run nothing changes.
func (w *watch) Reload(ctx context.Context, dryRun bool) (api.Reload, error) {
	answer := make(chan api.Reload, 1)
	select {
	case w.asks <- ask{dryRun, answer}:
	case <-ctx.Done():
		return api.Reload{}, ctx.Err()
	}
	select {
	case out := <-answer:
		return out, nil
	case <-ctx.Done():
		return api.Reload{}, ctx.Err()
	}
}

// Status is how the configuration in force and its file are to each other.
func (w *watch) Status() api.ConfigStatus { return w.reloader.Status() }

func watchedAsNow(path string) watched {
	state := stateOf(path)
	return watched{path: path, seen: state, judged: state}
}

// run looks until ctx ends; hangup makes it look at once, and so does who asks.
func (w *watch) run(ctx context.Context, hangup <-chan os.Signal) {
	next := time.NewTimer(w.every)
	defer next.Stop()
	for {
		unsettled := false
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			looked := w.manager.reloading()
			unsettled = w.look(ctx, true)
			looked()
		case a := <-w.asks:
			a.answer <- w.asked(ctx, a.dryRun)
		case <-next.C:
			unsettled = w.look(ctx, false)
		}
		if unsettled {
			next.Reset(w.every / 2)
		} else {
			next.Reset(w.every)
		}
	}
}

// asked does what somebody asks for through the API.
func (w *watch) asked(ctx context.Context, dryRun bool) api.Reload {
	if dryRun {
		return w.reloader.reload(ctx, true)
	}
	looked := w.manager.reloading()
	defer looked()
	w.file.look(true)
	out := w.readConfig(ctx)
	w.lookAtModules(ctx, true)
	return out
}

// look looks at every file, acts upon what changed, and reports whether something
// may still be being written.
func (w *watch) look(ctx context.Context, atOnce bool) (unsettled bool) {
	changed, unsettled := w.file.look(atOnce)
	if w.reloader.read != nil && (changed || atOnce) {
		w.readConfig(ctx)
	}
	return w.lookAtModules(ctx, atOnce) || unsettled
}

func (w *watch) readConfig(ctx context.Context) api.Reload {
	out := w.reloader.reload(ctx, false)
	if w.file.path != w.reloader.inForce.File {
		w.file = watchedAsNow(w.reloader.inForce.File)
	}
	w.watchPlugins(w.reloader.inForce)
	return out
}

func (w *watch) lookAtModules(ctx context.Context, atOnce bool) (unsettled bool) {
	for name, p := range w.plugins {
		changed, writing := p.look(atOnce)
		unsettled = unsettled || writing
		if changed && ctx.Err() == nil {
			w.judge(ctx, name, p)
		}
	}
	return unsettled
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
		k.swapped(name, result)
	default:
		k.tellSwap(name, result)
	}
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
