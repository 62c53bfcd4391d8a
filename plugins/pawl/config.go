package main

import (
	"strings"

	"github.com/pawlsync/pawl/plugins/internal/conf"
	pawl "github.com/pawlsync/pawl/sdk/go"
)

// Defaults.
const (
	defaultBatch = 1000
	defaultWait  = 500 // milliseconds
)

// config is a sink's config, checked.
type config struct {
	upstream pawl.UpstreamRef
	hello    hello // but for the epoch, which comes with each call
	batch    int
}

func readConfig(c pawl.Config) (*config, error) {
	root, err := conf.Parse(c.JSON)
	if err != nil {
		return nil, err
	}
	cfg := &config{batch: defaultBatch}
	h := &cfg.hello
	h.from = c.Sink
	upstream, ack, wait := "", "persisted", defaultWait
	root.String("upstream", &upstream)
	root.String("sender", &h.sender)
	root.Choice("ack", &ack, "persisted", "processed")
	root.String("sink", &h.sink)
	root.String("prefix", &h.prefix)
	root.Choice("conflict_policy", &h.conflict, "source-wins", "target-wins", "report-only")
	root.Choice("deletion_policy", &h.deletion, "delete", "ack-then-delete", "retain")
	root.Count("batch_max", &cfg.batch)
	root.Count("wait_millis", &wait)
	switch {
	case h.sender == "":
		root.Fail("sender", "it is missing: the name by which the other pawl knows this one, as in \"edge-1\"")
	case strings.ContainsAny(h.sender, "*\n\t"):
		root.Fail("sender", "this is not one sender's name")
	}
	if strings.Contains(h.sink, "/") {
		root.Fail("sink", "this is not the name of a sink; what comes before keys is the prefix")
	}
	if cfg.batch > 10_000 {
		root.Fail("batch_max", "10000 is the most")
	}
	if wait > 10_000 {
		root.Fail("wait_millis", "10000 is the most")
	}
	if ack == "processed" {
		h.processed, h.millis = true, uint64(wait)
	}
	if err := root.Done(); err != nil {
		return nil, err
	}
	cfg.upstream, err = conf.Upstream(upstream, c.Upstreams)
	return cfg, err
}

// target is the identity of what the sink talks to: the same resources sent elsewhere,
// or by another name, are others there.
func (cfg *config) target() string {
	t := cfg.upstream.BaseURL + " as " + cfg.hello.sender
	if cfg.hello.sink != "" || cfg.hello.prefix != "" {
		t += " to " + cfg.hello.sink + "/" + cfg.hello.prefix
	}
	return t
}

// manifest is what this sink can do.
func (cfg *config) manifest() *pawl.Manifest {
	m := manifest()
	m.ConfigSchema = "" // told once, by describe
	m.BatchMax = uint32(cfg.batch)
	return &m
}
