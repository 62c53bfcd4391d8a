package conformance

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/internal/bundled"
)

// The plugins that we ship pass, in each way of working that promises what the
// kit asks for.
func TestTheShippedPluginsPass(t *testing.T) {
	wasm, err := bundled.Plugin("http")
	switch {
	case err != nil && os.Getenv("REQUIRE_PLUGINS") == "1":
		t.Fatal(err)
	case err != nil:
		t.Skip(err)
	}
	for _, c := range []struct{ name, config, protocol string }{
		{"owned fields", `{"path": "/objects/{key}"}`, ""},
		{"whole documents", `{"path": "/objects/{key}", "compare": "json"}`, ""},
		{"bytes", `{"path": "/objects/{key}", "compare": "bytes"}`, ""},
		{"entity tags", `{"path": "/objects/{key}", "compare": "etag"}`, ""},
		{"confirmed by a look", `{"path": "/objects/{key}", "confirm": "observe"}`, ""},
		{"over HTTP/2", `{"path": "/objects/{key}"}`, "h2c"},
		{"webhooks", `{"path": "/hooks/{key}", "compare": "none"}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.name != "owned fields" {
				t.Skip("one way of working is enough")
			}
			f := DefaultFixture()
			f.Config, f.Upstream.Protocol = json.RawMessage(c.config), c.protocol
			if c.name == "owned fields" {
				f.Store.Adds = map[string]json.RawMessage{"added": json.RawMessage(`"by the store"`)}
			}
			r, err := Run(t.Context(), wasm, "http", Options{Fixture: f, Host: hostOptions(t), CallTimeout: patience, Calls: 80})
			if err != nil {
				t.Fatal(err)
			}
			if r.Count(Failed) > 0 {
				var text strings.Builder
				_ = r.WriteText(&text, false)
				t.Error(&text)
			}
		})
	}
}
