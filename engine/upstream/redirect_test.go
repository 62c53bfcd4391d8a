package upstream

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

func TestRedirectsAreFollowedOnlyWithinWhatThePluginMayReach(t *testing.T) {
	var elsewhere atomic.Int32
	other := serve(t, func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) })
	var location string
	var status int
	var last string
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		last = r.Method + " " + r.RequestURI
		if r.Header.Get("Authorization") != "Bearer "+canary {
			t.Errorf("%s comes without the credential", last)
		}
		if strings.HasPrefix(r.URL.Path, "/api/v1/from") {
			w.Header().Set("Location", location)
			w.WriteHeader(status)
		}
	})
	for _, row := range []struct {
		method, location string
		status           int
		want             string // what the target sees last; "": the redirect is the answer
	}{
		{"GET", "/api/v1/to?x=1", 302, "GET /api/v1/to?x=1"},
		{"GET", "to", 301, "GET /api/v1/to"},
		{"GET", "./to/../there", 307, "GET /api/v1/there"},
		{"GET", "/api/v1/to#part", 308, "GET /api/v1/to"},
		{"GET", "?page=2", 302, ""}, // to itself, until the limit
		{"HEAD", "/api/v1/to", 303, "HEAD /api/v1/to"},
		{"GET", base + "/api/v1/to", 302, "GET /api/v1/to"},
		{"GET", strings.ToUpper(base[:4]) + base[4:] + "/api/v1/t%6F", 302, "GET /api/v1/t%6F"},
		{"GET", other + "/api/v1/to", 302, ""},
		{"GET", "//" + strings.TrimPrefix(other, "http://") + "/api/v1/to", 302, ""},
		{"GET", strings.Replace(base, "http://", "https://", 1) + "/api/v1/to", 302, ""},
		{"GET", strings.Replace(base, "http://", "http://user:pw@", 1) + "/api/v1/to", 302, ""},
		{"GET", strings.Replace(base, "127.0.0.1", "localhost", 1) + "/api/v1/to", 302, ""},
		{"GET", "/api/v2/to", 302, ""},
		{"GET", "/login", 302, ""},
		{"GET", "/api/v1/../../login", 302, ""},
		{"GET", "/api/v1/%2e%2e/login", 302, ""},
		{"GET", "/api/v1/..;/login", 302, ""},
		{"GET", "/api/v1//to", 302, ""},
		{"GET", "/api/v1/a%2fb", 302, ""},
		{"GET", "file:///etc/passwd", 302, ""},
		{"GET", "http:to", 302, ""},
		{"GET", "", 302, ""},
		{"GET", "/api/v1/to", 300, ""},
		{"GET", "/api/v1/to", 304, ""},
		{"PUT", "/api/v1/to", 307, ""},
		{"POST", "/api/v1/to", 302, ""},
		{"DELETE", "/api/v1/to", 308, ""},
	} {
		u := open(t, base+"/api", func(c *Config) {
			c.AllowedPathPrefixes = []string{"/v1"}
			c.Credentials.Bearer = Secret{Value: canary}
		})
		location, status = row.location, row.status
		res := mustDo(t, u, &Request{Method: row.method, Path: "/v1/from"})
		switch {
		case row.want == "" && res.Status != row.status:
			t.Errorf("%s to %q was followed: %d, %s", row.method, row.location, res.Status, last)
		case row.want != "" && (res.Status != 200 || last != row.want):
			t.Errorf("%s to %q ended at %d, %s, want %s", row.method, row.location, res.Status, last, row.want)
		}
	}
	if elsewhere.Load() > 0 {
		t.Error("another server was reached")
	}
}

func TestRedirectsEndAfterFive(t *testing.T) {
	var seen atomic.Int32
	u := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, fmt.Sprintf("/%d", seen.Add(1)), http.StatusFound)
	}))
	if res := mustDo(t, u, get("/0")); res.Status != http.StatusFound || seen.Load() != 1+maxRedirects {
		t.Errorf("status %d after %d requests", res.Status, seen.Load())
	}
}

func TestAGetWithABodyIsNotRedirected(t *testing.T) {
	var seen atomic.Int32
	u := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		http.Redirect(w, r, "/to", http.StatusFound)
	}))
	res := mustDo(t, u, &Request{Method: "GET", Path: "/", Body: []byte("q"), HasBody: true})
	if res.Status != http.StatusFound || seen.Load() != 1 {
		t.Errorf("status %d after %d requests", res.Status, seen.Load())
	}
}

func TestRedirectsStayBelowTheBase(t *testing.T) {
	p := newPlace(mustURL(t, "http://h/api"), nil)
	for location, want := range map[string]bool{
		"/api": true, "/api/": true, "/api/x": true, "/%61pi/x": true,
		"/apix": false, "/": false, "": false, "/API/x": false, "/x/api": false,
	} {
		if _, ok := p.enter(mustURL(t, "http://h"+location)); ok != want {
			t.Errorf("%q: %v, want %v", location, ok, want)
		}
	}
}

// What left on an earlier hop or connection stays sent, though the last
// connection was refused.
func TestWhatLeftEarlierStaysSent(t *testing.T) {
	for name, second := range map[string]string{
		"redirect": "HTTP/1.1 302 Found\r\nLocation: /to\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
		"repeat":   "",
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				br := bufio.NewReader(c)
				_, _ = readRequest(br)
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				_, _ = readRequest(br)
				_ = l.Close()
				_, _ = io.WriteString(c, second)
			}()
			u := open(t, "http://"+l.Addr().String())
			mustDo(t, u, get("/"))
			mustFail(t, u, get("/"), FailConnect, true)
		})
	}
}
