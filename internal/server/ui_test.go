package server

import (
	"io/fs"
	"net/http"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/web"
)

func TestThePageIsServedWholeUnderAPolicyWithoutInlineCode(t *testing.T) {
	_, _, hs := start(t, Options{})
	err := fs.WalkDir(web.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		response, body := ask(t, "GET", hs.URL+"/ui/"+strings.TrimPrefix(name, "index.html"), "")
		want, err := fs.ReadFile(web.Files, name)
		if response.StatusCode != http.StatusOK || body != string(want) || response.Header.Get("Content-Type") == "" {
			t.Errorf("%s: %s %s", name, response.Status, response.Header.Get("Content-Type"))
		}
		policy := response.Header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q", name, policy)
		}
		tag := response.Header.Get("ETag")
		if again, _ := ask(t, "GET", hs.URL+"/ui/"+strings.TrimPrefix(name, "index.html"), "", "If-None-Match", tag); again.StatusCode != http.StatusNotModified {
			t.Errorf("%s, which the browser has: %s", name, again.Status)
		}
		for _, inline := range []string{"<script>", "style=", "onclick=", "https://", "javascript:"} {
			if name == "index.html" && strings.Contains(body, inline) {
				t.Errorf("the document has %s", inline)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if response, body := ask(t, "GET", hs.URL+"/ui/none.js", ""); response.StatusCode != http.StatusNotFound || !strings.Contains(body, "no-such-route") {
		t.Errorf("a file that is none: %s %s", response.Status, body)
	}
}

func TestTheStatusIsStreamedWhenItChanges(t *testing.T) {
	_, f, hs := start(t, Options{})
	response, err := http.Get(hs.URL + "/v1/status/watch")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	next := func() string {
		t.Helper()
		var event strings.Builder
		one := make([]byte, 1)
		for !strings.HasSuffix(event.String(), "\n\n") {
			if _, err := response.Body.Read(one); err != nil {
				t.Fatal(err)
			}
			event.Write(one)
		}
		return event.String()
	}
	if first := next(); !strings.HasPrefix(first, "event: status\ndata: {") || !strings.Contains(first, `"resources":0`) {
		t.Errorf("at once: %s", first)
	}
	f.mu.Lock()
	f.stats.Resources = 7
	f.mu.Unlock()
	if second := next(); !strings.Contains(second, `"resources":7`) {
		t.Errorf("after a change: %s", second)
	}
}

func TestAListAndAWatchGoByOwnerAndPage(t *testing.T) {
	_, f, hs := start(t, Options{})
	for query, want := range map[string]string{"": "all", "?owner=": "all", "?owner=git": "git"} {
		if response, body := ask(t, "GET", hs.URL+"/v1/resources"+query, ""); response.StatusCode != http.StatusOK {
			t.Fatal(body)
		}
		got := "all"
		if f.listed.Owner != nil {
			got = *f.listed.Owner
		}
		if got != want {
			t.Errorf("%q lists those of %s, want %s", query, got, want)
		}
	}
	if response, _ := ask(t, "GET", hs.URL+"/v1/watch?from=rubbish&page=a&next=b", ""); response.StatusCode != http.StatusGone || f.watched.Page != "a" || f.watched.Next != "b" {
		t.Errorf("%s: watched %+v", response.Status, f.watched)
	}
}
