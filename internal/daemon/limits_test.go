package daemon

import (
	"bytes"
	"net/http"
	"os"
	"testing"
)

// TestAReloadChangesWhatAClientMayDo: a watch that is open counts against a limit that
// came later, and the metrics say who was held back by which.
func TestAReloadChangesWhatAClientMayDo(t *testing.T) {
	_, url := target(t)
	b := startSwapping(t, pluginVersion{name: "v0"}, url, byHand)
	watch := func(status int) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.ready.Address+"/v1/watch", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { response.Body.Close() })
		if response.StatusCode != status {
			t.Fatalf("%s, want %d", response.Status, status)
		}
	}
	const throttled = `pawl_api_throttled_total{kind="local",limit="watches"}`
	watch(200)
	if got := b.metrics(throttled); got != throttled+" 0\n" {
		t.Errorf("metrics: %s", got)
	}
	text, err := os.ReadFile(b.path("pawl.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	b.replace("pawl.yaml", bytes.Replace(text, []byte(`"127.0.0.1:0"`), []byte(`"127.0.0.1:0", limits: {watches: 1}`), 1))
	b.applied()
	watch(429)
	if got := b.metrics(throttled); got != throttled+" 1\n" {
		t.Errorf("metrics: %s", got)
	}
	b.replace("pawl.yaml", text)
	b.applied()
	watch(200)
}
