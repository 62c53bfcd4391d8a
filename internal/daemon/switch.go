package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"maps"

	"github.com/pawlsync/pawl/config"
)

// switchTo puts a draft in force, and returns what of it could not be done. Sinks come
// before the sources that tell of them, and leave after those.
func (r *reloader) switchTo(ctx context.Context, d *draft) (problems []string) {
	k, t := r.keeper, r.keeper.targets
	fail := func(what string, err error) {
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", what, err))
		}
	}
	fail("the API's templates and masks", r.server.Configure(d.templates, sensitive(d.config)))
	r.server.SetLimits(clientLimits(d.config))
	for name, u := range d.upstreams {
		fail("upstream "+name, t.upstreams.add(name, u))
	}
	swaps := d.swaps()
	for name, m := range d.modules {
		fail("plugin "+name, t.modules.add(name, m))
	}
	for name, result := range swaps {
		k.tellSwap(name, result)
	}
	for _, m := range d.moves {
		if m.comes {
			fail("sink "+m.post.name, r.addSink(ctx, m))
		} else {
			err := r.changeSink(ctx, m)
			if err != nil { // what was in force still is: the next reload finds the difference
				d.config.Sinks = maps.Clone(d.config.Sinks)
				d.config.Sinks[m.post.name] = d.was.Sinks[m.post.name]
			}
			fail("sink "+m.post.name, err)
		}
	}
	if len(d.ending)+len(d.beginning) > 0 {
		fail("sources", r.sources.Change(ctx, d.ending, d.beginning))
	}
	for _, name := range d.ending {
		if _, stays := d.config.Sources[name]; !stays {
			r.observer.ForgetSource(name)
		}
	}
	for _, name := range d.leaving {
		fail("sink "+name, r.removeSink(name))
	}
	used, granted := map[string]bool{}, map[string]bool{}
	for _, s := range d.config.Sinks {
		used[s.Plugin] = true
	}
	for name := range d.config.Upstreams {
		granted[name] = true
	}
	fail("plugins that are used no more", t.modules.keep(used))
	fail("upstreams that are gone", t.upstreams.keep(granted))
	k.engine.SetMaxInFlight(d.config.Limits.MaxInFlight)
	fail("log.level", r.setLevel(d.config.Log))
	return problems
}

// swaps are the plugins that get another module, each with its result as metrics name
// it.
func (d *draft) swaps() map[string]string {
	out := map[string]string{}
	for name := range d.modules {
		if d.targets.modules.current(name) != nil {
			out[name] = resultSwapped
		}
	}
	for _, m := range d.moves {
		if _, swapped := out[m.setup.plugin]; swapped && !m.comes && m.sink == nil {
			out[m.setup.plugin] = resultPostponed
		}
	}
	return out
}

// addSink makes a new post, and a sink of it.
func (r *reloader) addSink(ctx context.Context, m *move) error {
	k, p := r.keeper, m.post
	p.take(m.setup, m.sink, m.why)
	m.options.Sink = p.inEngine()
	if err := r.engine.AddSink(ctx, m.options); err != nil {
		if cerr := p.close(); cerr != nil {
			r.log.Error("a sink that could not be added could not be closed", "sink", p.name, "error", cerr)
		}
		return err
	}
	k.targets.add(p)
	k.man(k.ctx, p)
	return nil
}

// changeSink gives a post what it is to have from now on.
func (r *reloader) changeSink(ctx context.Context, m *move) error {
	k, p := r.keeper, m.post
	waited := k.endWait(p)
	stays := !m.reopens || m.keepsServing()
	if !stays {
		m.options.Sink = standFor(m.setup, m.sink, m.why)
	}
	retired, err := r.engine.ChangeSink(m.options)
	if err != nil {
		if m.sink != nil {
			_ = m.sink.Close(context.WithoutCancel(ctx))
		}
		return err
	}
	switch {
	case !stays:
		k.hand(p, m.setup, m.sink, m.why, retired)
		if m.sink == nil {
			k.notReady(p, m.setup, m.why)
		}
	case !m.reopens && !waited:
		p.resettle(m.setup)
	}
	if m.reopens && m.sink == nil || waited && !m.reopens {
		k.wait(k.ctx, p, m.setup)
	}
	return nil
}

// removeSink takes a post out, with its sink.
func (r *reloader) removeSink(name string) error {
	k := r.keeper
	p := k.targets.of(name)
	k.endWait(p)
	retired, err := r.engine.RemoveSink(name)
	if err != nil {
		return err
	}
	k.targets.remove(name)
	su, s, _ := p.now()
	k.clear(p, su, s, retired)
	return nil
}

// setLevel puts log.level in force.
func (r *reloader) setLevel(c config.Log) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		return err
	}
	if c.Level != r.inForce.Log.Level { // else one that was set at run time stays
		r.options.LogLevel.Set(level)
	}
	return nil
}
