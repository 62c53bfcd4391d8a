package server

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
)

func TestHashesTellNothingOfSensitiveValues(t *testing.T) {
	const payload = `{"pin":"1234"}`
	plain := record.HashOf([]byte(payload)).Hex()
	hashes := func(sensitive map[string][]string) map[string]string {
		t.Helper()
		_, f, hs := start(t, Options{Sensitive: sensitive})
		out := map[string]string{}
		for _, path := range []string{"/v1/sinks/web/resource?key=k", "/v1/sinks/web/resource?key=other", "/v1/sinks/cluster/resource?key=k"} {
			ask(t, "PUT", hs.URL+path, `{"payload":`+payload+`}`)
		}
		key := record.Key{Sink: "web", Name: "k"}
		f.mu.Lock()
		stored := f.resources[key]
		h := stored.Desired.Hash
		stored.Status.Acked, stored.Status.Observed, stored.Status.Attempted = &record.Acked{Hash: h}, &record.Observed{Hash: h}, []record.Attempt{{Hash: h}, {Delete: true}}
		f.resources[key] = stored
		f.mu.Unlock()
		_, body := ask(t, "GET", hs.URL+"/v1/resources", "")
		var page api.Page
		if err := json.Unmarshal([]byte(body), &page); err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Items {
			out[r.Sink+"/"+r.Key] = r.PayloadHash
			if st := r.Status; r.Key == "k" && r.Sink == "web" && (st.Acked.Hash != r.PayloadHash || st.Observed.Hash != r.PayloadHash || st.Attempted[0].Hash != r.PayloadHash || st.Attempted[1].Hash != "") {
				t.Errorf("equal content has other hashes in the status: %s", body)
			}
		}
		for _, path := range []string{"/v1/sinks/web/resource?key=k&payload=true&reveal=true", "/v1/sinks/web/resource/explain?key=k"} {
			if _, body := ask(t, "GET", hs.URL+path, ""); !strings.Contains(body, out["web/k"]) {
				t.Errorf("%s has another hash than the list, %s: %s", path, out["web/k"], body)
			}
		}
		return out
	}
	sensitive := map[string][]string{"web": {"/pin"}, "cluster": nil}
	first, again := hashes(sensitive), hashes(sensitive)
	if first["web/k"] == plain || len(first["web/k"]) != len(plain) {
		t.Errorf("the hash is %s, of which every pin can be tried", first["web/k"])
	}
	if first["web/k"] == first["web/other"] {
		t.Error("two resources have the same hash: guesses can be compared")
	}
	if first["web/k"] == again["web/k"] {
		t.Error("two daemons have the same key")
	}
	if first["cluster/k"] != plain || hashes(nil)["web/k"] != plain {
		t.Error("where nothing is sensitive, the hash is not that of the payload")
	}
}
