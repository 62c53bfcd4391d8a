package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/pawlsync/pawl/test/e2e/servers"
)

func TestKube(t *testing.T) {
	if testing.Short() {
		t.Skip("real servers are slow to build and to start")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	k, err := servers.StartKube(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer k.Stop()
	c := &cluster{k, shippedPlugin(t, "kube")}
	for _, test := range []struct {
		name string
		run  func(*cluster, *testing.T)
	}{
		{"AConfigMapThroughItsLife", (*cluster).life},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(c, t) })
	}
}

func (c *cluster) life(t *testing.T) {
	c.namespace(t, "life")
	r := c.rig(t, `{}`, often)
	const key = "v1/ConfigMap/life/greeting"
	path := configMapPath("life", "greeting")
	r.acked(t, key, configMap("life", "greeting", `{"text":"hello","more":"x"}`))
	if o := c.get(t, path); o.at("data", "text") != "hello" || o.at("data", "more") != "x" {
		t.Fatalf("created as %v", o)
	}
	r.acked(t, key, configMap("life", "greeting", `{"text":"goodbye"}`))
	o := c.get(t, path)
	if o.at("data", "text") != "goodbye" || o.at("data", "more") != nil {
		t.Fatalf("updated to %v", o.at("data"))
	}

	// What others add is theirs, and to look writes nothing.
	c.edit(t, path, `{"data":{"others":"y"},"metadata":{"labels":{"team":"z"}}}`)
	version, applies := c.get(t, path).version(), r.sink.applies.Load()
	r.seenBy(t, 5)
	if o := c.get(t, path); o.version() != version || r.sink.applies.Load() != applies {
		t.Errorf("looking at what is as desired wrote: %s, then %s; %d applies", version, o.version(), r.sink.applies.Load()-applies)
	}

	r.deleted(t, key, "")
	if c.exists(t, path) {
		t.Error("it is still there")
	}
}
