package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost"
)

// post is a configured sink's place: what is opened there, and what serves there
// now. Its plugin may change while the daemon runs; its name and all else that it is
// opened with do not.
type post struct {
	config wasmhost.SinkConfig
	plugin string // its name in the configuration
	pauses config.Breaker

	mu      sync.Mutex
	module  *module          // that serves, or that could not be configured yet
	sink    *wasmhost.Sink   // nil: it is not ready
	why     error            // why it is not
	serving []*wasmhost.Sink // sink, and those before it that still finish
	past    wasmhost.Stats   // of those that have finished
}

func newPost(c wasmhost.SinkConfig, plugin string, pauses config.Breaker, m *module) *post {
	return &post{config: c, plugin: plugin, pauses: pauses, module: m}
}

// open configures m's plugin for this post.
func (p *post) open(ctx context.Context, m *module) (*wasmhost.Sink, error) {
	_, old, _ := p.now()
	c := p.config
	c.Replaces = old
	s, err := m.Open(ctx, c)
	if err != nil || old == nil {
		return s, err
	}
	if is, was := s.Manifest().Target, old.Manifest().Target; is != was {
		// All that was confirmed would count for nothing (R13), which nobody wishes
		// who replaces a plugin.
		_ = s.Close(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("sink %s: the new module says that the target is %q, and it was %q: what was confirmed there would count no more; restart the daemon if that is meant", c.Name, is, was)
	}
	return s, nil
}

// now is the module and the sink that serve; that is nil where it is not ready,
// because of why.
func (p *post) now() (m *module, s *wasmhost.Sink, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.module, p.sink, p.why
}

// begin opens the post's first sink. That the target does not answer is no error.
func (p *post) begin(ctx context.Context) error {
	m, _, _ := p.now()
	s, err := p.open(ctx, m)
	if err != nil && !errors.Is(err, wasmhost.ErrUnready) {
		return err
	}
	p.take(m, s, err)
	return nil
}

// take puts a sink into service, or notes why there is none.
func (p *post) take(m *module, s *wasmhost.Sink, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.module, p.sink, p.why = m, s, why
	if s != nil {
		p.serving = append(p.serving, s)
	}
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
	if p.sink == nil {
		return p.module.Unready(p.why)
	}
	return p.sink
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
