package server

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/access"
)

func TestTheLogSaysWhoChangedWhatAndNothingOfPayloads(t *testing.T) {
	k := &scopeKit{T: t, file: filepath.Join(t.TempDir(), "tokens")}
	ci := k.token("ci", access.TokenGrant{Scope: access.Write, Sinks: []string{"web"}})
	var log bytes.Buffer
	level := &slog.LevelVar{}
	s, _, _ := start(t, Options{Authenticators: tokensOf(t, k.file), Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))})
	said := func(method, path, body string) string {
		t.Helper()
		log.Reset()
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set(ci[0], ci[1])
		s.Handler().ServeHTTP(httptest.NewRecorder(), r)
		return log.String()
	}
	if got := said("POST", "/v1/sinks/web/resource/retry?key=k", ""); !strings.Contains(got, `audit.name=ci audit.kind=token`) ||
		!strings.Contains(got, `audit.operation="POST /v1/sinks/{sink}/resource/retry" audit.sink=web audit.key=k`) || !strings.Contains(got, "audit.status=204") {
		t.Errorf("an order: %s", got)
	}
	if got := said("POST", "/v1/sinks/web/resource/forget?key=k", ""); !strings.Contains(got, "audit.status=403") || !strings.Contains(got, "change was denied") {
		t.Errorf("a denial: %s", got)
	}
	if got := said("PUT", "/v1/sinks/web/resource?key=k", `{"payload":"s3cret"}`); got != "" {
		t.Errorf("a Put at level info: %s", got)
	}
	level.Set(slog.LevelDebug)
	if got := said("PUT", "/v1/sinks/web/resource?key=k", `{"payload":"s3cret"}`); !strings.Contains(got, "audit.status=200") || strings.Contains(got, "s3cret") {
		t.Errorf("a Put at level debug: %s", got)
	}
	if got := said("GET", "/v1/sinks/web/resource?key=k", ""); strings.Contains(got, "audit") {
		t.Errorf("a look: %s", got)
	}
}

func TestTheLogSaysOfAChangeThatPanickedWhoAskedForIt(t *testing.T) {
	var log bytes.Buffer
	f := newFake()
	s, _, _ := start(t, Options{Engine: panicking{f}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	r := httptest.NewRequest("POST", "http://127.0.0.1/v1/sinks/web/resource/retry?key=k", nil)
	s.Handler().ServeHTTP(httptest.NewRecorder(), r)
	if got := log.String(); !strings.Contains(got, "audit.name=local") || !strings.Contains(got, "audit.status=500") {
		t.Errorf("got %s", got)
	}
}

// panicking is an engine that panics in an order.
type panicking struct{ *fake }

func (panicking) Retry(context.Context, record.Key) error { panic("as a bug would") }

func TestTheLogSaysAtLevelDebugWhoWasNotLetInAndNothingOfWhatTheySent(t *testing.T) {
	k := newScopeKit(t)
	var log bytes.Buffer
	level := &slog.LevelVar{}
	s, _, _ := start(t, Options{Authenticators: tokensOf(t, k.file), Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))})
	for _, want := range []slog.Level{slog.LevelInfo, slog.LevelDebug} {
		level.Set(want)
		log.Reset()
		r := httptest.NewRequest("POST", "/v1/sinks/web/resource/forget?key=k", nil)
		r.Header.Set("Authorization", "Bearer s3cret")
		s.Handler().ServeHTTP(httptest.NewRecorder(), r)
		if got := log.String(); strings.Contains(got, "audit.status=401") != (want == slog.LevelDebug) || strings.Contains(got, "s3cret") {
			t.Errorf("at level %s: %s", want, got)
		}
	}
}

// The audit has each change with what came of it, the lines of a batch one by one, and
// nothing of payloads; who only looks is not in it.
func TestTheAuditHasEachChangeWithItsGeneration(t *testing.T) {
	k := &scopeKit{T: t, file: filepath.Join(t.TempDir(), "tokens")}
	ci := k.token("ci", access.TokenGrant{Scope: access.Write, Sinks: []string{"web"}})
	var file bytes.Buffer
	s, _, _ := start(t, Options{Authenticators: tokensOf(t, k.file), Audit: slog.New(slog.NewJSONHandler(&file, nil))})
	type line struct {
		Name, Kind, Operation, Sink, Key string
		Status                           int
		Generation                       uint64
	}
	said := func(method, path, body string) (out []line) {
		t.Helper()
		file.Reset()
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set(ci[0], ci[1])
		s.Handler().ServeHTTP(httptest.NewRecorder(), r)
		if strings.Contains(file.String(), "s3cret") {
			t.Errorf("a payload: %s", file.String())
		}
		for l := range strings.Lines(file.String()) {
			var got line
			if err := json.Unmarshal([]byte(l), &got); err != nil {
				t.Fatalf("%q: %v", l, err)
			}
			out = append(out, got)
		}
		return out
	}
	const put, batch = "PUT " + resourcePath, "POST " + batchPath
	for _, c := range []struct {
		method, path, body string
		want               []line
	}{
		{"PUT", "/v1/sinks/web/resource?key=k", `{"payload":"s3cret"}`, []line{{"ci", "token", put, "web", "k", 200, 1}}},
		{"PUT", "/v1/sinks/other/resource?key=k", `{"payload":"s3cret"}`, []line{{"ci", "token", put, "other", "k", 403, 0}}},
		{"DELETE", "/v1/sinks/web/resource?key=k", "", []line{{"ci", "token", "DELETE " + resourcePath, "web", "k", 200, 2}}},
		{"POST", batchPath, `{"sink":"web","key":"a","payload":"s3cret"}` + "\n" + `{"sink":"other","key":"b","payload":"s3cret"}` + "\n", []line{
			{"ci", "token", batch, "other", "b", 403, 0}, {"ci", "token", batch, "web", "a", 200, 3}, {"ci", "token", batch, "", "", 200, 0}}},
		// A key that is refused for its length is not written in full.
		{"POST", batchPath, `{"sink":"other","key":"` + strings.Repeat("é", 5000) + `","payload":1}`, []line{
			{"ci", "token", batch, "other", strings.Repeat("é", record.MaxKeyBytes/2) + "…", 403, 0}, {"ci", "token", batch, "", "", 200, 0}}},
		{"GET", "/v1/sinks/web/resource?key=k", "", nil},
	} {
		if got := said(c.method, c.path, c.body); !slices.Equal(got, c.want) {
			t.Errorf("%s %s: %+v, want %+v", c.method, c.path, got, c.want)
		}
	}
}
