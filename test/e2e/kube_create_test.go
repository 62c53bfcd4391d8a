package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// creations: of those who create an object at the same time one wins, and is told
// so; what the others wanted is nowhere in it. It can then be kept by applies.
func (c *cluster) creations(t *testing.T) {
	c.namespace(t, "creations")
	creators := map[string]*counted{
		"one": c.connect(t, "test", `{"field_manager":"one"}`),
		"two": c.connect(t, "test", `{"field_manager":"two"}`),
	}
	const collection = "/api/v1/namespaces/creations/configmaps"
	manifest := func(name, by string) string { return configMap("creations", name, `{"by":"`+by+`","`+by+`":"x"}`) }
	apply := func(by, name string, mode sink.Mode, payload string) sink.Result {
		return creators[by].Apply(t.Context(), &sink.Request{
			Key: zedKey("v1/ConfigMap/creations/" + name), Payload: []byte(payload), Conflict: record.SourceWins, Mode: mode})
	}
	wins := map[string]int{}
	for i := range 150 {
		name := fmt.Sprintf("c%d", i)
		begin, results := make(chan struct{}), map[string]chan sink.Result{}
		for by := range creators {
			answer := make(chan sink.Result, 1)
			results[by] = answer
			go func() {
				<-begin
				answer <- apply(by, name, sink.CreateOnly, manifest(name, by))
			}()
		}
		close(begin)
		var won []string
		if i%3 == 0 { // and somebody who knows nothing of Pawl
			switch status, o := c.call(t, http.MethodPost, collection, "application/json", manifest(name, "three")); status {
			case http.StatusCreated:
				won = append(won, "three")
			case http.StatusConflict:
			default:
				t.Fatalf("%d %v", status, o["message"])
			}
		}
		for by, answer := range results {
			switch res := <-answer; res.Status {
			case sink.OK:
				won = append(won, by)
			case sink.AlreadyExists:
			default:
				t.Fatalf("%s: %s: %s", by, res.Status, res.Message)
			}
		}
		if len(won) != 1 {
			t.Fatalf("%s was created by %q", name, won)
		}
		o := c.get(t, configMapPath("creations", name))
		if data := o.at("data").(map[string]any); data["by"] != won[0] || len(data) != 2 {
			t.Fatalf("%s was created by %s, and holds %v", name, won, data)
		}
		wins[won[0]]++
	}
	t.Logf("won: %v", wins)

	// What is there is not touched, not even where it is equal.
	equal := manifest("equal", "one")
	before := c.create(t, collection, equal).version()
	if res := apply("one", "equal", sink.CreateOnly, equal); res.Status != sink.AlreadyExists {
		t.Errorf("%s: %s", res.Status, res.Message)
	}
	path := configMapPath("creations", "equal")
	if v := c.get(t, path).version(); v != before {
		t.Error("an object that exists was written")
	}

	// A creation owns its fields as an apply does: a later one removes what it names no more.
	c.remove(t, path)
	if res := apply("one", "equal", sink.CreateOnly, equal); res.Status != sink.OK {
		t.Fatalf("%s: %s", res.Status, res.Message)
	}
	if res := apply("one", "equal", sink.Upsert, configMap("creations", "equal", `{"by":"one"}`)); res.Status != sink.OK {
		t.Fatalf("%s: %s", res.Status, res.Message)
	}
	if data := c.get(t, path).at("data").(map[string]any); len(data) != 1 {
		t.Errorf("it holds %v", data)
	}
}
