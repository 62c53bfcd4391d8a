package server

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
)

// refusedConfig is a Reloader whose file is refused.
type refusedConfig struct{}

func (refusedConfig) Reload(context.Context, bool) (api.Reload, error) { return api.Reload{}, nil }
func (refusedConfig) Status() api.ConfigStatus {
	return api.ConfigStatus{File: "secret.yaml", RefusedAt: time.Unix(1, 0), Errors: []string{"sinks.hidden: no such plugin"}, Restart: []string{"sinks.hidden"}}
}

func TestTheStatusTellsThoseWhoMayReadAPartNothingOfTheRest(t *testing.T) {
	k := newScopeKit(t)
	f := newFake()
	f.stats = engine.Stats{Resources: 17, Watchers: 5}
	f.sinks = []engine.SinkStatus{
		{Name: "web", Configured: true, Counts: map[record.Phase]int{record.Failed: 3}, LastError: "of another key"},
		{Name: "hidden", Configured: true, Counts: map[record.Phase]int{record.Failed: 14}},
	}
	_, _, hs := start(t, Options{Engine: f, Authenticators: tokensOf(t, k.file), Reloader: refusedConfig{}})
	status := func(header []string) string {
		t.Helper()
		response, body := ask(t, http.MethodGet, hs.URL+"/v1/status", "", header...)
		if response.StatusCode != http.StatusOK {
			t.Fatal(body)
		}
		return body
	}
	part := status(k.token("part", access.TokenGrant{Scope: access.Admin, Sinks: []string{"web"}, Prefix: "u/"}))
	for _, secret := range []string{"hidden", "secret.yaml", `"resources":17`, "of another key", `"watchers":5`, "null"} {
		if strings.Contains(part, secret) {
			t.Errorf("it tells %s: %s", secret, part)
		}
	}
	if !strings.Contains(part, `"resources":3`) {
		t.Errorf("what they may see is not counted: %s", part)
	}
	whole := status(k.token("whole", access.TokenGrant{Scope: access.Read}))
	for _, want := range []string{"hidden", "secret.yaml", `"resources":17`, `"watchers":5`} {
		if !strings.Contains(whole, want) {
			t.Errorf("it lacks %s: %s", want, whole)
		}
	}
}
