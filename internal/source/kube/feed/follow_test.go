package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// script is an API server that gives the answers of a list, one after the other, to
// requests for widgets; the last of them hangs. It is for answers that a real server
// can't be made to give at will.
type script struct {
	*httptest.Server
	http.RoundTripper

	mu       sync.Mutex
	answers  []func(w http.ResponseWriter, r *http.Request)
	requests []string
}

func newScript(t *testing.T, answers ...func(http.ResponseWriter, *http.Request)) *script {
	s := &script{answers: answers, RoundTripper: http.DefaultTransport}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		kind := "list"
		if r.URL.Query().Get("watch") != "" {
			kind = "watch"
		}
		s.requests = append(s.requests, kind+" "+r.URL.Query().Get("resourceVersion"))
		var next func(http.ResponseWriter, *http.Request)
		if len(s.answers) > 0 {
			next, s.answers = s.answers[0], s.answers[1:]
		}
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if next == nil {
			<-r.Context().Done()
			return
		}
		next(w, r)
	}))
	t.Cleanup(s.Server.Close)
	return s
}

func (s *script) BaseURL() string { return s.URL }

func widget(name, version string) string {
	return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"namespace":"a","name":%q,"resourceVersion":%q}}`, name, version)
}

func status(code int, reason string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":"as the script says","code":%d}`, reason, code)
	}
}

func list(version string, items ...string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":%q},"items":[%s]}`, version, strings.Join(items, ","))
	}
}

// events are sent, and then the watch ends.
func events(pairs ...string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(pairs); i += 2 {
			line, _ := json.Marshal(map[string]json.RawMessage{"type": json.RawMessage(`"` + pairs[i] + `"`), "object": json.RawMessage(pairs[i+1])})
			_, _ = w.Write(append(line, '\n'))
		}
	}
}

// noStream refuses the lists that are streamed, so that plain ones are asked for.
func noStream(w http.ResponseWriter, r *http.Request) {
	status(http.StatusUnprocessableEntity, "Invalid")(w, r)
}

// listener writes down what it is told.
type listener struct {
	mu    sync.Mutex
	lines []string
}

func (l *listener) note(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, s)
}

func (l *listener) Replace(objs []*unstructured.Unstructured) {
	var names []string
	for _, o := range objs {
		names = append(names, o.GetName())
	}
	slices.Sort(names)
	l.note("all " + strings.Join(names, ","))
}
func (l *listener) Changed(o *unstructured.Unstructured) { l.note("changed " + o.GetName()) }
func (l *listener) Gone(o *unstructured.Unstructured)    { l.note("gone " + o.GetName()) }
func (l *listener) Trouble(err error) {
	if err != nil {
		l.note("trouble " + err.Error())
	}
}

// follow follows the script's widgets until the listener was told want, the last
// lines of it.
func follow(t *testing.T, s *script, want ...string) {
	t.Helper()
	c, err := Connect(s, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l := &listener{}
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	wait.Go(func() {
		c.Follow(ctx, Selection{Resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, Namespace: "a"}, l)
	})
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		l.mu.Lock()
		got := slices.Clone(l.lines)
		l.mu.Unlock()
		if matches(got, want) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("told %q, want %q", got, want)
		}
	}
}

// matches: each line begins as wanted, or has the words after "~".
func matches(got, want []string) bool {
	if len(got) < len(want) {
		return false
	}
	for i, w := range want {
		words, within := strings.CutPrefix(w, "~")
		if within && !strings.Contains(got[i], words) || !within && got[i] != w {
			return false
		}
	}
	return true
}

func TestFollowListsAndWatches(t *testing.T) {
	s := newScript(t, noStream, list("5", widget("x", "4"), widget("y", "5")), events("MODIFIED", widget("x", "6"), "DELETED", widget("y", "7"), "ADDED", widget("z", "8")))
	follow(t, s, "~as the script says", "all x,y", "changed x", "gone y", "changed z")
}

func TestFollowListsAgainWhenItsPlaceIsForgotten(t *testing.T) {
	gone := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","message":"too old resource version","code":410}`
	s := newScript(t, noStream, list("5", widget("x", "4")), events("ERROR", gone), noStream, list("9", widget("y", "9")))
	follow(t, s, "~as the script says", "all x", "~as the script says", "all y")
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if strings.HasPrefix(r, "list ") && r != "list " {
			t.Errorf("a list may come from a cache that lags behind: %q", s.requests)
		}
	}
}

func TestFollowTellsTroubleAndDeletesNothing(t *testing.T) {
	s := newScript(t, noStream, status(http.StatusForbidden, "Forbidden"), noStream, status(http.StatusNotFound, "NotFound"),
		noStream, list("5", widget("x", "4")))
	follow(t, s, "~as the script says", "~the cluster forbids it", "~as the script says", "~has no such kind", "~as the script says", "all x")
}

func TestFindSaysWhatTheClusterLacks(t *testing.T) {
	kinds := func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"example.com/v1","resources":[
			{"name":"widgets/status","kind":"Widget","namespaced":true},{"name":"widgets","kind":"Widget","namespaced":true},{"name":"racks","kind":"Rack"}]}`)
	}
	for _, tc := range []struct {
		answer func(http.ResponseWriter, *http.Request)
		kind   string
		want   string
		words  string
	}{
		{kinds, "Widget", "widgets true", ""},
		{kinds, "Rack", "racks false", ""},
		{kinds, "Gadget", "", "no kind Gadget"},
		{status(http.StatusNotFound, "NotFound"), "Widget", "", "has no API example.com/v1"},
		{status(http.StatusForbidden, "Forbidden"), "Widget", "", "forbids"},
		{status(http.StatusUnauthorized, "Unauthorized"), "Widget", "", "credentials"},
		{status(http.StatusServiceUnavailable, ""), "Widget", "", "answered"},
	} {
		c, err := Connect(newScript(t, tc.answer), 0)
		if err != nil {
			t.Fatal(err)
		}
		k, err := c.Find(t.Context(), "example.com/v1", tc.kind)
		got := fmt.Sprint(k.GroupVersionResource.Resource, " ", k.Namespaced)
		if tc.words == "" && (err != nil || got != tc.want) || tc.words != "" && (err == nil || !strings.Contains(err.Error(), tc.words)) {
			t.Errorf("%s: %s, %v; want %s %s", tc.kind, got, err, tc.want, tc.words)
		}
	}
	closed := newScript(t)
	closed.Server.Close()
	c, _ := Connect(closed, 0)
	if _, err := c.Find(t.Context(), "v1", "Pod"); err == nil || !strings.Contains(err.Error(), "does not answer") || errors.Unwrap(err) == nil {
		t.Errorf("a server that is away: %v", err)
	}
}
