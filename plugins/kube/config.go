package main

import (
	"errors"
	"strings"

	"github.com/pawlsync/pawl/plugins/internal/conf"
	"github.com/pawlsync/pawl/plugins/internal/jsondoc"
	pawl "github.com/pawlsync/pawl/sdk/go"
)

// Who names a resource's object.
const (
	keyPath     = "path"     // its key
	keyManifest = "manifest" // its manifest
)

// maxManagerBytes is how long the name of a field manager may be.
const maxManagerBytes = 128

// config is a sink's config, checked.
type config struct {
	upstream    pawl.UpstreamRef
	key         string // keyPath or keyManifest
	namespace   string // of namespaced objects that have none; "": they are refused
	manager     string
	validation  string
	propagation string
	recreate    []string // "Kind" or "Kind.group"
}

func readConfig(c pawl.Config) (*config, error) {
	root, err := conf.Parse(c.JSON)
	if err != nil {
		return nil, err
	}
	cfg := &config{key: keyPath, manager: "pawl-" + c.Sink, validation: "Strict", propagation: "Background"}
	upstream := ""
	root.String("upstream", &upstream)
	root.Choice("key", &cfg.key, keyPath, keyManifest)
	root.String("namespace", &cfg.namespace)
	root.String("field_manager", &cfg.manager)
	root.Choice("field_validation", &cfg.validation, "Strict", "Warn", "Ignore")
	root.Choice("propagation", &cfg.propagation, "Background", "Foreground", "Orphan")
	root.Array("recreate", func(v jsondoc.Value) error {
		if v.Kind() != jsondoc.String || v.Text() == "" {
			return errors.New("a kind is expected, as Job or Job.batch")
		}
		cfg.recreate = append(cfg.recreate, v.Text())
		return nil
	})
	if cfg.namespace != "" && !isSegment(cfg.namespace) {
		root.Fail("namespace", "this is not a name of a namespace")
	}
	if !isManager(cfg.manager) {
		root.Fail("field_manager", "1 to 128 printable characters are expected")
	}
	if err := root.Done(); err != nil {
		return nil, err
	}
	cfg.upstream, err = conf.Upstream(upstream, c.Upstreams)
	return cfg, err
}

// isManager reports whether the API server takes s for a field manager's name.
func isManager(s string) bool {
	if s == "" || len(s) > maxManagerBytes {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffd })
}

// recreates reports whether objects of id's kind may be replaced by new ones.
func (cfg *config) recreates(id *identity) bool {
	for _, kind := range cfg.recreate {
		if kind == id.kind || kind == id.kind+"."+id.group {
			return true
		}
	}
	return false
}
