package servers

import (
	"context"
	"net/http"
	"os"
	"testing"
	"time"
)

// build gives the servers' time to be built the first time.
func build(t *testing.T) context.Context {
	if testing.Short() {
		t.Skip("real servers are slow to build and to start")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestKubeStartsAndSurvivesAKill(t *testing.T) {
	ctx := build(t)
	k, err := StartKube(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer k.Stop()
	k.KillAPI()
	if err := get(ctx, k.Client(), k.URL+"/readyz", k.Token); err == nil {
		t.Error("it answers after its death")
	}
	if err := k.StartAPI(ctx); err != nil {
		t.Fatal(err)
	}
	if err := get(ctx, k.Client(), k.URL+"/api/v1/namespaces", k.Token); err != nil {
		t.Error(err)
	}
	if err := get(ctx, k.Client(), k.URL+"/api/v1/namespaces", TokenLimited); err == nil {
		t.Error("a user without rights may list namespaces")
	}
	if _, err := os.Stat(k.Kubeconfig); err != nil {
		t.Error(err)
	}
}

func TestSpiceDBStarts(t *testing.T) {
	ctx := build(t)
	s, err := StartSpiceDB(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	if err := get(ctx, http.DefaultClient, s.HTTP+"/healthz", s.Key); err != nil {
		t.Error(err)
	}
}
