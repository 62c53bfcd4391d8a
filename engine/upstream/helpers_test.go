package upstream

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// canary is the secret that must turn up nowhere but at the target.
const canary = "canary-7f3a9c51d2"

// open opens an upstream to base, with changes to its config.
func open(t testing.TB, base string, changes ...func(*Config)) *Upstream {
	t.Helper()
	return openWith(t, base, Options{}, changes...)
}

func openWith(t testing.TB, base string, o Options, changes ...func(*Config)) *Upstream {
	t.Helper()
	c := Config{Name: "target", BaseURL: base, Timeout: 30 * time.Second}
	for _, change := range changes {
		change(&c)
	}
	u, err := Open(c, o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(u.Close)
	return u
}

func get(path string) *Request { return &Request{Method: "GET", Path: path} }

func put(path, body string) *Request {
	return &Request{Method: "PUT", Path: path, Body: []byte(body), HasBody: true}
}

// mustDo expects an answer.
func mustDo(t testing.TB, u *Upstream, r *Request) *Response {
	t.Helper()
	res, failure := u.Do(context.Background(), r)
	if failure != nil {
		t.Fatalf("Do(%s %s): %v", r.Method, r.Path, failure)
	}
	return res
}

// mustFail expects a Failure of a kind.
func mustFail(t testing.TB, u *Upstream, r *Request, kind FailureKind, maybeSent bool) *Failure {
	t.Helper()
	res, failure := u.Do(context.Background(), r)
	if failure == nil {
		t.Fatalf("Do(%s %s): answer %d, want failure %q", r.Method, r.Path, res.Status, kind)
	}
	if failure.Kind != kind || failure.MaybeSent != maybeSent {
		t.Fatalf("Do(%s %s): %v (maybe sent: %v), want kind %q, maybe sent: %v", r.Method, r.Path, failure, failure.MaybeSent, kind, maybeSent)
	}
	return failure
}

// serve starts an HTTP server.
func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// rawServer accepts connections and hands each to conn, with its number from 0.
func rawServer(t testing.TB, conn func(n int, c net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				conn(n, c)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

func writeFile(t testing.TB, name, content string) string {
	t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(t.TempDir(), name)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func header(res *Response, name string) string {
	for _, f := range res.Header {
		if strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

func readAll(t testing.TB, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}
