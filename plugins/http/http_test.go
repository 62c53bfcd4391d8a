package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	pawl "github.com/pawlsync/pawl/sdk/go"
	"github.com/pawlsync/pawl/sdk/go/pawltest"
)

// store is a target that keeps objects by path.
type store struct {
	mu      sync.Mutex
	objects map[string]string
	version map[string]int
	etags   bool
	// change turns what was put into what is kept; nil: as it is.
	change func(string) string
}

func newStore() *store {
	return &store{objects: map[string]string{}, version: map[string]int{}}
}

func (s *store) set(path, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[path] = body
	s.version[path]++
}

func (s *store) etag(path string) string { return fmt.Sprintf(`"%s-%d"`, path, s.version[path]) }

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := r.URL.Path
	body, exists := s.objects[path]
	if m := r.Header.Get("If-Match"); s.etags && m != "" && (!exists || m != s.etag(path)) ||
		s.etags && exists && r.Header.Get("If-None-Match") == "*" {
		w.WriteHeader(http.StatusPreconditionFailed)
		return
	}
	switch r.Method {
	case "GET", "HEAD":
		if !exists {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if s.etags {
			w.Header().Set("ETag", s.etag(path))
		}
		io.WriteString(w, body)
	case "PUT", "POST":
		b, _ := io.ReadAll(r.Body)
		if s.change != nil {
			b = []byte(s.change(string(b)))
		}
		s.objects[path] = string(b)
		s.version[path]++
		if s.etags && r.Method == "PUT" {
			w.Header().Set("ETag", s.etag(path))
		}
		w.WriteHeader(http.StatusCreated)
	case "DELETE":
		if !exists {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		delete(s.objects, path)
		w.WriteHeader(http.StatusNoContent)
	}
}

// answer is a target that always answers the same.
func answer(status int, body string, headers ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	})
}

func sinkOf(t *testing.T, target http.Handler, config string) *pawltest.Sink {
	t.Helper()
	return pawltest.New(t, &adapter{}, pawltest.Options{Config: config, Upstream: target})
}

func desired(key, payload string) *pawl.Request {
	return &pawl.Request{Key: key, Payload: []byte(payload)}
}

// after is a request for payload that comes after acked ended with o.
func after(acked *pawl.Request, o pawltest.Outcome, payload string) *pawl.Request {
	return &pawl.Request{Key: acked.Key, Generation: 2, Payload: []byte(payload), Acked: pawltest.Ack(acked, o)}
}

func expect(t *testing.T, what string, o pawltest.Outcome, status pawl.Status, desired, acked pawl.Tri, differing string) {
	t.Helper()
	if o.Status != status || o.MatchDesired != desired || o.MatchAcked != acked || strings.Join(o.Differing, " ") != differing {
		t.Errorf("%s: %v %q, desired %d, acked %d, differing %q; want %v, %d, %d, %q", what,
			o.Status, o.Message, o.MatchDesired, o.MatchAcked, o.Differing, status, desired, acked, differing)
	}
}

const path = `{"path":"/things/{key}"`

func TestOwnedJSONFollowsAnObjectThroughItsLife(t *testing.T) {
	target := newStore()
	target.change = func(s string) string { return strings.Replace(s, "{", `{"addedByTarget":true,`, 1) }
	s := sinkOf(t, target, path+`}`)
	first := desired("a", `{"size":1.0,"spec":{"x":1,"y":2}}`)

	expect(t, "before the first apply", s.Observe(first), pawl.StatusNotFound, pawl.Unknown, pawl.Unknown, "")
	done := s.Apply(first)
	expect(t, "apply", done, pawl.StatusOK, pawl.Yes, pawl.Unknown, "")
	if done.Ref != "/things/a" || done.Object != "" {
		t.Errorf("ref %q, object %q", done.Ref, done.Object)
	}

	same := after(first, done, string(first.Payload))
	expect(t, "afterwards", s.Observe(same), pawl.StatusOK, pawl.Yes, pawl.Yes, "")

	newer := after(first, done, `{"size":1,"spec":{"x":1}}`)
	expect(t, "a field is dropped by the source", s.Observe(newer), pawl.StatusOK, pawl.No, pawl.Yes, "/spec/y")

	target.set("/things/a", `{"size":7,"spec":{"x":1,"y":2,"own":1}}`)
	expect(t, "somebody changed it", s.Observe(same), pawl.StatusOK, pawl.No, pawl.No, "/size")
	expect(t, "somebody changed it, and the source", s.Observe(newer), pawl.StatusOK, pawl.No, pawl.No, "/size /spec/y")

	accepted := s.Observe(same)
	target.set("/things/a", `{"spec":{"y":2,"x":1},"size":7}`)
	same.Acked = &pawl.Acked{Generation: 1, AsFound: accepted.AsFound, AdapterState: accepted.AdapterState}
	expect(t, "drift that was accepted", s.Observe(same), pawl.StatusOK, pawl.No, pawl.Yes, "/size")

	target.set("/things/a", `<html>`)
	expect(t, "no JSON any more", s.Observe(same), pawl.StatusOK, pawl.No, pawl.No, "/")

	expect(t, "delete", s.Delete(&pawl.Request{Key: "a"}), pawl.StatusOK, pawl.Unknown, pawl.Unknown, "")
	expect(t, "delete again", s.Delete(&pawl.Request{Key: "a"}), pawl.StatusNotFound, pawl.Unknown, pawl.Unknown, "")
}

func TestWhatWasAttemptedIsRecognised(t *testing.T) {
	target := newStore()
	target.set("/things/a", `{"v":2,"w":1}`)
	kept := func(p string) pawl.Attempt {
		return pawl.Attempt{ContentHash: pawltest.Hash([]byte(p)), Payload: []byte(p), HasPayload: true}
	}
	lost := pawl.Attempt{ContentHash: pawltest.Hash([]byte("gone"))}
	for _, c := range []struct {
		name     string
		attempts []pawl.Attempt
		want     pawl.Tri
	}{
		{"none", nil, pawl.Unknown},
		{"another", []pawl.Attempt{kept(`{"v":1}`)}, pawl.No},
		{"it", []pawl.Attempt{kept(`{"v":1}`), kept(`{"v":2}`)}, pawl.Yes},
		{"one that was not kept", []pawl.Attempt{lost}, pawl.Unknown},
		{"the desired one", []pawl.Attempt{{ContentHash: pawltest.Hash([]byte(`{"v":3}`))}}, pawl.No},
	} {
		for _, compare := range []string{"owned-json", "json", "bytes"} {
			if compare != "owned-json" {
				target.set("/things/a", `{"v":2}`)
			}
			s := sinkOf(t, target, path+`,"compare":"`+compare+`"}`)
			r := desired("a", `{"v":3}`)
			r.Attempted = c.attempts
			if got := s.Observe(r); got.MatchAttempted != c.want {
				t.Errorf("%s, compare %s: match_attempted %d, want %d", c.name, compare, got.MatchAttempted, c.want)
			}
		}
	}
}

func TestEachComparisonTellsEqualFromChanged(t *testing.T) {
	const payload = `{"a":1}`
	hashHeader := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if s := h.(*store); r.Method == "HEAD" && s.objects[r.URL.Path] != "" {
				w.Header().Set("X-Hash", fmt.Sprintf("SHA256:%X", pawltest.Hash([]byte(s.objects[r.URL.Path]))))
			}
			h.ServeHTTP(w, r)
		})
	}
	for _, c := range []struct {
		compare, more string
		changed       string // what somebody puts there
		noticed       bool
	}{
		{"owned-json", "", `{"a":1,"b":2}`, false},
		{"owned-json", "", `{"a":2}`, true},
		{"json", "", `{ "a": 1.0 }`, false},
		{"json", "", `{"a":1,"b":2}`, true},
		{"bytes", "", payload, false},
		{"bytes", "", `{ "a": 1 }`, true},
		{"etag", "", payload, true},
		{"header", `,"hash_header":"x-hash"`, payload, false},
		{"header", `,"hash_header":"x-hash"`, `{"a":2}`, true},
		{"exists", "", `whatever`, false},
	} {
		t.Run(c.compare+" "+c.changed, func(t *testing.T) {
			target := newStore()
			target.etags = true
			s := sinkOf(t, hashHeader(target), path+`,"compare":"`+c.compare+`"`+c.more+`}`)
			first := desired("a", payload)
			done := s.Apply(first)
			same := after(first, done, payload)
			expect(t, "unchanged", s.Observe(same), pawl.StatusOK, pawl.Yes, pawl.Yes, "")
			target.set("/things/a", c.changed)
			want := pawl.TriOf(!c.noticed)
			if got := s.Observe(same); got.MatchDesired != want || got.MatchAcked != want {
				t.Errorf("changed: desired %d, acked %d, want %d", got.MatchDesired, got.MatchAcked, want)
			}
			target.mu.Lock()
			delete(target.objects, "/things/a")
			target.mu.Unlock()
			if got := s.Observe(same); got.Status != pawl.StatusNotFound {
				t.Errorf("missing: %v", got.Status)
			}
		})
	}
}

func TestAnETagIsLookedUpWhereApplyDoesNotTellIt(t *testing.T) {
	target := newStore()
	target.etags = true
	s := sinkOf(t, target, path+`,"compare":"etag","apply":{"method":"POST"}}`)
	if got := s.Apply(desired("a", "x")); got.AsFound != `"/things/a-1"` || got.Status != pawl.StatusOK {
		t.Errorf("as found %q, %v", got.AsFound, got.Status)
	}
	plain := sinkOf(t, answer(200, ""), path+`,"compare":"etag"}`)
	if got := plain.Apply(desired("a", "x")); got.Status != pawl.StatusRetry || !strings.Contains(got.Message, "no ETag") {
		t.Errorf("a target without ETags: %v %q", got.Status, got.Message)
	}
}

func TestEveryStatusHasItsMeaning(t *testing.T) {
	const obs, app, del = 0, 1, 2
	ok, missing, conflict := pawl.StatusOK, pawl.StatusNotFound, pawl.StatusConflict
	rejected, unauthorised, retry := pawl.StatusRejected, pawl.StatusUnauthorized, pawl.StatusRetry
	for _, c := range []struct {
		status int
		want   [3]pawl.Status
	}{
		{200, [3]pawl.Status{ok, ok, ok}},
		{201, [3]pawl.Status{ok, ok, ok}},
		{202, [3]pawl.Status{ok, ok, pawl.StatusInProgress}},
		{204, [3]pawl.Status{ok, ok, ok}},
		{301, [3]pawl.Status{rejected, rejected, rejected}},
		{302, [3]pawl.Status{rejected, rejected, rejected}},
		{304, [3]pawl.Status{rejected, rejected, rejected}},
		{307, [3]pawl.Status{rejected, rejected, rejected}},
		{400, [3]pawl.Status{rejected, rejected, rejected}},
		{401, [3]pawl.Status{unauthorised, unauthorised, unauthorised}},
		{403, [3]pawl.Status{unauthorised, unauthorised, unauthorised}},
		{404, [3]pawl.Status{missing, missing, missing}},
		{405, [3]pawl.Status{rejected, rejected, rejected}},
		{408, [3]pawl.Status{retry, retry, retry}},
		{409, [3]pawl.Status{conflict, conflict, conflict}},
		{410, [3]pawl.Status{missing, missing, missing}},
		{412, [3]pawl.Status{conflict, conflict, conflict}},
		{413, [3]pawl.Status{rejected, rejected, rejected}},
		{415, [3]pawl.Status{rejected, rejected, rejected}},
		{422, [3]pawl.Status{rejected, rejected, rejected}},
		{425, [3]pawl.Status{retry, retry, retry}},
		{429, [3]pawl.Status{retry, retry, retry}},
		{451, [3]pawl.Status{rejected, rejected, rejected}},
		{500, [3]pawl.Status{retry, retry, retry}},
		{502, [3]pawl.Status{retry, retry, retry}},
		{503, [3]pawl.Status{retry, retry, retry}},
		{504, [3]pawl.Status{retry, retry, retry}},
		{599, [3]pawl.Status{retry, retry, retry}},
	} {
		s := sinkOf(t, answer(c.status, `{"a":1}`, "Location", "https://login.example/?token=secret"), path+`,"compare":"exists"}`)
		r := desired("a", `{"a":1}`)
		got := [3]pawltest.Outcome{obs: s.Observe(r), app: s.Apply(r), del: s.Delete(&pawl.Request{Key: "a"})}
		for i, op := range []string{"observe", "apply", "delete"} {
			if got[i].Status != c.want[i] {
				t.Errorf("%d to %s: %v (%s), want %v", c.status, op, got[i].Status, got[i].Message, c.want[i])
			}
			if strings.Contains(got[i].Message, "secret") {
				t.Errorf("%d to %s: the message shows the redirect's address: %s", c.status, op, got[i].Message)
			}
		}
	}
}

func TestAcceptedIsAnAckOnlyOnceItIsThere(t *testing.T) {
	target := newStore()
	late := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "PUT" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		target.ServeHTTP(w, r)
	})
	s := sinkOf(t, late, path+`}`)
	r := desired("a", `{"a":1}`)
	if got := s.Apply(r); got.Status != pawl.StatusRetry || !strings.Contains(got.Message, "202") {
		t.Errorf("not there yet: %v %q", got.Status, got.Message)
	}
	target.set("/things/a", `{"a":1}`)
	if got := s.Apply(r); got.Status != pawl.StatusOK || got.AsFound == "" || len(got.AdapterState) == 0 {
		t.Errorf("there: %v %q, as found %q", got.Status, got.Message, got.AsFound)
	}
	hook := sinkOf(t, late, `{"path":"/hook","compare":"none","apply":{"method":"PUT"}}`)
	if got := hook.Apply(r); got.Status != pawl.StatusOK {
		t.Errorf("a webhook: %v %q", got.Status, got.Message)
	}
}

func TestRetryAfter(t *testing.T) {
	const date = "Sun, 29 Nov 2026 19:55:47 GMT"
	for _, c := range []struct {
		status int
		value  string
		want   time.Duration
		target bool
	}{
		{503, "7", 7 * time.Second, true},
		{429, "120", 2 * time.Minute, true},
		{500, "7", 7 * time.Second, false},
		{408, "1", time.Second, false},
		{503, "", 0, false},
		{503, "0", 0, false},
		{503, "soon", 0, false},
		{503, "-5", 0, false},
		{503, "1.5", 0, false},
		{503, "99999999999999999999999", maxRetryAfter, true},
		{503, "9999999999", maxRetryAfter, true},
		{503, "Sun, 29 Nov 2026 19:56:17 GMT", 30 * time.Second, true},
		{503, "Sun, 29 Nov 2026 19:50:00 GMT", 0, false},
		{503, "Mon, 29 Nov 2027 19:50:00 GMT", maxRetryAfter, true},
	} {
		s := sinkOf(t, answer(c.status, "", "Retry-After", c.value, "Date", date), path+`}`)
		got := s.Apply(desired("a", "{}"))
		if got.Status != pawl.StatusRetry || got.RetryAfter != c.want || got.WholeTarget != c.target {
			t.Errorf("%d with %q: %v after %v, whole target %v; want %v, %v", c.status, c.value, got.Status, got.RetryAfter, got.WholeTarget, c.want, c.target)
		}
	}
}

func TestWithoutAnAnswerItIsUnreachable(t *testing.T) {
	s := sinkOf(t, newStore(), path+`}`)
	for kind, want := range map[pawl.FailureKind]pawl.Status{
		pawl.FailDNS: pawl.StatusUnreachable, pawl.FailConnect: pawl.StatusUnreachable, pawl.FailTLS: pawl.StatusUnreachable,
		pawl.FailTimeout: pawl.StatusUnreachable, pawl.FailProtocol: pawl.StatusUnreachable,
		pawl.FailDenied: pawl.StatusRejected, pawl.FailTooLarge: pawl.StatusRetry,
	} {
		for name, call := range map[string]func(*pawl.Request) pawltest.Outcome{"observe": s.Observe, "apply": s.Apply, "delete": s.Delete} {
			s.FailNext(pawl.Failure{Kind: kind, Message: "for a reason"})
			if got := call(desired("a", "{}")); got.Status != want || !strings.Contains(got.Message, "for a reason") {
				t.Errorf("%s, failure %d: %v %q, want %v", name, kind, got.Status, got.Message, want)
			}
		}
	}
}

func TestWritesAreConditionalWhereTheTargetOffersETags(t *testing.T) {
	target := newStore()
	target.etags = true
	s := sinkOf(t, target, path+`}`)
	r := desired("a", `{"v":1}`)
	condition := func() string {
		sent := s.Sent()
		h := sent[len(sent)-1].Header
		return h.Get("If-Match") + h.Get("If-None-Match")
	}

	s.Observe(r)
	if s.Apply(r); condition() != "" {
		t.Error("a condition before the target was seen to offer ETags")
	}
	if s.Apply(r); condition() != "" {
		t.Error("a condition without an observation before it")
	}
	s.Observe(desired("b", `{"v":1}`))
	target.set("/things/b", `{"v":9}`)
	if got := s.Apply(desired("b", `{"v":1}`)); got.Status != pawl.StatusConflict || condition() != "*" {
		t.Errorf("created by somebody meanwhile: %v", got.Status)
	}
	newer := desired("a", `{"v":2}`)
	s.Observe(newer)
	target.set("/things/a", `{"v":9}`)
	if got := s.Apply(newer); got.Status != pawl.StatusConflict || condition() != `"/things/a-2"` {
		t.Errorf("changed by somebody meanwhile: %v", got.Status)
	}
	s.Observe(newer)
	if got := s.Apply(newer); got.Status != pawl.StatusOK || condition() != `"/things/a-3"` {
		t.Errorf("seen again: %v %q", got.Status, got.Message)
	}
	off := sinkOf(t, target, path+`,"conditional":"off"}`)
	off.Observe(desired("a", `{"v":3}`))
	off.Apply(desired("a", `{"v":3}`))
	if h := off.Sent()[1].Header; h.Get("If-Match") != "" {
		t.Error("a condition though they are off")
	}
	create := desired("a", `{"v":4}`)
	create.Mode = pawl.CreateOnly
	if got := off.Apply(create); got.Status != pawl.StatusAlreadyExists {
		t.Errorf("create-only of what exists: %v", got.Status)
	}
}

func TestRequestsAreWhatTheConfigSays(t *testing.T) {
	s := sinkOf(t, answer(200, ""), `{
		"headers": {"X-Source": "pawl/{sink}", "X-Key": "{key}"},
		"compare": "none", "idempotency_header": "Webhook-Id",
		"apply": {"method": "PATCH", "path": "/v1/{0}/items/{1:}?gen={generation}", "content_type": "text/plain",
			"headers": {"x-key": "{-1}"}, "body": "{\"id\":\"{key}\",\"v\":{payload},\"x\":{}}"},
		"delete": {"method": "POST", "path": "/v1/gone", "body": "{key}"}}`)
	s.Apply(&pawl.Request{Key: `te am/a"b/ü`, Generation: 7, Payload: []byte(`[1]`), IdempotencyKey: "i-7"})
	s.Delete(&pawl.Request{Key: `te am/a"b/ü`})
	sent := s.Sent()
	apply, remove := sent[0], sent[1]
	if apply.Method != "PATCH" || apply.Path != "/v1/te%20am/items/a%22b/%C3%BC?gen=7" || string(apply.Body) != `{"id":"te am/a\"b/ü","v":[1],"x":{}}` {
		t.Errorf("apply: %s %s %s", apply.Method, apply.Path, apply.Body)
	}
	for name, want := range map[string]string{"Content-Type": "text/plain", "X-Source": "pawl/test", "X-Key": "%C3%BC", "Webhook-Id": "i-7"} {
		if got := apply.Header.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("header %s is %q, want %q", name, got, want)
		}
	}
	if remove.Method != "POST" || remove.Path != "/v1/gone" || string(remove.Body) != `te am/a\"b/ü` || remove.Header.Get("X-Key") != "te%20am/a%22b/%C3%BC" {
		t.Errorf("delete: %s %s %s %v", remove.Method, remove.Path, remove.Body, remove.Header)
	}
}

func TestKeysThatServersWouldMisreadAreRejectedUnsent(t *testing.T) {
	s := sinkOf(t, newStore(), path+`}`)
	for _, key := range []string{"..", "a/../b", ".", "a//b", "/a", "a/..", "a/", "/"} {
		if got := s.Apply(desired(key, "{}")); got.Status != pawl.StatusRejected || len(s.Sent()) != 0 {
			t.Errorf("key %q: %v %q", key, got.Status, got.Message)
		}
	}
	closed := sinkOf(t, newStore(), `{"path":"/things/{key}/?v=1"}`)
	if got := closed.Apply(desired("a", "{}")); got.Status != pawl.StatusOK {
		t.Errorf("a template that ends in a slash: %v %q", got.Status, got.Message)
	}
	if got := closed.Apply(desired("a/", "{}")); got.Status != pawl.StatusRejected {
		t.Errorf("a key that ends in a slash before the template's own: %v %q", got.Status, got.Message)
	}
	if got := sinkOf(t, newStore(), `{"path":"/{0}/{2}"}`).Apply(desired("a/b", "{}")); got.Status != pawl.StatusRejected {
		t.Errorf("too few segments: %v", got.Status)
	}
	if got := s.Apply(desired("a", "{")); got.Status != pawl.StatusRejected || len(s.Sent()) != 0 || !strings.Contains(got.Message, "not valid JSON at byte 1") {
		t.Errorf("a payload that is no JSON: %v %q", got.Status, got.Message)
	}
}

func TestMoreFieldsThanCanBeKeptAreRejected(t *testing.T) {
	var b strings.Builder
	for i := range pawl.MaxAdapterStateBytes/4 + 1 {
		fmt.Fprintf(&b, `,"%x":1`, i)
	}
	payload := "{" + b.String()[1:] + "}"
	s := sinkOf(t, newStore(), path+`}`)
	if got := s.Apply(desired("a", payload)); got.Status != pawl.StatusRejected || !strings.Contains(got.Message, "16385 fields") {
		t.Errorf("%v %q", got.Status, got.Message)
	}
	whole := sinkOf(t, newStore(), path+`,"compare":"json"}`)
	if got := whole.Apply(desired("a", payload)); got.Status != pawl.StatusOK {
		t.Errorf("compare json: %v %q", got.Status, got.Message)
	}
}

func TestErrorsShowABoundedExcerpt(t *testing.T) {
	body := "bad\x00\x1b[31m\r\n\tfield  \xff" + strings.Repeat("é", 300)
	s := sinkOf(t, answer(422, body), path+`,"error_excerpts":true}`)
	got := s.Apply(desired("a", "{}")).Message
	_, shown, _ := strings.Cut(got, ": ")
	if !strings.HasPrefix(shown, "bad [31m field é") || len(shown) > maxExcerptBytes || !strings.HasSuffix(shown, "…") {
		t.Errorf("%q shows %d bytes", got, len(shown))
	}
	big := sinkOf(t, answer(200, `{"a":"`+strings.Repeat("x", 100)+`"}`), path+`,"max_response_bytes":100}`)
	if got := big.Observe(desired("a", "{}")); got.Status != pawl.StatusRetry || !strings.Contains(got.Message, "max_response_bytes") {
		t.Errorf("a large answer: %v %q", got.Status, got.Message)
	}
}

// The promise is that messages never hold payload values, and targets repeat them.
func TestWithoutBeingAskedNothingOfTheTargetsAnswerIsShown(t *testing.T) {
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(422)
		io.Copy(w, r.Body)
	})
	for _, more := range []string{"", `,"error_excerpts":false`} {
		s := sinkOf(t, echo, path+more+`}`)
		const want = "the target answered 422 to PUT; set error_excerpts: true to see what the target said"
		if got := s.Apply(desired("a", `{"password":"s3cret"}`)).Message; got != want {
			t.Errorf("with %q the message is %q", more, got)
		}
		if got := s.Delete(desired("a", "")).Message; got != "the target answered 422 to DELETE" {
			t.Errorf("an answer without content: %q", got)
		}
	}
}

func TestATombstoneIsObservedWithItsContent(t *testing.T) {
	target := newStore()
	target.set("/things/a", `{"a":1}`)
	got := sinkOf(t, target, path+`}`).Observe(&pawl.Request{Key: "a"})
	if got.Status != pawl.StatusOK || string(got.Content) != `{"a":1}` || got.MatchDesired != pawl.Unknown {
		t.Errorf("%v, content %q, desired %d", got.Status, got.Content, got.MatchDesired)
	}
}

func TestTwoKeysOfOneObjectReportIt(t *testing.T) {
	s := sinkOf(t, newStore(), `{"path":"/things/{-1}"}`)
	a, b := s.Apply(desired("x/a", "{}")), s.Observe(desired("y/a", "{}"))
	if a.Object != "/things/a" || a.Object != b.Object {
		t.Errorf("objects %q and %q", a.Object, b.Object)
	}
}

// Webhooks of many resources go to one address, and none of them owns it.
func TestResourcesThatShareAWebhookDoNotContend(t *testing.T) {
	for _, hook := range []string{"/hooks/pawl", "/hooks/{0}", "/hooks/{key}"} {
		s := sinkOf(t, answer(200, ""), `{"compare":"none","path":"`+hook+`","delete":{"method":"POST"}}`)
		for _, key := range []string{"team/a", "team/b"} {
			if got := s.Apply(desired(key, "{}")); got.Status != pawl.StatusOK || got.Object != "" {
				t.Errorf("%s, key %s: %v, object %q; a webhook has no object", hook, key, got.Status, got.Object)
			}
		}
	}
}
