package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/wasmhost"
)

// keeper keeps the sinks at their posts while the daemon runs: it goes on trying to
// configure those that are not ready, and replaces those whose plugin's module
// changed. See watch.go for how it learns of that.
type keeper struct {
	targets *targets
	engine  *engine.Engine
	log     *slog.Logger
	ctx     context.Context             // of waits; ends when the daemon stops
	swapped func(plugin, result string) // for metrics
	forget  func(sinkName string)       // the metrics of a sink that is gone

	waits    map[*post]*wait
	loops    sync.WaitGroup // the watch and every wait
	retiring sync.WaitGroup // sinks that finish what they began
}

// The results of a swap, as metrics name them.
const (
	resultSwapped   = "swapped"
	resultPostponed = "postponed" // for some sink: its target does not answer
	resultRefused   = "refused"
)

// wait is the wait until a post's plugin can be configured.
type wait struct {
	setup *setup
	stop  context.CancelFunc
	ended chan struct{}
	done  bool // it was; to be read when ended is closed
}

// begin goes on with the posts that are not ready.
func (k *keeper) begin(ctx context.Context) {
	for _, p := range k.targets.all() {
		k.man(ctx, p)
	}
}

// man looks after a new post.
func (k *keeper) man(ctx context.Context, p *post) {
	su, s, why := p.now()
	k.targets.use(su)
	if s == nil {
		k.notReady(p, su, why)
		k.wait(ctx, p, su)
	}
}

func (k *keeper) notReady(p *post, su *setup, why error) {
	k.log.Warn("a sink is not ready; what is put for it waits, and its plugin is configured when the target answers",
		"sink", p.name, "plugin", su.plugin, "error", why)
}

// wait makes a sink that is opened by su take over post p as soon as it can be
// configured.
func (k *keeper) wait(ctx context.Context, p *post, su *setup) {
	ctx, cancel := context.WithCancel(ctx)
	w := &wait{setup: su, stop: cancel, ended: make(chan struct{})}
	k.waits[p] = w
	k.targets.use(su)
	k.loops.Go(func() {
		defer close(w.ended)
		defer cancel()
		w.done = k.keepTrying(ctx, p, su)
		k.leave(su)
	})
}

// endWait ends the wait of post p, and reports whether it ended too early.
func (k *keeper) endWait(p *post) bool {
	w := k.waits[p]
	if w == nil {
		return false
	}
	delete(k.waits, p)
	w.stop()
	<-w.ended
	return !w.done
}

// destined is what post p is opened with, or is waiting to be.
func (k *keeper) destined(p *post) *setup {
	if w := k.waits[p]; w != nil {
		return w.setup
	}
	su, _, _ := p.now()
	return su
}

// keepTrying opens a sink at post p again and again, with pauses that grow, and reports
// whether it serves there.
func (k *keeper) keepTrying(ctx context.Context, p *post, su *setup) bool {
	told := ""
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause(su.pauses, n)):
		}
		s, err := p.open(ctx, su)
		switch {
		case err == nil:
			if !k.place(p, su, s) {
				return false
			}
			k.log.Info("a sink is ready", "sink", p.name, "plugin", su.plugin, "digest", hexDigest(su.module.Digest()))
			return true
		case ctx.Err() == nil && err.Error() != told:
			told = err.Error()
			k.log.Warn("a sink's plugin can't be configured yet; it is tried again", "sink", p.name, "plugin", su.plugin, "error", err)
			k.standIn(p, su, err)
		}
	}
}

// pause is the n-th one between tries: doubled each time, jittered in its upper half.
func pause(b config.Breaker, n int) time.Duration {
	d := b.ProbeBase
	for ; n > 0 && d < b.ProbeMax; n-- {
		d *= 2
	}
	d = min(d, b.ProbeMax)
	return d/2 + rand.N(d/2+1)
}

// place puts s into service at post p; what was there finishes what it began. It
// reports false where the engine is closed.
func (k *keeper) place(p *post, su *setup, s *wasmhost.Sink) bool {
	retired, err := k.engine.ReplaceSink(p.name, s)
	if err != nil {
		_ = s.Close(context.Background())
		return false
	}
	k.hand(p, su, s, nil, retired)
	return true
}

// hand notes that another sink serves at post p, or that none is ready because of why,
// and clears away what was there when it has retired.
func (k *keeper) hand(p *post, su *setup, s *wasmhost.Sink, why error, retired <-chan error) {
	before, old, _ := p.now()
	k.targets.use(su)
	p.take(su, s, why)
	k.clear(p, before, old, retired)
}

// clear clears away what served at post p when it has retired.
func (k *keeper) clear(p *post, before *setup, old *wasmhost.Sink, retired <-chan error) {
	k.retiring.Go(func() {
		if err := <-retired; err != nil {
			k.log.Error("a sink that was replaced did not end well", "sink", p.name, "error", err)
		}
		if old != nil {
			p.finished(old)
		}
		k.leave(before)
		if k.targets.of(p.name) == nil {
			k.forget(p.name)
		}
	})
}

// standIn shows why what su opens is not ready at post p, if nothing serves there.
func (k *keeper) standIn(p *post, su *setup, why error) {
	if _, old, _ := p.now(); old != nil {
		return
	}
	retired, err := k.engine.ReplaceSink(p.name, su.module.Unready(why))
	if err != nil {
		return // the engine is closed
	}
	k.hand(p, su, nil, why, retired)
}

func (k *keeper) leave(s *setup) { k.closed(s.plugin, k.targets.leave(s)) }

func (k *keeper) closed(plugin string, err error) {
	if err != nil {
		k.log.Error("a plugin that was replaced could not be closed", "plugin", plugin, "error", err)
	}
}

// swap puts m in the place of the plugin of its name: at all posts or, where it is
// refused at any, at none. At those whose target does not answer now, the old one
// serves until it does. Where it returns an error m is closed.
func (k *keeper) swap(ctx context.Context, m *module) (result string, err error) {
	old := k.targets.modules.current(m.name)
	if is, was := m.Manifest().Name, old.Manifest().Name; is != was {
		_ = m.Close(context.WithoutCancel(ctx))
		return resultRefused, fmt.Errorf("the module is the plugin %s, and the sinks were configured for %s; restart the daemon if that is meant", is, was)
	}
	posts := k.postsOf(m.name)
	var waited []*post
	for _, p := range posts {
		if k.endWait(p) {
			waited = append(waited, p)
		}
	}
	opened, err := openAll(ctx, posts, m)
	if err != nil {
		for _, s := range opened {
			_ = s.Close(context.WithoutCancel(ctx))
		}
		_ = m.Close(context.WithoutCancel(ctx))
		for _, p := range waited {
			su, _, _ := p.now()
			k.wait(ctx, p, su.with(old))
		}
		return resultRefused, err
	}
	k.closed(m.name, k.targets.modules.add(m.name, m))
	result = resultSwapped
	for _, p := range posts {
		su, _, _ := p.now()
		if s := opened[p]; s != nil {
			k.place(p, su.with(m), s)
			continue
		}
		result = resultPostponed
		k.wait(ctx, p, su.with(m))
	}
	return result, nil
}

// tellSwap tells that another module of a plugin is in force.
func (k *keeper) tellSwap(plugin, result string) {
	log := k.log.With("plugin", plugin, "digest", hexDigest(k.targets.modules.current(plugin).Digest()))
	if result == resultPostponed {
		log.Warn("a plugin was replaced, but not yet at sinks whose target does not answer: there the old module goes on until it does")
	} else {
		log.Info("a plugin was replaced; what the old module began it ends")
	}
	k.swapped(plugin, result)
}

func (k *keeper) postsOf(plugin string) []*post {
	var out []*post
	for _, p := range k.targets.all() {
		if su, _, _ := p.now(); su.plugin == plugin {
			out = append(out, p)
		}
	}
	return out
}

// openAll opens m at every post, all at once. Posts whose target does not answer
// are missing in what it returns; an error says what m is refused for.
func openAll(ctx context.Context, posts []*post, m *module) (map[*post]*wasmhost.Sink, error) {
	var (
		wait   sync.WaitGroup
		mu     sync.Mutex
		opened = map[*post]*wasmhost.Sink{}
		errs   = make([]error, len(posts))
	)
	for i, p := range posts {
		wait.Go(func() {
			su, _, _ := p.now()
			s, err := p.open(ctx, su.with(m))
			switch {
			case err == nil:
				mu.Lock()
				defer mu.Unlock()
				opened[p] = s
			case !errors.Is(err, wasmhost.ErrUnready):
				errs[i] = err
			}
		})
	}
	wait.Wait()
	if ctx.Err() != nil {
		return opened, context.Cause(ctx)
	}
	return opened, errors.Join(slices.DeleteFunc(errs, func(err error) bool { return err == nil })...)
}
