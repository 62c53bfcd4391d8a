package relay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/internal/bundled"
	"github.com/pawlsync/pawl/internal/conformance"
)

// The kit that every plugin is held to, with a pawl as the target. Whoever changes
// things behind the plugin's back does it in the sender's name: from all others they are
// protected. The acknowledgement is the receiver's own: of "processed" the kit would try
// the target behind it, whose "not yet" is an answer that it does not take.
func TestThePluginPassesTheKit(t *testing.T) {
	x := newTarget(t)
	p := newPawl(t, principalConfig(x, noFuse))
	p.start()
	f, err := conformance.ParseFixture(fmt.Appendf(nil, `
config: {sender: edge-kit}
bad_configs: [{}, {sender: "edge-*"}, {sender: edge-kit, ack: perhaps}, {sender: edge-kit, batch_max: 0}, {sender: edge-kit, sink: a/b}]
key: web/kit-{n}
upstream: {url: %q}
reads: [/v1/relay/look, /v1/relay/compare]
drift: {method: PUT, path: "/v1/sinks/web/resource?key=kit-{n}", body: {owner: edge-kit, payload: {text: somebody else's, size: 3}}}
vanish: {method: DELETE, path: "/v1/sinks/web/resource?key=kit-{n}&owner=edge-kit"}
skip:
  fault-422: a pawl refuses no relay with a 422; what it refuses is said of each item, and tried in internal/relay
`, p.url()))
	must(t, err)
	wasm, err := bundled.Plugin("pawl")
	must(t, err)
	r, err := conformance.Run(t.Context(), wasm, "pawl", conformance.Options{Fixture: f, Calls: 80})
	must(t, err)
	var text strings.Builder
	_ = r.WriteText(&text, false)
	t.Log(&text)
	if n := r.Count(conformance.Failed); n > 0 {
		t.Errorf("%d checks failed", n)
	}
}
