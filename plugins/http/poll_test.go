package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	pawl "github.com/pawlsync/pawl/sdk/go"
	"github.com/pawlsync/pawl/sdk/go/pawltest"
)

func TestR31_ObserveReportsWhatCouldBeAPayload(t *testing.T) {
	for name, c := range map[string]struct {
		config, there, payload string
		acked                  string // a payload that was acked before; empty: none was
		want                   string
	}{
		"without a payload, all of it":            {`{"path":"/o/{key}"}`, `{"a":2,"z":5}`, ``, ``, `{"a":2,"z":5}`},
		"of owned-json, what is owned":            {`{"path":"/o/{key}"}`, `{"a":2,"z":5}`, `{"a":1}`, ``, `{"a":2}`},
		"and what was owned at the last ack":      {`{"path":"/o/{key}"}`, `{"a":2,"b":3,"z":5}`, `{"a":1}`, `{"a":1,"b":1}`, `{"a":2,"b":3}`},
		"of json, all of it":                      {`{"path":"/o/{key}","compare":"json"}`, `{"a":2,"z":5}`, `{"a":1}`, ``, `{"a":2,"z":5}`},
		"of bytes, all of them":                   {`{"path":"/o/{key}","compare":"bytes"}`, `xyz`, `abc`, ``, `xyz`},
		"of an object that was made empty":        {`{"path":"/o/{key}","compare":"bytes"}`, ``, `abc`, ``, ``},
		"of what is no JSON where JSON should be": {`{"path":"/o/{key}"}`, `oops`, `{"a":1}`, ``, `oops`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore()
			sink := pawltest.New(t, &adapter{}, pawltest.Options{Config: c.config, Upstream: s})
			if !sink.Configured.Manifest.ReportsContent {
				t.Fatal("the manifest says nothing of content")
			}
			r := &pawl.Request{Key: "k", Payload: []byte(c.payload)}
			if c.acked != "" {
				before := &pawl.Request{Key: "k", Payload: []byte(c.acked)}
				r.Acked = pawltest.Ack(before, sink.Apply(before))
			}
			s.set("/o/k", c.there)
			if got := sink.Observe(r); got.Content == nil || string(got.Content) != c.want {
				t.Errorf("content %q, want %q", got.Content, c.want)
			}
		})
	}
}

func TestR31_ASinkThatCanNotSayWhatAPayloadWouldBeClaimsNothing(t *testing.T) {
	for _, config := range []string{
		`{"path":"/o/{key}","compare":"exists"}`,
		`{"path":"/o/{key}","apply":{"body":"{\"spec\": {payload}}"}}`,
		`{"path":"/o/{key}","compare":"none"}`,
	} {
		sink := pawltest.New(t, &adapter{}, pawltest.Options{Config: config, Upstream: newStore()})
		if sink.Configured.Manifest.ReportsContent {
			t.Errorf("%s claims to report content", config)
		}
	}
}

// list answers /list with body and an ETag that follows it, and other paths with 404.
type list struct{ body, etag string }

func (l *list) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != "/list":
		w.WriteHeader(http.StatusNotFound)
	case l.etag != "" && r.Header.Get("If-None-Match") == l.etag:
		w.WriteHeader(http.StatusNotModified)
	default:
		w.Header().Set("ETag", l.etag)
		fmt.Fprint(w, l.body)
	}
}

func seen(c pawl.Changes) string {
	var b strings.Builder
	for _, s := range c.Seen {
		fmt.Fprintf(&b, "%s=%s ", s.Key, s.Observation.Content)
	}
	return strings.TrimSpace(b.String())
}

func TestR31_AListIsReadWhenItChanged(t *testing.T) {
	l := &list{body: `{"items":[{"id":"a","spec":{"v":1}},{"id":7,"spec":2}]}`, etag: `"1"`}
	sink := pawltest.New(t, &adapter{}, pawltest.Options{Upstream: l,
		Config: `{"path":"/o/{key}","poll":{"path":"/list","items":"/items","key":"/id","content":"/spec"}}`})
	first := sink.Poll("")
	if seen(first) != `a={"v":1} 7=2` || first.Cursor != `"1"` || first.Reset || first.More {
		t.Errorf("%s, %+v", seen(first), first)
	}
	if again := sink.Poll(first.Cursor); len(again.Seen) != 0 || again.Cursor != `"1"` || again.Reset {
		t.Errorf("nothing changed: %+v", again)
	}
	l.body, l.etag = `{"items":[{"id":"a","spec":{"v":2}}]}`, `"2"`
	if next := sink.Poll(first.Cursor); seen(next) != `a={"v":2}` || !next.Reset || next.Cursor != `"2"` {
		t.Errorf("%s, %+v", seen(next), next)
	}
}

func TestR31_ATargetWithoutETagsTellsTheWholeEachTime(t *testing.T) {
	sink := pawltest.New(t, &adapter{}, pawltest.Options{Upstream: &list{body: `{"a/b":{"v":1},"c":2}`}, Config: `{"path":"/o/{key}","poll":{"path":"/list"}}`})
	for range 2 {
		if c := sink.Poll(""); seen(c) != `a/b={"v":1} c=2` || c.Cursor != "" || c.Reset {
			t.Errorf("%s, %+v", seen(c), c)
		}
	}
}

func TestR31_AListThatCanNotBeReadSaysWhy(t *testing.T) {
	for _, c := range []struct{ config, body, says string }{
		{`{"path":"/gone"}`, ``, "does not exist at the target"},
		{`{"path":"/list"}`, `oops`, "the target's list is"},
		{`{"path":"/list","items":"/items"}`, `{"items":3}`, `no list at "/items"`},
		{`{"path":"/list","key":"/id"}`, `[{"id":"a"},{"name":"b"}]`, `no key at "/id"`},
		{`{"path":"/list","key":"/id","content":"/spec"}`, `[{"id":"a"}]`, `nothing at "/spec"`},
		{`{"path":"/list","key":""}`, "[" + strings.Repeat(`"k",`, pawl.MaxSeen) + `"k"]`, "more than 10000 items"},
		{`{"path":"/list"}`, `["` + strings.Repeat("x", maxListBytes) + `"]`, "bytes, more than the 3145728"},
	} {
		a := &adapter{}
		sink := pawltest.New(t, a, pawltest.Options{Upstream: &list{body: c.body}, Config: `{"path":"/o/{key}","poll":` + c.config + `}`})
		if err := sink.PollError(""); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.config, err, c.says)
		}
	}
}

func TestR31_APollThatCanNotWorkIsRefused(t *testing.T) {
	for config, says := range map[string]string{
		`{"path":"/o/{key}","poll":{}}`:                                  "path of the list is needed",
		`{"path":"/o/{key}","poll":{"path":"/list","key":"id"}}`:         "JSON pointer",
		`{"path":"/o/{key}","poll":{"path":"/list","kye":"/id"}}`:        "kye",
		`{"path":"/o/{key}","compare":"exists","poll":{"path":"/list"}}`: "observe must be a GET",
	} {
		if _, err := pawltest.TryNew(t, &adapter{}, pawltest.Options{Config: config, Upstream: newStore()}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", config, err, says)
		}
	}
}
