package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
)

// setup is what a sink is opened with.
type setup struct {
	plugin string // its name in the configuration
	module *module
	config wasmhost.SinkConfig
	pauses config.Breaker // between tries, while the target does not answer
}

// with is s with another module of its plugin.
func (s *setup) with(m *module) *setup {
	next := *s
	next.module = m
	return &next
}

// opensAs reports whether a sink that was opened with one is as good as one that was
// opened with the other.
func (s *setup) opensAs(o *setup) bool { return s.module == o.module && s.configuredAs(o) }

// configuredAs reports whether all but the module is the same.
func (s *setup) configuredAs(o *setup) bool {
	return s.plugin == o.plugin && string(s.config.Config) == string(o.config.Config) &&
		s.config.Limits == o.config.Limits && slices.Equal(s.config.Upstreams, o.config.Upstreams)
}

// upstreams are those that it may reach.
func (s *setup) upstreams() (out []*upstream.Upstream) {
	for _, u := range s.config.Upstreams {
		if opened, ok := u.(*upstream.Upstream); ok { // else it stands in for one that could not be opened
			out = append(out, opened)
		}
	}
	return out
}

// post is a configured sink's place: what is opened there, and what serves there
// now. What it is opened with may change while the daemon runs; its name does not.
type post struct {
	name string

	mu      sync.Mutex
	setup   *setup           // of what serves, or could not be configured yet
	sink    *wasmhost.Sink   // nil: it is not ready
	why     error            // why it is not
	serving []*wasmhost.Sink // sink, and those before it that still finish
	past    wasmhost.Stats   // of those that have finished
}

func newPost(name string, s *setup) *post { return &post{name: name, setup: s} }

// open configures a plugin for this post by s.
func (p *post) open(ctx context.Context, s *setup) (*wasmhost.Sink, error) {
	was, old, _ := p.now()
	c := s.config
	c.Replaces = old
	opened, err := s.module.Open(ctx, c)
	if err != nil || old == nil || !s.configuredAs(was) {
		return opened, err
	}
	if is, was := opened.Manifest().Target, old.Manifest().Target; is != was {
		// All that was confirmed would count for nothing (R13), which nobody wishes
		// who replaces a plugin.
		_ = opened.Close(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("sink %s: the new module says that the target is %q, and it was %q: what was confirmed there would count no more; restart the daemon if that is meant", c.Name, is, was)
	}
	return opened, nil
}

// now is what serves, and what it was opened with; the sink is nil where it is not
// ready, because of why.
func (p *post) now() (s *setup, serving *wasmhost.Sink, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.setup, p.sink, p.why
}

// begin opens the post's first sink. That the target does not answer is no error.
func (p *post) begin(ctx context.Context) error {
	s, _, _ := p.now()
	opened, err := p.open(ctx, s)
	if err != nil && !errors.Is(err, wasmhost.ErrUnready) {
		return err
	}
	p.take(s, opened, err)
	return nil
}

// take puts a sink into service, or notes why there is none.
func (p *post) take(s *setup, opened *wasmhost.Sink, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setup, p.sink, p.why = s, opened, why
	if opened != nil {
		p.serving = append(p.serving, opened)
	}
}

// resettle notes other pauses: s is as what was there in all else.
func (p *post) resettle(s *setup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setup = s
}

// finished takes a sink that is closed off the post's books.
func (p *post) finished(s *wasmhost.Sink) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serving = slices.DeleteFunc(p.serving, func(o *wasmhost.Sink) bool { return o == s })
	p.past = p.past.Plus(s.Stats())
}

// inEngine is what an engine is given: the sink, or what stands in for it.
func (p *post) inEngine() sink.Sink {
	p.mu.Lock()
	defer p.mu.Unlock()
	return standFor(p.setup, p.sink, p.why)
}

// standFor is the sink, or what stands in for it where it is not ready.
func standFor(s *setup, opened *wasmhost.Sink, why error) sink.Sink {
	if opened == nil {
		return s.module.Unready(why)
	}
	return opened
}

// manifest is what the plugin that serves says of itself.
func (p *post) manifest() sink.Manifest { return p.inEngine().Manifest() }

// stats are those of all that served here.
func (p *post) stats() wasmhost.Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := p.past
	for _, s := range p.serving {
		sum = sum.Plus(s.Stats())
	}
	return sum
}

// close closes a sink that no engine took over.
func (p *post) close() error {
	if _, s, _ := p.now(); s != nil {
		return s.Close(context.Background())
	}
	return nil
}
