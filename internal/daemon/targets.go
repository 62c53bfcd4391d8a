package daemon

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/internal/bundled"
	"github.com/pawlsync/pawl/internal/kube"
	"github.com/pawlsync/pawl/internal/metrics"
)

// targets are the configured sinks with what they run on.
type targets struct {
	upstreams map[string]*upstream.Upstream
	plugins   map[string]*wasmhost.Plugin
	sinks     map[string]*wasmhost.Sink
	names     []string // of sinks, sorted
}

// openTargets opens every upstream and sink of the configuration, and the
// plugins that sinks use.
func openTargets(ctx context.Context, c *config.Config, o Options) (*targets, error) {
	t := &targets{
		upstreams: map[string]*upstream.Upstream{}, plugins: map[string]*wasmhost.Plugin{}, sinks: map[string]*wasmhost.Sink{},
		names: slices.Sorted(maps.Keys(c.Sinks)),
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
	host, err := wasmhost.New(ctx, hostOptions(c, o))
	if err != nil {
		return append(wrong, wrongHost(c, "wasm.cache_dir", err)).Sorted()
	}
	for _, name := range t.names {
		if err := t.openSink(ctx, host, c, name); err != nil {
			wrong = append(wrong, err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
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

func (t *targets) openSink(ctx context.Context, host *wasmhost.Host, c *config.Config, name string) *config.Error {
	s := c.Sinks[name]
	plugin, wrong := t.plugin(ctx, host, c, name)
	if wrong != nil {
		return wrong
	}
	sc := wasmhost.SinkConfig{Name: name, Config: s.Config, Limits: sinkLimits(c, s)}
	for _, u := range s.Upstreams {
		if opened := t.upstreams[u]; opened != nil {
			sc.Upstreams = append(sc.Upstreams, opened)
		} else {
			sc.Upstreams = append(sc.Upstreams, standIn{name: u, config: c.Upstreams[u]})
		}
	}
	sink, err := plugin.Open(ctx, sc)
	if err != nil {
		return wrongHost(c, "sinks."+name+".config", err)
	}
	t.sinks[name] = sink
	return nil
}

// plugin loads the plugin of a sink: each once, however many sinks use it.
func (t *targets) plugin(ctx context.Context, host *wasmhost.Host, c *config.Config, sink string) (*wasmhost.Plugin, *config.Error) {
	name := c.Sinks[sink].Plugin
	if p := t.plugins[name]; p != nil {
		return p, nil
	}
	key, wasm, err := readPlugin(c, sink)
	if err != nil {
		return nil, c.Wrong(key, err.Error(), "")
	}
	load := host.Load
	if p := c.Plugins[name]; p.Trusted || p.Path == "" { // what is bundled came with this binary
		load = host.LoadTrusted
	}
	p, err := load(ctx, wasm, name)
	if err != nil {
		return nil, wrongHost(c, key, err)
	}
	want, digest := c.Plugins[name].SHA256, p.Digest()
	if got := hex.EncodeToString(digest[:]); want != "" && !strings.EqualFold(got, want) {
		_ = p.Close(ctx)
		return nil, c.Wrong("plugins."+name+".sha256", fmt.Sprintf("the module's SHA-256 is %s, not %s", got, want), "put the right file there, or correct the digest")
	}
	t.plugins[name] = p
	return p, nil
}

// readPlugin reads the module that a sink's plugin is: the file that the
// configuration names, or a bundled one. key is what names it.
func readPlugin(c *config.Config, sink string) (key string, wasm []byte, err error) {
	name := c.Sinks[sink].Plugin
	p, declared := c.Plugins[name]
	switch {
	case !declared:
		key = "sinks." + sink + ".plugin"
		wasm, err = bundled.Plugin(name)
	case p.Path == "":
		key = "plugins." + name + ".bundled"
		wasm, err = bundled.Plugin(p.Bundled)
	default:
		key = "plugins." + name + ".path"
		wasm, err = os.ReadFile(p.Path)
	}
	return key, wasm, err
}

// pluginStats is what the metrics show of plugins.
func (t *targets) pluginStats() []metrics.PluginStats {
	out := make([]metrics.PluginStats, 0, len(t.names))
	for _, name := range t.names {
		s := t.sinks[name].Stats()
		var faults int64
		for _, n := range s.Faults {
			faults += n
		}
		out = append(out, metrics.PluginStats{
			Sink: name, Plugin: t.sinks[name].Manifest().Name, Instances: s.Instances, InFlight: s.InFlight,
			Faults: uint64(faults), MemoryBytes: s.MemoryBytes,
		})
	}
	return out
}

// closeAll closes what an engine never took over.
func (t *targets) closeAll() error {
	var errs []error
	for _, s := range t.sinks {
		errs = append(errs, s.Close(context.Background()))
	}
	return errors.Join(append(errs, t.closePlugins())...)
}

// closePlugins closes what sinks run on, when they are closed.
func (t *targets) closePlugins() error {
	var errs []error
	for _, p := range t.plugins {
		errs = append(errs, p.Close(context.Background()))
	}
	for _, u := range t.upstreams {
		u.Close()
	}
	return errors.Join(errs...)
}
