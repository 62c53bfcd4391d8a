package daemon

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/internal/kube"
	"github.com/pawlsync/pawl/internal/metrics"
	"github.com/pawlsync/pawl/internal/oci"
)

// targets are the configured sinks with what they run on.
type targets struct {
	host      *wasmhost.Host
	source    source // of modules
	upstreams map[string]*upstream.Upstream
	modules   *modules
	posts     map[string]*post // of sinks
	names     []string         // of sinks, sorted
}

// openTargets opens every upstream and sink of the configuration, and the
// plugins that sinks use.
func openTargets(ctx context.Context, c *config.Config, o Options) (*targets, error) {
	t := &targets{
		upstreams: map[string]*upstream.Upstream{}, modules: newModules(), posts: map[string]*post{},
		names: slices.Sorted(maps.Keys(c.Sinks)),
		source: source{dir: filepath.Join(c.Wasm.CacheDir, "pulled"), oci: oci.Options{
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
		t.upstreams[name] = u
	}
	var err error
	if t.host, err = wasmhost.New(ctx, hostOptions(c, o)); err != nil {
		return append(wrong, wrongHost(c, "wasm.cache_dir", err)).Sorted()
	}
	o.Logger.Info("loading plugins; one that is not in the cache is compiled, which takes seconds", "sinks", len(t.names), "cache", c.Wasm.CacheDir)
	for _, name := range t.names {
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
	uc, uo := upstreamConfig(name, c.Upstreams[name]), upstream.Options{Logger: o.Logger, LookupEnv: o.LookupEnv}
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
	s := c.Sinks[name]
	m := t.modules.current(s.Plugin)
	if m == nil {
		key, wasm, err := t.source.read(ctx, s.Plugin, c.Plugins[s.Plugin])
		if err != nil {
			return c.Wrong(orElse(key, "sinks."+name+".plugin"), err.Error(), "")
		}
		if what := unpinned(wasm, c.Plugins[s.Plugin].SHA256); what != "" {
			return c.Wrong("plugins."+s.Plugin+".sha256", what, "put the right file there, or correct the digest")
		}
		if m, err = t.load(ctx, wasm, s.Plugin, c.Plugins[s.Plugin]); err != nil {
			return wrongHost(c, key, err)
		}
		_ = t.modules.add(m) // of a new name, there is none before it
	}
	sc := wasmhost.SinkConfig{Name: name, Config: s.Config, Limits: sinkLimits(c, s)}
	for _, u := range s.Upstreams {
		if opened := t.upstreams[u]; opened != nil {
			sc.Upstreams = append(sc.Upstreams, opened)
		} else {
			sc.Upstreams = append(sc.Upstreams, standIn{name: u, config: c.Upstreams[u]})
		}
	}
	t.posts[name] = newPost(sc, s.Plugin, s.Breaker, m)
	return nil
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
	for name, p := range t.posts {
		wait.Go(func() {
			if err := p.begin(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				wrong = append(wrong, wrongHost(c, "sinks."+name+".config", err))
			}
		})
	}
	wait.Wait()
	return wrong
}

// pluginStats is what the metrics show of plugins.
func (t *targets) pluginStats() metrics.Plugins {
	out := metrics.Plugins{Host: t.host.Stats()}
	for _, name := range t.names {
		p := t.posts[name]
		out.Sinks = append(out.Sinks, metrics.PluginStats{Sink: name, Plugin: p.manifest().Name, Stats: p.stats()})
	}
	return out
}

// closeAll closes what an engine never took over.
func (t *targets) closeAll() error {
	var errs []error
	for _, p := range t.posts {
		errs = append(errs, p.close())
	}
	return errors.Join(append(errs, t.closePlugins())...)
}

// closePlugins closes what sinks run on, when they are closed.
func (t *targets) closePlugins() error {
	err := t.modules.closeAll()
	for _, u := range t.upstreams {
		u.Close()
	}
	return err
}
