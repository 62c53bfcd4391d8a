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

func (t *targets) open(ctx context.Context, c *config.Config, o Options) error {
	for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
		u, err := upstream.Open(upstreamConfig(name, c.Upstreams[name]), upstream.Options{Logger: o.Logger, LookupEnv: o.LookupEnv})
		if err != nil {
			return err
		}
		t.upstreams[name] = u
	}
	host, err := wasmhost.New(ctx, wasmhost.Options{CacheDir: c.Wasm.CacheDir, MemoryBytes: largestMemory(c), Logger: o.Logger})
	if err != nil {
		return err
	}
	for _, name := range t.names {
		if err := t.openSink(ctx, host, c, name); err != nil {
			return err
		}
	}
	return nil
}

func (t *targets) openSink(ctx context.Context, host *wasmhost.Host, c *config.Config, name string) error {
	s := c.Sinks[name]
	plugin, err := t.plugin(ctx, host, c, s.Plugin)
	if err != nil {
		return fmt.Errorf("sink %s: %w", name, err)
	}
	sc := wasmhost.SinkConfig{Name: name, Config: s.Config, Limits: sinkLimits(c, s)}
	for _, u := range s.Upstreams {
		sc.Upstreams = append(sc.Upstreams, t.upstreams[u])
	}
	t.sinks[name], err = plugin.Open(ctx, sc)
	if err != nil {
		delete(t.sinks, name)
	}
	return err
}

// plugin loads each plugin once, however many sinks use it.
func (t *targets) plugin(ctx context.Context, host *wasmhost.Host, c *config.Config, name string) (*wasmhost.Plugin, error) {
	if p := t.plugins[name]; p != nil {
		return p, nil
	}
	wasm, err := readPlugin(c, name)
	if err != nil {
		return nil, err
	}
	p, err := host.Load(ctx, wasm, name)
	if err != nil {
		return nil, err
	}
	t.plugins[name] = p
	want, digest := c.Plugins[name].SHA256, p.Digest()
	if got := hex.EncodeToString(digest[:]); want != "" && !strings.EqualFold(got, want) {
		return nil, fmt.Errorf("plugin %s: the module's SHA-256 is %s, but plugins.%s.sha256 wants %s; put the right file there, or correct the digest", name, got, name, want)
	}
	return p, nil
}

// readPlugin reads the module that the configuration names, which is the
// bundled one of that name where it is not declared.
func readPlugin(c *config.Config, name string) ([]byte, error) {
	p, declared := c.Plugins[name]
	switch {
	case !declared:
		return bundled.Plugin(name)
	case p.Path == "":
		return bundled.Plugin(p.Bundled)
	}
	wasm, err := os.ReadFile(p.Path)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w; see plugins.%s.path", name, err, name)
	}
	return wasm, nil
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
