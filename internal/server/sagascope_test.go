package server

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
)

func TestASagaTakesTheScopeForEachOfItsSinksBeforeAnythingIsWritten(t *testing.T) {
	k := &scopeKit{T: t, file: filepath.Join(t.TempDir(), "tokens")}
	half := k.token("half", access.TokenGrant{Scope: access.Write, Sinks: []string{"permissions"}}, access.TokenGrant{Scope: access.Read})
	both := k.token("both", access.TokenGrant{Scope: access.Write, Sinks: []string{"permissions", "cluster"}, Prefix: "ns/"})
	s := startSagas(t, Options{Authenticators: tokensOf(t, k.file)})

	// The other order too: the step that is allowed must not be written first.
	swapped := strings.NewReplacer("permissions", "cluster", "cluster", "permissions").Replace(grantAndNamespace)
	for _, body := range []string{grantAndNamespace, swapped} {
		response, answer := ask(t, "POST", s.url+"/v1/sagas", body, half...)
		p := problemOf(t, response, answer)
		if p.Status != 403 || p.Code != api.CodeMissingScope || !strings.Contains(p.Detail, `token "half" lacks the scope write for sink "cluster", key "ns/foo"`) {
			t.Errorf("with the scope for one of two sinks: %s", answer)
		}
	}
	if response, answer := ask(t, "GET", s.url+"/v1/sagas/ns-foo", "", half...); response.StatusCode != 404 {
		t.Errorf("the refused saga is there: %s", answer)
	}
	if n := len(s.permissions.names()) + len(s.cluster.names()); n != 0 {
		t.Errorf("written all the same: %v, %v", s.permissions.names(), s.cluster.names())
	}
	response, answer := ask(t, "POST", s.url+"/v1/sagas", grantAndNamespace, both...)
	if v := sagaIn(t, response, answer, 200); v.Outcome != api.SagaCommitted {
		t.Errorf("with the scope for both: %s", answer)
	}
}
