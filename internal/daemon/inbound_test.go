package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
)

// shop is a target that several people write to: objects at /o/KEY, and a list of all
// of them at /o, with an ETag.
type shop struct {
	mu      sync.Mutex
	objects map[string]json.RawMessage
	writes  []string
	looks   int // at single objects
	lists   int // that were told in full
}

func newShop(t *testing.T) (*shop, string) {
	s := &shop{objects: map[string]json.RawMessage{}}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return s, srv.URL
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, single := strings.CutPrefix(r.URL.Path, "/o/")
	body, there := s.objects[key]
	switch {
	case !single:
		text, _ := json.Marshal(s.objects)
		etag := fmt.Sprintf(`"%x"`, sha256.Sum256(text))
		if w.Header().Set("ETag", etag); r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		s.lists++
		_, _ = w.Write(text)
	case r.Method == "GET":
		if s.looks++; !there {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write(body)
	case r.Method == "PUT":
		s.writes = append(s.writes, r.Method+" "+key)
		s.objects[key], _ = io.ReadAll(r.Body)
	case r.Method == "DELETE":
		s.writes = append(s.writes, r.Method+" "+key)
		delete(s.objects, key)
	}
}

// change is what somebody else does; "" deletes.
func (s *shop) change(key, content string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[key] = json.RawMessage(content); content == "" {
		delete(s.objects, key)
	}
}

func (s *shop) counts() (writes []string, looks, lists int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.writes...), s.looks, s.lists
}

// until waits for a resource to be as wanted, by a watch.
func (d *running) until(t *testing.T, key record.Key, what string, ok func(r *api.Resource) bool) api.Resource {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	look := func() (api.Resource, bool) {
		r, err := d.Get(t.Context(), key, client.GetOptions{Payload: true})
		return r, err == nil && ok(&r)
	}
	// A resource whose call has just been settled reads as Delivering for a moment still,
	// and no event tells of its end: so it is listed, looked at and watched anew.
	for ctx.Err() == nil {
		page, err := d.List(ctx, client.ListOptions{Sink: key.Sink})
		if err != nil {
			t.Fatal(err)
		}
		if r, done := look(); done {
			return r
		}
		watching, end := context.WithTimeout(ctx, time.Second)
		for _, err := range d.Watch(watching, client.WatchOptions{Sink: key.Sink, From: page.Token}) {
			if err != nil {
				break
			}
			if r, done := look(); done {
				end()
				return r
			}
		}
		end()
	}
	r, _ := look()
	t.Fatalf("%s: %s: not within a minute: %+v", key, what, r)
	return r
}

func contentIs(want string) func(*api.Resource) bool {
	return func(r *api.Resource) bool {
		return r.Status.Observed != nil && string(r.Status.Observed.Content) == want && r.Status.Phase == record.AckedPhase
	}
}

// takesIn is a sink of the http plugin with a direction.
func takesIn(name, direction, poll string) string {
	return fmt.Sprintf("  %s:\n    plugin: http\n    upstreams: [objects]\n    direction: %s\n    poll_interval: 1s\n    sensitive: [/password]\n"+
		"    startup_check: false\n    config: {path: \"/o/{key}\"%s}\n", name, direction, poll)
}

func TestR31_WhatTheTargetHasIsTakenInByLooksAndByPolls(t *testing.T) {
	needPlugins(t)
	s, url := newShop(t)
	s.change("a", `{"v":1,"password":"hunter2"}`)
	extra := takesIn("looked", "inbound", "") + takesIn("polled", "inbound", `, poll: {path: /o}`)
	file := write(t, t.TempDir(), url, extra)
	d := begin(t, load(t, file), options())
	for _, sink := range []string{"looked", "polled"} {
		for _, name := range []string{"a", "b"} {
			if _, err := d.Put(t.Context(), record.Key{Sink: sink, Name: name}, api.PutRequest{Payload: json.RawMessage(`{}`)}); err != nil {
				t.Fatal(err)
			}
		}
		d.until(t, record.Key{Sink: sink, Name: "a"}, "what was there", contentIs(`{"v":1,"password":"***"}`))
		d.until(t, record.Key{Sink: sink, Name: "b"}, "what was not", func(r *api.Resource) bool {
			return r.Status.Phase == record.Pending && r.Status.Reason == record.ReasonMissing
		})
	}
	s.change("a", `{"v":2}`)
	s.change("b", `{"w":1}`)
	for _, sink := range []string{"looked", "polled"} {
		d.until(t, record.Key{Sink: sink, Name: "a"}, "a change", contentIs(`{"v":2}`))
		d.until(t, record.Key{Sink: sink, Name: "b"}, "a creation", contentIs(`{"w":1}`))
	}
	s.change("b", ``)
	for _, sink := range []string{"looked", "polled"} {
		d.until(t, record.Key{Sink: sink, Name: "b"}, "a deletion", func(r *api.Resource) bool { return r.Status.Reason == record.ReasonMissing })
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	if writes, _, _ := s.counts(); len(writes) > 0 {
		t.Errorf("the target was written to: %v", writes)
	}
	// The cursor outlives the daemon: a list that did not change is not told again.
	_, _, before := s.counts()
	d = begin(t, load(t, file), options())
	s.change("a", `{"v":3}`)
	d.until(t, record.Key{Sink: "polled", Name: "a"}, "a change after a restart", contentIs(`{"v":3}`))
	if _, _, after := s.counts(); after != before+1 {
		t.Errorf("the list was told %d times for one change", after-before)
	}
}

func TestR32_BothSidesChangeAndTheDaemonRestsWithThem(t *testing.T) {
	needPlugins(t)
	s, url := newShop(t)
	d := begin(t, load(t, write(t, t.TempDir(), url, takesIn("both", "both", `, poll: {path: /o}`))), options())
	key := record.Key{Sink: "both", Name: "a"}
	put := func(payload string) {
		t.Helper()
		if _, err := d.Put(t.Context(), key, api.PutRequest{Payload: json.RawMessage(payload)}); err != nil {
			t.Fatal(err)
		}
	}
	desired := func(payload string, origin record.Origin) func(*api.Resource) bool {
		return func(r *api.Resource) bool {
			return r.Status.Phase == record.AckedPhase && string(r.Payload) == payload && r.Origin == origin && !r.Tombstone
		}
	}
	put(`{"v":1}`)
	d.until(t, key, "the source's first", desired(`{"v":1}`, record.FromSource))
	s.change("a", `{"v":2,"theirs":true}`)
	d.until(t, key, "the target's change of what is ours", desired(`{"v":2}`, record.FromTarget))
	put(`{"v":1}`) // what it had said already
	put(`{"v":3}`)
	d.until(t, key, "the source's second", desired(`{"v":3}`, record.FromSource))
	s.change("a", ``)
	d.until(t, key, "the target's deletion", func(r *api.Resource) bool {
		return r.Tombstone && r.Status.Reason == record.ReasonTargetDeleted
	})
	s.change("a", `{"v":4}`)
	d.until(t, key, "what was made there again", desired(`{"v":4}`, record.FromTarget))
	if writes, _, _ := s.counts(); strings.Join(writes, ", ") != "PUT a, PUT a" {
		t.Errorf("the target got %v", writes)
	}
}

func TestR31_APluginThatReportsNoContentIsRefusedAtTheStart(t *testing.T) {
	needPlugins(t)
	_, url := newShop(t)
	err := Run(t.Context(), load(t, write(t, t.TempDir(), url, takesIn("blind", "inbound", `, compare: exists`))), options())
	if err == nil || !strings.Contains(err.Error(), `sink "blind"`) || !strings.Contains(err.Error(), "reports_content") {
		t.Errorf("%v", err)
	}
}
