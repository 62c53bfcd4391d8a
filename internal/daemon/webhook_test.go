package daemon

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
)

// webhookExample is the sink's config that the plugin's README shows for webhooks.
func webhookExample(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../plugins/http/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Webhooks\n")
	_, block, _ := strings.Cut(section, "```yaml\n")
	block, _, found := strings.Cut(block, "```")
	if !found {
		t.Fatal("plugins/http/README.md has no YAML under Webhooks")
	}
	return block
}

// All resources of a webhook sink are told of at one address.
func TestTheDocumentedWebhookTellsOfManyResources(t *testing.T) {
	needPlugins(t)
	var mu sync.Mutex
	var told []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		told = append(told, r.Method+" "+r.URL.Path+" "+string(body))
	}))
	t.Cleanup(srv.Close)
	extra := "  hooks:\n    plugin: http\n    upstreams: [objects]\n" + webhookExample(t)
	d := begin(t, load(t, write(t, t.TempDir(), srv.URL, extra)), options())

	keys := []record.Key{{Sink: "hooks", Name: "team/a"}, {Sink: "hooks", Name: "team/b"}}
	for _, key := range keys {
		put, err := d.Put(t.Context(), key, api.PutRequest{Payload: json.RawMessage(`{"n":1}`)})
		if err != nil {
			t.Fatal(err)
		}
		if w, err := d.Wait(t.Context(), key, put.Generation); err != nil || !w.Done {
			t.Fatalf("%s: %+v, %v", key.Name, w, err)
		}
	}
	del, err := d.Delete(t.Context(), keys[0], api.DeleteRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if w, err := d.Wait(t.Context(), keys[0], del.Generation); api.CodeOf(err) != api.CodeNotFound && (err != nil || !w.Gone) {
		t.Fatalf("wait for the deletion: %+v, %v", w, err)
	}
	want := []string{
		`POST /hooks/pawl {"type": "changed", "key": "team/a", "data": {"n":1}}`,
		`POST /hooks/pawl {"type": "changed", "key": "team/b", "data": {"n":1}}`,
		`POST /hooks/pawl {"type": "deleted", "key": "team/a"}`,
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(told, want) {
		t.Errorf("the target was told\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
	}
}
