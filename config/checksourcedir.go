package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/pawlsync/pawl/internal/sagatemplate/form"
)

// manifestParams are what the key of a manifest is made of.
var manifestParams = []string{"group", "version", "kind", "namespace", "name"}

// checkSourceDir checks patterns, and what becomes of manifests of Kubernetes.
func (l *loader) checkSourceDir(c *Config, d *SourceDir, path string) {
	if d == nil {
		return
	}
	l.checkGlobs(d.Include, path+".include")
	l.checkGlobs(d.Exclude, path+".exclude")
	k := d.Kubernetes
	if k == nil {
		return
	}
	if k.Sink != "" {
		if what, hint := c.noSink(k.Sink); what != "" {
			l.wrong(path+".kubernetes.sink", what, hint)
		}
	}
	if k.Key != "" {
		if what, hint := badManifestKey(k.Key); what != "" {
			l.wrong(path+".kubernetes.key", what, hint)
		}
	}
}

func (l *loader) checkGlobs(patterns []string, path string) {
	for i, p := range patterns {
		switch {
		case strings.HasPrefix(p, "/"):
			l.wrongItem(path, i, shown(p)+" begins with /", "patterns are relative to the source's path: remove the /")
		case p == "" || !doublestar.ValidatePattern(p):
			l.wrongItem(path, i, shown(p)+" is no pattern", "write a path with *, ?, [a-z], {one,other} or **, as in team-*/**/*.yaml")
		}
	}
}

// badManifestKey says what is wrong with a template of keys.
func badManifestKey(template string) (what, hint string) {
	t, err := form.ParseText(template)
	if p, ok := errors.AsType[*form.Problem](err); ok {
		return p.What, p.Hint
	}
	for _, name := range t.Params() {
		if !slices.Contains(manifestParams, name) {
			return fmt.Sprintf("a manifest gives no {{.%s}}", name), "there are " + strings.Join(manifestParams, ", ")
		}
	}
	if !slices.Contains(t.Params(), "name") {
		return "all manifests would have the same key", "put {{.name}} into it"
	}
	return "", ""
}
