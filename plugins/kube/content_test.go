package main

import (
	"strings"
	"testing"

	"github.com/pawlsync/pawl/plugins/internal/jsondoc"
	pawl "github.com/pawlsync/pawl/sdk/go"
	"github.com/pawlsync/pawl/sdk/go/pawltest"
)

func TestR31_WhatIsReportedCouldBeAManifest(t *testing.T) {
	const there = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"web","uid":"u","resourceVersion":"7",
		"creationTimestamp":"2030-01-01T00:00:00Z","labels":{"a":"1","b":"2"},"managedFields":[{"manager":"x"}]},
		"data":{"k":"changed","other":"theirs"},"status":{"ready":true}}`
	for name, c := range map[string]struct{ manifest, want string }{
		"what a manifest sets, as it is there": {
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","labels":{"a":"0"}},"data":{"k":"mine","gone":"x"}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","labels":{"a":"1"}},"data":{"k":"changed"}}`,
		},
		"without a manifest, all that is nobody's but its authors'": {``,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"web","labels":{"a":"1","b":"2"}},"data":{"k":"changed","other":"theirs"}}`,
		},
	} {
		var want *desired
		if c.manifest != "" {
			var err error
			if want, err = readManifest([]byte(c.manifest)); err != nil {
				t.Fatal(err)
			}
		}
		got := content(want, mustParse(t, there))
		if !jsondoc.Equal(mustParse(t, string(got)), mustParse(t, c.want)) {
			t.Errorf("%s: %s", name, got)
		}
		if _, err := readManifest(got); err != nil || strings.Contains(string(got), "managedFields") {
			t.Errorf("%s: what is reported is no manifest: %v", name, err)
		}
	}
}

// What was deleted in the cluster and is back is desired as it is told; so a change of
// what no manifest of ours ever had is a change.
func TestR32_WhatIsBackIsComparedAsAWhole(t *testing.T) {
	const back = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"y","uid":"u"},"data":{"a":"1","more":"x"}}`
	s := &api{status: 200, body: strings.Replace(back, `,"more":"x"`, "", 1)}
	k := pawltest.New(t, &adapter{}, pawltest.Options{Upstream: s})
	was := k.Apply(&pawl.Request{Key: testKey, Payload: []byte(testPayload)})
	acked := func(res pawltest.Outcome, content []byte) *pawl.Acked {
		return &pawl.Acked{AdapterState: res.Observation.AdapterState, ContentHash: content}
	}
	s.body = back
	seen := k.Observe(&pawl.Request{Key: testKey, Acked: acked(was, []byte("before"))})
	desired := &pawl.Request{Key: testKey, Payload: seen.Observation.Content, ContentHash: []byte("back"), Acked: acked(seen, []byte("back"))}
	if o := k.Observe(desired).Observation; o.MatchDesired != pawl.Yes {
		t.Errorf("as it was told, and it differs at %q", o.Differing)
	}
	s.body = strings.Replace(back, `"more":"x"`, `"more":"y"`, 1)
	if o := k.Observe(desired).Observation; o.MatchDesired != pawl.No || len(o.Differing) != 1 || o.Differing[0] != "/data/more" {
		t.Errorf("a change is told as %v, %q", o.MatchDesired, o.Differing)
	}
}
