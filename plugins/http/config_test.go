package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

func configured(text string, upstreams ...string) (pawl.Configured, error) {
	c := pawl.Config{JSON: []byte(text)}
	for _, u := range upstreams {
		c.Upstreams = append(c.Upstreams, pawl.UpstreamRef{Name: u, BaseURL: "http://" + u})
	}
	return new(adapter).Configure(context.Background(), c)
}

func TestAWrongConfigIsRefusedWithWhatIsRight(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                     `config: observe.path: a path is needed`,
		`{"pth":"/{key}"}`:       `config: pth: unknown key; did you mean "path"?`,
		`{"path":"x/{key}"}`:     `config: observe.path: a path starts with "/"`,
		`{"path":"/x"}`:          `config: observe.path: there is no {key} in it`,
		`{"path":"/{sink}"}`:     `config: observe.path: there is no {key} in it`,
		`{"path":"/{kye}"}`:      `config: observe.path: {kye} is no placeholder; did you mean {key}?`,
		`{"path":"/{key"}`:       `config: observe.path: a "{" is never closed`,
		`{"path":"/{payload}"}`:  `config: observe.path: {payload} is no placeholder`,
		`{"path":"/ü/{key}"}`:    `config: observe.path: the character at byte 1 can't be in a path`,
		`{"path":"/{key}#frag"}`: `config: observe.path: the character at byte 6`,
		`{"path":"/{key}","apply":{"metod":"PUT"}}`:                     `config: apply.metod: unknown key; did you mean "method"?`,
		`{"path":"/{key}","apply":{"enabled":false}}`:                   `config: apply.enabled: unknown key`,
		`{"path":"/{key}","apply":{"method":"P T"}}`:                    `config: apply.method: an HTTP method`,
		`{"path":"/{key}","apply":{"path":"/all"}}`:                     `config: apply.path: there is no {key}`,
		`{"path":"/{key}","apply":{"body":""}}`:                         `config: apply.body: compare "owned-json" compares the body`,
		`{"path":"/{key}","compare":"jsno"}`:                            `config: compare: unknown value; did you mean "json"?`,
		`{"path":"/{key}","compare":"header"}`:                          `config: hash_header: compare "header" needs`,
		`{"path":"/{key}","compare":"header","hash_header":"a b"}`:      `config: hash_header: this is not a header name`,
		`{"path":"/{key}","compare":"none","observe":{"enabled":true}}`: `config: observe.enabled: compare "none"`,
		`{"path":"/{key}","compare":"none","confirm":"observe"}`:        `config: confirm: "observe" is not possible`,
		`{"path":"/{key}","compare":"etag","confirm":"observe"}`:        `config: confirm: compare "etag"`,
		`{"path":"/{key}","observe":{"method":"HEAD"}}`:                 `config: observe.method: HEAD has no body`,
		`{"path":"/{key}","headers":{"a b":"c"}}`:                       `config: headers.a b: this is not a header name`,
		`{"path":"/{key}","headers":{"a":"c\nd"}}`:                      `config: headers.a: the character at byte 1 can't be in a header`,
		`{"path":"/{key}","idempotency_header":":"}`:                    `config: idempotency_header: this is not`,
		`{"path":"/{key}","upstream":"c"}`:                              `config: upstream: "c" is not granted; `,
		`{"path":"/{key}"}`:                                             `config: upstream: which one of those granted? They are alpha, beta`,
		`{"path":"/{key}","upstream":"alhpa"}`:                          `config: upstream: "alhpa" is not granted; did you mean "alpha"?`,
		`{"path":"/{key}","max_response_bytes":0}`:                      `config: max_response_bytes: a whole number`,
		`{"path":"/{key}","apply":{"headers":{"x":"{key.escpaed}"}}}`:   `config: apply.headers.x: {key.escpaed} is no placeholder; did you mean {key.escaped}?`,
	} {
		_, err := configured(text, "alpha", "beta")
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s\ngave %v\nwant %s", text, err, want)
		}
	}
	if _, err := configured(`{"path":"/{key}"}`); err == nil || !strings.Contains(err.Error(), "no upstream; grant it one") {
		t.Errorf("without upstreams: %v", err)
	}
}

func TestTheConfigDecidesWhatTheSinkCanDo(t *testing.T) {
	for _, c := range []struct {
		config                           string
		ops                              []pawl.Op
		confirms, idempotent, comparable bool
	}{
		{`{"path":"/{key}"}`, []pawl.Op{pawl.OpApply, pawl.OpObserve, pawl.OpDelete}, true, true, false},
		{`{"path":"/{key}","confirm":"observe"}`, []pawl.Op{pawl.OpApply, pawl.OpObserve, pawl.OpDelete}, false, true, false},
		{`{"path":"/hook","compare":"none"}`, []pawl.Op{pawl.OpApply, pawl.OpDelete}, true, false, false},
		{`{"path":"/hook","compare":"none","delete":{"enabled":false},"apply":{"idempotent":true}}`, []pawl.Op{pawl.OpApply}, true, true, false},
		{`{"path":"/{key}","apply":{"method":"PATCH"}}`, []pawl.Op{pawl.OpApply, pawl.OpObserve, pawl.OpDelete}, true, false, false},
		{`{"path":"/{key}","observe":{"enabled":false}}`, []pawl.Op{pawl.OpApply, pawl.OpDelete}, true, true, false},
		{`{"path":"/{key}","compare":"header","hash_header":"h"}`, []pawl.Op{pawl.OpApply, pawl.OpObserve, pawl.OpDelete}, true, true, true},
	} {
		got, err := configured(c.config, "alpha")
		if err != nil {
			t.Errorf("%s: %v", c.config, err)
			continue
		}
		m := got.Manifest
		if !slices.Equal(m.Ops, c.ops) || m.ApplyConfirms != c.confirms || m.ApplyIdempotent != c.idempotent ||
			m.AsFoundComparable != c.comparable || !m.FindsByKey || got.Target != "http://alpha" {
			t.Errorf("%s: %+v, target %q", c.config, m, got.Target)
		}
	}
}

func TestTheSchemaKnowsEveryKeyThatIsRead(t *testing.T) {
	var schema struct {
		Properties map[string]struct {
			Enum       []string
			Properties map[string]any
		}
	}
	if err := json.Unmarshal([]byte(configSchema), &schema); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(schema.Properties["compare"].Enum, compareModes) {
		t.Errorf("compare modes in the schema: %q", schema.Properties["compare"].Enum)
	}
	// The reader names all its keys when it meets one that is like none of them.
	keys := func(text string) []string {
		_, err := configured(text, "alpha")
		_, list, _ := strings.Cut(err.Error(), "possible are ")
		found := strings.Split(list, ", ")
		slices.Sort(found)
		return slices.Compact(found)
	}
	compare := func(where string, read []string, in map[string]bool) {
		t.Helper()
		for _, k := range read {
			if !in[k] {
				t.Errorf("%s%s is read, but not in the schema", where, k)
			}
			delete(in, k)
		}
		for k := range in {
			t.Errorf("%s%s is in the schema, but not read", where, k)
		}
	}
	root := map[string]bool{}
	for k, p := range schema.Properties {
		root[k] = true
		if p.Properties != nil {
			inner := map[string]bool{}
			for k := range p.Properties {
				inner[k] = true
			}
			compare(k+".", keys(`{"path":"/{key}","`+k+`":{"=========":1}}`), inner)
		}
	}
	compare("", keys(`{"=========":1}`), root)
}

func TestSegments(t *testing.T) {
	for _, c := range []struct {
		placeholder, key, want string
	}{
		{"0", "a/b/c", "a"}, {"1", "a/b/c", "b"}, {"2", "a/b/c", "c"}, {"3", "a/b/c", "!"},
		{"-1", "a/b/c", "c"}, {"-2", "a/b/c", "b"}, {"-3", "a/b/c", "a"}, {"-4", "a/b/c", "!"},
		{"0:", "a/b/c", "a/b/c"}, {"1:", "a/b/c", "b/c"}, {"-2:", "a/b/c", "b/c"}, {"3:", "a/b/c", "!"},
		{"0", "a", "a"}, {"-1", "a", "a"}, {"1:", "a", "!"}, {"1", "a/", ""}, {"0", "", ""},
	} {
		p, ok := placeholder(c.placeholder)
		if !ok {
			t.Fatalf("{%s} is not understood", c.placeholder)
		}
		got, ok := cutSegments(c.key, p.from, p.to)
		if !ok {
			got = "!"
		}
		if got != c.want {
			t.Errorf("{%s} of %q is %q, want %q", c.placeholder, c.key, got, c.want)
		}
	}
	for _, bad := range []string{"", ":", "1:2", "x", "99999", "1.0", " 1", "--1"} {
		if _, ok := placeholder(bad); ok {
			t.Errorf("{%s} is understood", bad)
		}
	}
}
