package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/internal/sagatemplate"
	"github.com/pawlsync/pawl/internal/source"
)

// draft is a configuration that is to come into force while the daemon runs: what it
// needs besides what is there is opened, and nothing of that is at work yet.
type draft struct {
	was, config *config.Config
	targets     *targets

	upstreams map[string]*upstream.Upstream // that are new, or opened anew
	modules   map[string]*module            // the same, by plugin
	moves     []*move                       // sinks that come or change, by name
	leaving   []string                      // sinks
	ending    []string                      // sources that leave or change
	beginning []source.Spec                 // that come or change
	templates *sagatemplate.Set
}

// move is a sink that comes or changes.
type move struct {
	post    *post // a new one, where it comes
	comes   bool
	setup   *setup
	reopens bool           // its plugin is configured anew
	sink    *wasmhost.Sink // that was opened; nil: it is not opened anew, or not ready because of why
	why     error
	options engine.SinkOptions // Sink stays nil where that is kept
}

// keepsServing reports whether what serves goes on until the new module is ready: all
// else is as it was.
func (m *move) keepsServing() bool {
	was, old, _ := m.post.now()
	return m.reopens && m.sink == nil && old != nil && m.setup.configuredAs(was)
}

// openDraft opens what c needs, or says all that is wrong with it; nothing is left open
// then. was is the configuration in force, destined the setup that a post has, or is
// waiting to have.
func openDraft(ctx context.Context, t *targets, was, c *config.Config, o Options, destined func(*post) *setup, running func() *engine.Engine) (*draft, error) {
	d := &draft{was: was, config: c, targets: t, upstreams: map[string]*upstream.Upstream{}, modules: map[string]*module{}}
	wrong := append(wrongServer(c, o), wrongStore(c)...)
	wrong = append(wrong, d.openUpstreams(o)...)
	wrong = append(wrong, d.loadModules(ctx)...)
	if len(wrong) == 0 { // else what they say of what is missing says nothing new
		d.plan(destined)
		wrong = append(wrong, d.openSinks(ctx)...)
		wrong = append(wrong, d.checkSinks()...)
		wrong = append(wrong, wrongSagas(c, d.manifest)...)
	}
	wrong = append(wrong, d.openSources(o, running)...)
	var err error
	if d.templates, err = sagatemplate.New(c); err != nil {
		wrong = append(wrong, c.Wrong("sagas", err.Error(), ""))
	}
	switch {
	case ctx.Err() != nil:
		return nil, errors.Join(context.Cause(ctx), d.close())
	case len(wrong) > 0:
		return nil, errors.Join(wrong.Sorted(), d.close())
	}
	return d, nil
}

// close closes what was opened and is not to be used.
func (d *draft) close() error {
	var errs []error
	for _, m := range d.moves {
		if m.sink != nil {
			errs = append(errs, m.sink.Close(context.Background()))
		}
	}
	for _, m := range d.modules {
		errs = append(errs, closeModule(m))
	}
	for _, u := range d.upstreams {
		u.Close()
	}
	return errors.Join(errs...)
}

func (d *draft) openUpstreams(o Options) (wrong config.Errors) {
	for _, name := range slices.Sorted(maps.Keys(d.config.Upstreams)) {
		if d.targets.upstreams.current(name) != nil && reflect.DeepEqual(d.was.Upstreams[name], d.config.Upstreams[name]) {
			continue
		}
		u, errs := openUpstream(d.config, name, o)
		if errs != nil {
			wrong = append(wrong, errs...)
			continue
		}
		d.upstreams[name] = u
	}
	return wrong
}

// loadModules loads the modules of plugins that are used, and come from elsewhere than
// those in force. A file that changed is not looked at here: see watch.go.
func (d *draft) loadModules(ctx context.Context) (wrong config.Errors) {
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(d.config.Sinks)) {
		plugin := d.config.Sinks[name].Plugin
		current := d.targets.modules.current(plugin)
		if seen[plugin] || current != nil && sameModule(d.was.Plugins[plugin], d.config.Plugins[plugin]) {
			continue
		}
		seen[plugin] = true
		m, err := d.targets.fetch(ctx, d.config, name, plugin)
		switch {
		case err != nil:
			wrong = append(wrong, err)
		case m == current:
		case current != nil && m.Manifest().Name != current.Manifest().Name:
			wrong = append(wrong, d.config.Wrong("plugins."+plugin, fmt.Sprintf("the module is the plugin %s, and its sinks were configured for %s", m.Manifest().Name, current.Manifest().Name),
				"give it another name in the configuration, if that is meant"))
			_ = closeModule(m)
		default:
			d.modules[plugin] = m
		}
	}
	return wrong
}

// plan finds out which sinks come, change and leave.
func (d *draft) plan(destined func(*post) *setup) {
	for _, name := range slices.Sorted(maps.Keys(d.config.Sinks)) {
		plugin := d.config.Sinks[name].Plugin
		m := d.modules[plugin]
		if m == nil {
			m = d.targets.modules.current(plugin)
		}
		mv := &move{setup: setupOf(d.config, name, m, d.upstream), options: sinkOptions(name, d.config.Sinks[name])}
		if mv.post = d.targets.of(name); mv.post == nil {
			mv.post, mv.comes, mv.reopens = newPost(name, mv.setup), true, true
		} else if mv.reopens = !mv.setup.opensAs(destined(mv.post)); !mv.reopens && mv.options == sinkOptions(name, d.was.Sinks[name]) {
			continue
		}
		d.moves = append(d.moves, mv)
	}
	for _, p := range d.targets.all() {
		if _, stays := d.config.Sinks[p.name]; !stays {
			d.leaving = append(d.leaving, p.name)
		}
	}
}

func (d *draft) upstream(name string) *upstream.Upstream {
	if u := d.upstreams[name]; u != nil {
		return u
	}
	return d.targets.upstreams.current(name)
}

// openSinks configures the plugins of those sinks that come, or are opened anew, all at
// once. That a target does not answer is no error.
func (d *draft) openSinks(ctx context.Context) (wrong config.Errors) {
	var (
		wait sync.WaitGroup
		mu   sync.Mutex
	)
	for _, mv := range d.moves {
		if most := d.targets.memory; mv.setup.config.Limits.MemoryBytes > most {
			wrong = append(wrong, d.config.Wrong("sinks."+mv.post.name+".limits.memory_max_bytes",
				fmt.Sprintf("is more than the %d bytes that any instance may have since the daemon was started", most), "restart the daemon to raise it"))
			continue
		}
		if !mv.reopens {
			continue
		}
		wait.Go(func() {
			opened, err := mv.post.open(ctx, mv.setup)
			if err == nil || errors.Is(err, wasmhost.ErrUnready) {
				mv.sink, mv.why = opened, err
				return
			}
			mu.Lock()
			defer mu.Unlock()
			wrong = append(wrong, wrongHost(d.config, "sinks."+mv.post.name+".config", err))
		})
	}
	wait.Wait()
	return wrong
}

// checkSinks says what the engine would refuse.
func (d *draft) checkSinks() (wrong config.Errors) {
	for _, mv := range d.moves {
		o := mv.options
		switch {
		case mv.reopens && (mv.sink != nil || mv.why != nil):
			o.Sink = standFor(mv.setup, mv.sink, mv.why)
		case mv.reopens:
			continue // it was refused already
		default:
			o.Sink = mv.post.inEngine()
		}
		if err := o.Check(); err != nil {
			wrong = append(wrong, d.config.Wrong("sinks."+mv.post.name+".direction", err.Error(), ""))
		}
	}
	return wrong
}

// manifest is what the plugin of a sink will say of itself.
func (d *draft) manifest(name string) (sink.Manifest, bool) {
	for _, mv := range d.moves {
		if mv.post.name == name && mv.reopens {
			if mv.sink == nil && mv.why == nil {
				return sink.Manifest{}, false // it was refused already
			}
			return standFor(mv.setup, mv.sink, mv.why).Manifest(), true
		}
	}
	return d.targets.manifest(name)
}

// openSources makes the sources that come or change.
func (d *draft) openSources(o Options, running func() *engine.Engine) config.Errors {
	masked := reflect.DeepEqual(sensitive(d.was), sensitive(d.config))
	fresh := map[string]bool{}
	for name, s := range d.config.Sources {
		was, there := d.was.Sources[name]
		same := there && reflect.DeepEqual(was, s) && (s.StateSync == nil || masked)
		if !same {
			fresh[name] = true
		}
	}
	for name := range d.was.Sources {
		if _, stays := d.config.Sources[name]; !stays || fresh[name] {
			d.ending = append(d.ending, name)
		}
	}
	slices.Sort(d.ending)
	var wrong config.Errors
	d.beginning, wrong = openSources(d.config, o, running, fresh)
	return wrong
}
