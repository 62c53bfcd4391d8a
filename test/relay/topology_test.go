package relay

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
)

// A chain: what the first one has acknowledged is at the last one's target.
func TestAChainOfThreeAcknowledgesWhatItsEndHas(t *testing.T) {
	x := newTarget(t)
	hub := newPawl(t, principalConfig(x, noFuse))
	hub.start()
	region := newPawl(t, fmt.Sprintf(`upstreams: {hub: {base_url: %q}}
sinks:
  web: {plugin: pawl, upstreams: [hub], %s, config: {sender: edge-region, sink: web, ack: processed}}
sources:
  edges: {pawl: {senders: ["edge-*"]}, fuse: {share: 1.0}}
`, hub.url(), quick))
	region.start()
	e := newPawl(t, agentConfig(region.url(), "edge-1", "processed"))
	e.start()
	want := map[string]string{}
	for i := range 50 {
		want[fmt.Sprint("k", i)] = payload(1)
	}
	must(t, e.putAll(t.Context(), "up", want))
	eventually(t, "all is acknowledged", e.quiet("up", 50))
	must(t, x.holds(under("edge-1/", want)))

	region.kill()
	want["k0"] = payload(2)
	must(t, e.put(t.Context(), "up", "k0", want["k0"]))
	_, err := e.Delete(t.Context(), record.Key{Sink: "up", Name: "k1"}, api.DeleteRequest{})
	must(t, err)
	delete(want, "k1")
	region.start()
	eventually(t, "the change went through", e.quiet("up", 49))
	must(t, x.holds(under("edge-1/", want)))
}

// Managed: the principal owns, and each agent gets its share.
func TestAPrincipalGivesEachAgentItsShare(t *testing.T) {
	agents := map[string]*pawl{}
	targets := map[string]*target{}
	config := "upstreams:\n"
	for _, name := range []string{"a", "b"} {
		targets[name] = newTarget(t)
		agents[name] = newPawl(t, fmt.Sprintf(`upstreams: {target: {base_url: %q}}
sinks:
  web: {plugin: http, upstreams: [target], %s, config: {path: "/o/{key}"}}
sources:
  principal: {pawl: {senders: [edge-hub]}, fuse: {share: 1.0}}
`, targets[name].server.URL, quick))
		agents[name].start()
		config += fmt.Sprintf("  %s: {base_url: %q}\n", name, agents[name].url())
	}
	config += "sinks:\n"
	for name := range agents {
		config += fmt.Sprintf("  agent-%s: {plugin: pawl, upstreams: [%s], %s, config: {sender: edge-hub, ack: processed}}\n", name, name, quick)
	}
	p := newPawl(t, config)
	p.start()
	shares := map[string]map[string]string{"a": {"web/1": payload(1), "web/2": payload(1)}, "b": {"web/2": payload(7), "web/3": payload(1)}}
	for name, share := range shares {
		must(t, p.putAll(t.Context(), "agent-"+name, share))
	}
	for name := range agents {
		eventually(t, "the share of "+name, p.quiet("agent-"+name, 2))
	}
	must(t, targets["a"].holds(map[string]string{"1": payload(1), "2": payload(1)}))
	must(t, targets["b"].holds(map[string]string{"2": payload(7), "3": payload(1)}))

	agents["a"].kill() // what one agent does delays no other
	must(t, p.put(t.Context(), "agent-a", "web/1", payload(2)))
	must(t, p.put(t.Context(), "agent-b", "web/3", payload(2)))
	eventually(t, "the other agent", func(context.Context) error {
		return targets["b"].holds(map[string]string{"2": payload(7), "3": payload(2)})
	})
	agents["a"].start()
	eventually(t, "the agent that was away", func(context.Context) error {
		return targets["a"].holds(map[string]string{"1": payload(2), "2": payload(1)})
	})
	// What another source owns at an agent is not the principal's to change.
	_, err := agents["a"].Put(t.Context(), record.Key{Sink: "web", Name: "own"}, api.PutRequest{Payload: []byte(payload(1)), Owner: "files"})
	must(t, err)
	must(t, p.put(t.Context(), "agent-a", "web/own", payload(9)))
	eventually(t, "the refusal is told", func(ctx context.Context) error {
		res, err := p.Get(ctx, record.Key{Sink: "agent-a", Name: "web/own"}, client.GetOptions{})
		if err == nil && res.Status.Message == "" {
			return fmt.Errorf("it is %s", res.Status.Phase)
		}
		return err
	})
}

// copyStore copies a store that nobody has open.
func copyStore(t *testing.T, from, to string) {
	t.Helper()
	must(t, os.RemoveAll(to))
	must(t, os.CopyFS(to, os.DirFS(from)))
}
