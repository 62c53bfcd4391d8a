package e2e

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawlsync/pawl/engine/sink"
)

// sagaWindow is what a third party does after the adapter has looked, when its write is
// on the way: SpiceDB itself has to see it.
func (s *sagas) sagaWindow(t *testing.T) {
	arrived, goOn := make(chan struct{}), make(chan struct{})
	var armed atomic.Bool
	address := s.front(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/WriteRelationships") && armed.CompareAndSwap(true, false) {
			arrived <- struct{}{}
			<-goOn
		}
		return false
	})
	slow := connect(t, s.plugin, strings.TrimPrefix(address, "http://"), s.Key, `{"sagas":true}`)
	during := func(t *testing.T, call func() sink.Result, change func()) sink.Result {
		armed.Store(true)
		done := make(chan sink.Result, 1)
		go func() { done <- call() }()
		select {
		case <-arrived:
			change()
			goOn <- struct{}{}
			return <-done
		case res := <-done:
			t.Errorf("no write was sent: %v %s", res.Status, res.Message)
			return res
		}
	}
	const object, anne, bob = "document:window", "document:window#viewer@user:anne", "document:window#viewer@user:bob"
	remove := func(rows ...string) func() { return func() { s.write(t, "DELETE", rows...) } }
	for name, c := range map[string]struct {
		verb, key, payload string
		before             []string
		write              func() // while the write is on its way
		undo               func(p *player) func()
		want               sink.Status
		after              []string
	}{
		"a row to remove goes":  {"upsert", "x", `{"delete":["` + bob + `"]}`, []string{bob}, remove(bob), nil, sink.Conflict, nil},
		"a row to change goes":  {"upsert", "x", `{"touch":["` + bob + `"]}`, []string{bob + caveated}, remove(bob), nil, sink.Conflict, nil},
		"a row that stays goes": {"upsert", "x", `{"touch":["` + anne + `","` + bob + `"]}`, []string{bob}, remove(bob), nil, sink.Conflict, nil},
		"a row of the scope":    {"upsert", "x", `{"relationships":["` + anne + `"]}`, []string{anne, bob}, remove(bob), nil, sink.Conflict, []string{anne}},
		"a row to delete goes":  {"delete", object, ``, []string{anne, bob}, remove(bob), nil, sink.Conflict, []string{anne}},
		"a row to add comes":    {"upsert", "x", `{"touch":["` + anne + `"]}`, nil, func() { s.touch(t, anne+caveated) }, nil, sink.Conflict, []string{anne + caveated}},
		"a row to create comes": {"create", "x", `{"touch":["` + anne + `"]}`, nil, func() { s.touch(t, anne) }, nil, sink.AlreadyExists, []string{anne}},
		"undo: what went is back": {"delete", bob, ``, []string{bob}, nil,
			func(*player) func() { return func() { s.touch(t, bob+caveated) } }, sink.Conflict, []string{bob + caveated}},
		"undo: what changed goes": {"upsert", "x", `{"touch":["` + bob + `"]}`, []string{bob + caveated}, nil,
			func(*player) func() { return remove(bob) }, sink.Conflict, nil},
		"undo: a copy of it is quicker": {"create", "x", `{"touch":["` + anne + `"]}`, nil, nil,
			func(p *player) func() { return remove(p.mark(), anne) }, sink.OK, nil},
		"undo: it was undone, and added by another": {"create", "x", `{"touch":["` + anne + `"]}`, nil, nil,
			func(p *player) func() { return remove(p.mark()) }, sink.Conflict, []string{anne}},
	} {
		t.Run(name, func(t *testing.T) {
			s.post(t, "/v1/relationships/delete", map[string]any{"relationshipFilter": map[string]any{"resourceType": "document", "optionalResourceId": "window"}})
			if len(c.before) > 0 {
				s.touch(t, c.before...)
			}
			p := s.play(t, c.verb, c.key, c.payload)
			p.sink = slow
			p.look()
			if c.write != nil {
				must(t, "the write", during(t, p.write, c.write), c.want)
				if p.ours() != sink.No {
					t.Error("it left its mark")
				}
			} else {
				must(t, "the write", p.write(), sink.OK)
				must(t, "the undo", during(t, p.restore, c.undo(p)), c.want)
			}
			s.expect(t, object, c.after...)
			p.unlock()
		})
	}
}
