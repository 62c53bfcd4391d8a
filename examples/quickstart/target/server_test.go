package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlsync/pawl/internal/bubble"
)

func newTarget(t *testing.T, dir string) *httptest.Server {
	t.Helper()
	s, err := openStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(newServer(s))
	t.Cleanup(srv.Close)
	return srv
}

// do sends one request; header comes in pairs.
func do(t *testing.T, method, url, body string, header ...string) (status int, answer string, h http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(raw), res.Header
}

func TestObjectsSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	for _, key := range []string{"a", "a/b", "a//b", "ä%2Fö"} {
		srv := newTarget(t, dir)
		if status, _, _ := do(t, "PUT", srv.URL+"/objects/"+key, `{"k":1}`, "Content-Type", "application/json"); status != 201 {
			t.Fatalf("PUT %s: status %d, want 201", key, status)
		}
		again := newTarget(t, dir)
		status, body, h := do(t, "GET", again.URL+"/objects/"+key, "")
		if status != 200 || body != `{"k":1}` || h.Get("Content-Type") != "application/json" {
			t.Errorf("GET %s after restart: %d %q %v", key, status, body, h)
		}
	}
}

func TestPreconditions(t *testing.T) {
	srv := newTarget(t, t.TempDir())
	url := srv.URL + "/objects/x"
	_, _, h := do(t, "PUT", url, "one")
	tag := h.Get("ETag")
	steps := []struct {
		name, method, body string
		header             []string
		want               int
	}{
		{"create only, but it exists", "PUT", "two", []string{"If-None-Match", "*"}, 412},
		{"update of another version", "PUT", "two", []string{"If-Match", `"other"`}, 412},
		{"read of the same version", "GET", "", []string{"If-None-Match", tag}, 304},
		{"delete of another version", "DELETE", "", []string{"If-Match", `"other"`}, 412},
		{"update of this version", "PUT", "two", []string{"If-Match", tag}, 204},
		{"delete", "DELETE", "", nil, 204},
		{"delete of nothing", "DELETE", "", nil, 404},
		{"read of nothing", "GET", "", nil, 404},
		{"update, but it does not exist", "PUT", "three", []string{"If-Match", "*"}, 412},
		{"create only", "PUT", "three", []string{"If-None-Match", "*"}, 201},
	}
	for _, s := range steps {
		if status, body, _ := do(t, s.method, url, s.body, s.header...); status != s.want {
			t.Errorf("%s: status %d (%s), want %d", s.name, status, strings.TrimSpace(body), s.want)
		}
	}
}

func TestModes(t *testing.T) {
	srv := newTarget(t, t.TempDir())
	for _, c := range []struct {
		mode string
		want int // 0: no answer
	}{{"refuse", 0}, {"error500", 500}, {"slow", 201}, {"ok", 204}} {
		if status, body, _ := do(t, "POST", srv.URL+"/control", `{"mode":"`+c.mode+`","delay":"1ms"}`); status != 204 {
			t.Fatalf("control %s: %d %s", c.mode, status, body)
		}
		if status, body, _ := do(t, "PUT", srv.URL+"/objects/x", c.mode); status != c.want {
			t.Errorf("mode %s: status %d (%s), want %d", c.mode, status, body, c.want)
		}
	}
	if status, body, _ := do(t, "POST", srv.URL+"/control", `{"mode":"boom"}`); status != 400 || !strings.Contains(body, "hang") {
		t.Errorf("unknown mode: %d %s; want 400 with the modes listed", status, body)
	}
}

func TestAHungRequestGoesOnWhenTheModeChanges(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, err := openStore(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		srv := newServer(s)
		if err := srv.setMode(control{Mode: "hang"}); err != nil {
			t.Fatal(err)
		}
		answer, done := httptest.NewRecorder(), false
		go func() {
			srv.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "PUT", "/objects/x", strings.NewReader("1")))
			done = true
		}()
		synctest.Wait()
		if done {
			t.Fatal("answered while told to hang")
		}
		if err := srv.setMode(control{Mode: "ok"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !done || answer.Code != 201 {
			t.Errorf("done %v, status %d after the mode changed; want 201", done, answer.Code)
		}
	})
}

func TestASlowRequestLandsAfterItsClientHasGone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, err := openStore(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		srv := newServer(s)
		if err := srv.setMode(control{Mode: "slow", Delay: "1h"}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go srv.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "PUT", "/objects/x", strings.NewReader("1")))
		synctest.Wait()
		cancel()
		synctest.Wait()
		if _, ok := s.get("x"); ok {
			t.Error("it landed before its time")
		}
		time.Sleep(time.Hour) // of the bubble's clock
		synctest.Wait()
		if _, ok := s.get("x"); !ok {
			t.Error("it never landed")
		}
	})
}

func TestStatsCountRequestsPerKey(t *testing.T) {
	srv := newTarget(t, t.TempDir())
	do(t, "PUT", srv.URL+"/objects/a/b", "1")
	do(t, "PUT", srv.URL+"/objects/a/b", "2")
	do(t, "GET", srv.URL+"/objects/a/b", "")
	do(t, "POST", srv.URL+"/control", `{"mode":"error500"}`)
	do(t, "PUT", srv.URL+"/objects/c", "1")
	_, body, _ := do(t, "GET", srv.URL+"/control/stats", "")
	var got stats
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if got.Keys["a/b"] != (counts{Gets: 1, Puts: 2}) || got.Keys["c"] != (counts{Refused: 1}) || got.Objects != 1 {
		t.Errorf("stats: %+v", got)
	}
}
