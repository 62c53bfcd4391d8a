package upstream

import (
	"fmt"
	"net/http"
	"testing"
)

func TestRequestReachesTheTargetWhole(t *testing.T) {
	u := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Seen", fmt.Sprintf("%s %s %s %d", r.Method, r.RequestURI, r.Header.Get("Content-Type"), r.ContentLength))
		w.Header().Set("Set-Cookie", "session="+canary)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, "got "+readAll(t, r.Body))
	})+"/api/", func(c *Config) { c.Protocol = ProtocolHTTP1 })
	r := put("/a%20b/c?x=1&y", "hello")
	r.Header = []Field{{"content-type", "text/plain"}}
	res := mustDo(t, u, r)
	if res.Status != 201 || string(res.Body) != "got hello" {
		t.Errorf("answer %d %q", res.Status, res.Body)
	}
	if got, want := header(res, "X-Seen"), "PUT /api/a%20b/c?x=1&y text/plain 5"; got != want {
		t.Errorf("the target saw %q, want %q", got, want)
	}
	if c := header(res, "Set-Cookie"); c != "" {
		t.Errorf("the plugin sees the session cookie %q", c)
	}
}
