package daemon

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/internal/kube"
	"github.com/pawlsync/pawl/internal/metrics"
	"github.com/pawlsync/pawl/internal/oci"
)

// targets are the configured sinks with what they run on.
type targets struct {
	host      *wasmhost.Host
	source    moduleSource // of modules
	memory    int64        // the most that any instance may have, in bytes
	upstreams *parts[*upstream.Upstream]
	modules   *parts[*module]

	mu    sync.Mutex
	posts map[string]*post // of sinks
}

// all returns every post, by name.
func (t *targets) all() []*post {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*post, 0, len(t.posts))
	for _, name := range slices.Sorted(maps.Keys(t.posts)) {
		out = append(out, t.posts[name])
	}
	return out
}

// of returns the post of that name, or nil.
func (t *targets) of(name string) *post {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.posts[name]
}

func (t *targets) add(p *post) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.posts[p.name] = p
}

func (t *targets) remove(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.posts, name)
}

// use counts a sink that runs by s, or waits until it can; leave, that it does no more.
func (t *targets) use(s *setup) {
	t.modules.use(s.module)
	for _, u := range s.upstreams() {
		t.upstreams.use(u)
	}
}

func (t *targets) leave(s *setup) error {
	errs := []error{t.modules.leave(s.module)}
	for _, u := range s.upstreams() {
		errs = append(errs, t.upstreams.leave(u))
	}
	return errors.Join(errs...)
}

// manifest is what the plugin of a sink says of itself.
func (t *targets) manifest(name string) (sink.Manifest, bool) {
	p := t.of(name)
	if p == nil {
		return sink.Manifest{}, false
	}
	return p.manifest(), true
}

// openTargets opens every upstream and sink of the configuration, and the
// plugins that sinks use.
func openTargets(ctx context.Context, c *config.Config, o Options) (*targets, error) {
	t := &targets{
		memory:    hostOptions(c, o).MemoryBytes,
		upstreams: newParts(closeUpstream), modules: newParts(closeModule), posts: map[string]*post{},
		source: moduleSource{dir: filepath.Join(c.Wasm.CacheDir, "pulled"), oci: oci.Options{
			UserAgent: "pawl/" + o.Version.Version, CredentialsFile: oci.DockerConfig(o.LookupEnv),
		}},
	}
	if err := t.open(ctx, c, o); err != nil {
		return nil, errors.Join(err, t.closeAll())
	}
	return t, nil
}

// open goes on after what it can't open, so that all of it is told at once.
func (t *targets) open(ctx context.Context, c *config.Config, o Options) error {
	var wrong config.Errors
	for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
		u, errs := openUpstream(c, name, o)
		if errs != nil {
			wrong = append(wrong, errs...)
			continue
		}
		_ = t.upstreams.add(name, u) // there is none before it
	}
	var err error
	if t.host, err = wasmhost.New(ctx, hostOptions(c, o)); err != nil {
		return append(wrong, wrongHost(c, "wasm.cache_dir", err)).Sorted()
	}
	o.Logger.Info("loading plugins; one that is not in the cache is compiled, which takes seconds", "sinks", len(c.Sinks), "cache", c.Wasm.CacheDir)
	for _, name := range slices.Sorted(maps.Keys(c.Sinks)) {
		if err := t.man(ctx, c, name); err != nil {
			wrong = append(wrong, err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	wrong = append(wrong, t.openSinks(ctx, c)...)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(wrong) > 0 {
		return wrong.Sorted()
	}
	return nil
}

func openUpstream(c *config.Config, name string, o Options) (*upstream.Upstream, config.Errors) {
	uc, uo := upstreamConfig(name, c.Upstreams[name]), upstream.Options{Logger: o.Logger, LookupEnv: o.LookupEnv, Follow: o.tracing.upstream(name), Secret: o.secrets.learn}
	if uc.Kind == kube.Kind {
		cluster, err := kube.Open(kubeOptions(c.Upstreams[name], o))
		if err != nil {
			return nil, config.Errors{c.Wrong("upstreams."+name+".kubernetes", err.Error(), "")}
		}
		uc.BaseURL, uc.DialTimeout = cluster.BaseURL(), 0
		uo.RoundTripper, uo.Admit = cluster, kube.Admit
	}
	u, err := upstream.Open(uc, uo)
	if err != nil {
		return nil, wrongUpstream(c, name, err)
	}
	return u, nil
}

// man makes the post of a sink, and loads its plugin: each once, however many
// sinks use it.
func (t *targets) man(ctx context.Context, c *config.Config, name string) *config.Error {
	plugin := c.Sinks[name].Plugin
	m := t.modules.current(plugin)
	if m == nil {
		var wrong *config.Error
		if m, wrong = t.fetch(ctx, c, name, plugin); wrong != nil {
			return wrong
		}
		_ = t.modules.add(plugin, m) // of a new name, there is none before it
	}
	t.add(newPost(name, setupOf(c, name, m, t.upstreams.current)))
	return nil
}

// fetch reads and loads the module of a plugin, for a sink; the one in force where it is
// the same.
func (t *targets) fetch(ctx context.Context, c *config.Config, sinkName, plugin string) (*module, *config.Error) {
	key, wasm, err := t.source.read(ctx, plugin, c.Plugins[plugin])
	if err != nil {
		return nil, c.Wrong(orElse(key, "sinks."+sinkName+".plugin"), err.Error(), "")
	}
	if what := unpinned(wasm, c.Plugins[plugin].SHA256); what != "" {
		return nil, c.Wrong("plugins."+plugin+".sha256", what, "put the right file there, or correct the digest")
	}
	if current := t.modules.current(plugin); current != nil && unpinned(wasm, hexDigest(current.Digest())) == "" {
		return current, nil // the same, from elsewhere
	}
	m, err := t.load(ctx, wasm, plugin, c.Plugins[plugin])
	if err != nil {
		return nil, wrongHost(c, key, err)
	}
	return m, nil
}

// setupOf is what a sink is opened with by c. opened returns an upstream, or nil where
// it could not be opened.
func setupOf(c *config.Config, name string, m *module, opened func(name string) *upstream.Upstream) *setup {
	s := c.Sinks[name]
	out := &setup{
		plugin: s.Plugin, module: m, pauses: s.Breaker,
		config: wasmhost.SinkConfig{Name: name, Config: s.Config, Limits: sinkLimits(c, s)},
	}
	for _, u := range s.Upstreams {
		if up := opened(u); up != nil {
			out.config.Upstreams = append(out.config.Upstreams, up)
		} else {
			out.config.Upstreams = append(out.config.Upstreams, standIn{name: u, kind: c.Upstreams[u].Kind, baseURL: c.Upstreams[u].BaseURL})
		}
	}
	return out
}

// trusted: what is bundled came with this binary.
func trusted(p config.Plugin) bool { return p.Trusted || p.Path+p.OCI == "" }

// load loads a module.
func (t *targets) load(ctx context.Context, wasm []byte, name string, p config.Plugin) (*module, error) {
	load := t.host.Load
	if trusted(p) {
		load = t.host.LoadTrusted
	}
	loaded, err := load(ctx, wasm, name)
	if err != nil {
		return nil, err
	}
	return &module{Plugin: loaded, name: name}, nil
}

// openSinks configures the plugin of every sink, all at once: one whose target does
// not answer takes its time. Such a sink is not ready, which is no error.
func (t *targets) openSinks(ctx context.Context, c *config.Config) config.Errors {
	var (
		wait  sync.WaitGroup
		mu    sync.Mutex
		wrong config.Errors
	)
	for _, p := range t.all() {
		wait.Go(func() {
			if err := p.begin(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				wrong = append(wrong, wrongHost(c, "sinks."+p.name+".config", err))
			}
		})
	}
	wait.Wait()
	return wrong
}

// pluginStats is what the metrics show of plugins.
func (t *targets) pluginStats() metrics.Plugins {
	out := metrics.Plugins{Host: t.host.Stats()}
	for _, p := range t.all() {
		out.Sinks = append(out.Sinks, metrics.PluginStats{Sink: p.name, Plugin: p.manifest().Name, Stats: p.stats()})
	}
	return out
}

// closeAll closes what an engine never took over.
func (t *targets) closeAll() error {
	var errs []error
	for _, p := range t.all() {
		errs = append(errs, p.close())
	}
	return errors.Join(append(errs, t.closePlugins())...)
}

// closePlugins closes what sinks run on, when they are closed.
func (t *targets) closePlugins() error {
	return errors.Join(t.modules.closeAll(), t.upstreams.closeAll())
}
