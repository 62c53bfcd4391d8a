package config

import (
	"strings"
	"testing"
)

func TestSendersAreNamedOnceAndToldFromSources(t *testing.T) {
	const sinks = "sinks: {web: {plugin: http}}\n"
	for name, c := range map[string]struct{ sources, want string }{
		"right": {`{edges: {pawl: {senders: ["edge-*", hub], sinks: [web]}}, more: {pawl: {senders: [ed]}}}`, ""},
		"twice": {`{a: {pawl: {senders: [edge-1]}}, b: {pawl: {senders: ["edge-*"]}}}`,
			`sources.b.pawl.senders[0]: "edge-*" means senders that sources.a.pawl.senders has as well; name each sender once`},
		"patterns": {`{a: {pawl: {senders: ["e*"]}}, b: {pawl: {senders: ["edge-*"]}}}`,
			`"edge-*" means senders that sources.a.pawl.senders has as well`},
		"within one list": {`{a: {pawl: {senders: [x, "*"]}}}`, `sources.a.pawl.senders[1]: "*" means senders that sources.a.pawl.senders has as well`},
		"a source":        {`{files: {dir: {path: .}}, b: {pawl: {senders: ["f*"]}}}`, `"f*" means the source files as well`},
		"a star within":   {`{a: {pawl: {senders: ["e*x"]}}}`, `"e*x" has a * that is not at its end; write edge-* for all that begin with edge-`},
		"no such sink":    {`{a: {pawl: {senders: [x], sinks: [wbe]}}}`, `sources.a.pawl.sinks[0]: there is no sink "wbe"; did you mean web?`},
	} {
		_, err := Load(Options{File: write(t, sinks+"sources: "+c.sources+"\n")})
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
