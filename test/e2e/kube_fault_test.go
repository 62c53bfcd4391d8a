package e2e

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/internal/kube"
	"github.com/pawlsync/pawl/test/e2e/proxy"
)

// through returns a rig whose requests pass through a proxy.
func (c *cluster) through(t *testing.T, config string, o engine.SinkOptions) (*rig, *proxy.Proxy) {
	t.Helper()
	u, err := url.Parse(c.URL)
	if err != nil {
		t.Fatal(err)
	}
	p, err := proxy.New(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	text, err := os.ReadFile(c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), u.Host, p.Address, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := kube.Open(kube.Options{Kubeconfig: file})
	if err != nil {
		t.Fatal(err)
	}
	return start(t, c.connectOver(t, k.BaseURL(), k, config), o), p
}

func (c *cluster) faults(t *testing.T) {
	c.namespace(t, "faults")
	r, p := c.through(t, `{}`, engine.SinkOptions{Timeout: 3 * time.Second})
	const key = "v1/ConfigMap/faults/f"
	path := configMapPath("faults", "f")
	r.acked(t, key, configMap("faults", "f", `{"n":"0"}`))
	for i, m := range []struct {
		name string
		mode proxy.Mode
	}{{"refused", proxy.Refuse}, {"reset", proxy.Reset}, {"answer dropped", proxy.DropAnswer}} {
		t.Run(m.name, func(t *testing.T) {
			p.Set(m.mode)
			generation := r.put(t, key, configMap("faults", "f", fmt.Sprintf(`{"n":"%d"}`, i+1)))
			eventually(t, "the server is unreachable", func() bool { return r.status(t, key).Reason == record.ReasonUnreachable })
			p.Set(proxy.Pass)
			if res := r.settle(t, key, generation); !res.Done {
				t.Fatalf("%+v", res)
			}
			if n := c.get(t, path).at("data", "n"); n != fmt.Sprint(i+1) {
				t.Errorf("it holds %v", n)
			}
		})
	}
	t.Run("delayed", func(t *testing.T) {
		p.Delay = 200 * time.Millisecond
		p.Set(proxy.Delay)
		r.acked(t, key, configMap("faults", "f", `{"n":"9"}`))
		r.deleted(t, key, "")
		if c.exists(t, path) {
			t.Error("it is still there")
		}
	})
}

func (c *cluster) restart(t *testing.T) {
	c.namespace(t, "restart")
	r := c.rig(t, `{}`, engine.SinkOptions{})
	const n = 100
	key := func(i int) string { return fmt.Sprintf("v1/ConfigMap/restart/c%d", i) }
	generations := make([]uint64, n)
	for i := range n {
		generations[i] = r.put(t, key(i), configMap("restart", fmt.Sprintf("c%d", i), fmt.Sprintf(`{"n":"%d"}`, i)))
		if i == n/2 {
			c.KillAPI()
		}
	}
	eventually(t, "the server's death is noticed", func() bool {
		return r.Sinks()[0].LastErrorStatus == sink.Unreachable
	})
	if err := c.StartAPI(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	for i, g := range generations {
		if res := r.settle(t, key(i), g); !res.Done {
			t.Fatalf("%s: %+v", key(i), res)
		}
	}
	if got := len(c.versions(t, "restart")); got != n {
		t.Errorf("%d objects, want %d", got, n)
	}
}
