package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/test/e2e/proxy"
)

// sagaMeddled is what a third party does between the look and the write: nothing is written.
func (s *sagas) sagaMeddled(t *testing.T) {
	const anne, bob = "document:meddled#viewer@user:anne", "document:meddled#viewer@user:bob"
	for name, c := range map[string]struct {
		verb, key, payload string
		before             []string
		touch, remove      []string
		want               sink.Status
	}{
		"a row to create is there":   {"create", "x", `{"touch":["` + anne + `"]}`, nil, []string{anne}, nil, sink.AlreadyExists},
		"its object has another row": {"create", "x", `{"relationships":["` + anne + `"]}`, nil, []string{bob}, nil, sink.AlreadyExists},
		"a row to add is there":      {"upsert", "x", `{"touch":["` + anne + `"]}`, nil, []string{anne + caveated}, nil, sink.Conflict},
		"a row to remove came":       {"upsert", "x", `{"touch":["` + anne + `"],"delete":["` + bob + `"]}`, nil, []string{bob}, nil, sink.Conflict},
		"a row to remove went":       {"upsert", "x", `{"delete":["` + bob + `"]}`, []string{bob}, nil, []string{bob}, sink.Conflict},
		"a row that stays went":      {"upsert", "x", `{"touch":["` + anne + `","` + bob + `"]}`, []string{bob}, nil, []string{bob}, sink.Conflict},
		"a row has another caveat":   {"upsert", "x", `{"relationships":["` + anne + `"]}`, []string{anne}, []string{anne + caveated}, nil, sink.Conflict},
		"the object has one more":    {"delete", "document:meddled", ``, []string{anne}, []string{bob}, nil, sink.Conflict},
		"the object has one now":     {"delete", "document:meddled", ``, nil, []string{bob}, nil, sink.Conflict},
		"the row is there now":       {"delete", bob, ``, nil, []string{bob}, nil, sink.Conflict},
		"the row is gone":            {"delete", bob, ``, []string{bob}, nil, []string{bob}, sink.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			s.post(t, "/v1/relationships/delete", map[string]any{"relationshipFilter": map[string]any{"resourceType": "document", "optionalResourceId": "meddled"}})
			if len(c.before) > 0 {
				s.touch(t, c.before...)
			}
			p := s.play(t, c.verb, c.key, c.payload, lockOf("meddled"))
			p.look()
			if len(c.touch) > 0 {
				s.touch(t, c.touch...)
			}
			if len(c.remove) > 0 {
				s.write(t, "DELETE", c.remove...)
			}
			found, _ := s.read(t, "document:meddled")
			must(t, "the write", p.write(), c.want)
			s.expect(t, "document:meddled", found...)
			if held := s.heldBy(t, p.run.ID); len(held) > 0 || p.ours() != sink.No {
				t.Errorf("it left %q", held)
			}
		})
	}
}

// sagaMeddledLater is what a third party does between the write and its undo.
func (s *sagas) sagaMeddledLater(t *testing.T) {
	const anne, bob, carol = "document:later#viewer@user:anne", "document:later#viewer@user:bob", "document:later#editor@user:carol"
	const stays = "document:later#editor@user:stays"
	payload := `{"touch":["` + anne + `","` + stays + `"],"delete":["` + bob + `"]}` // adds anne, removes bob
	for name, c := range map[string]struct {
		touch, remove []string
		want          sink.Status
		after         []string
	}{
		"what it added is changed":       {[]string{anne + caveated}, nil, sink.Conflict, []string{anne + caveated, stays}},
		"what it removed came otherwise": {[]string{bob + caveated}, nil, sink.Conflict, []string{anne, bob + caveated, stays}},
		"what it removed came back":      {[]string{bob}, nil, sink.OK, []string{bob, stays}},
		"what it added is gone":          {nil, []string{anne}, sink.OK, []string{bob, stays}},
		"another row came":               {[]string{carol}, nil, sink.OK, []string{bob, carol, stays}},
		"what it left went":              {nil, []string{stays}, sink.OK, []string{bob}},
	} {
		t.Run(name, func(t *testing.T) {
			s.post(t, "/v1/relationships/delete", map[string]any{"relationshipFilter": map[string]any{"resourceType": "document", "optionalResourceId": "later"}})
			s.touch(t, bob, stays)
			p := s.play(t, "upsert", "x", payload)
			p.look()
			must(t, "the write", p.write(), sink.OK)
			if len(c.touch) > 0 {
				s.touch(t, c.touch...)
			}
			if len(c.remove) > 0 {
				s.write(t, "DELETE", c.remove...)
			}
			must(t, "restore", p.restore(), c.want)
			s.expect(t, "document:later", c.after...)
			if c.want == sink.OK {
				must(t, "restore again", p.restore(), sink.OK)
				s.touch(t, anne)
				must(t, "restore after it was taken back and somebody wrote the same", p.restore(), sink.Conflict, anne)
				s.write(t, "DELETE", anne)
			}
			s.expect(t, "document:later", c.after...)
			p.unlock()
		})
	}
}

// sagaLost are writes and undos whose answer nobody gets.
func (s *sagas) sagaLost(t *testing.T) {
	behind := s.front(t, nil)
	drop := s.front(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/WriteRelationships") {
			return false
		}
		h2c := &http.Transport{Protocols: new(http.Protocols)}
		h2c.Protocols.SetUnencryptedHTTP2(true)
		defer h2c.CloseIdleConnections()
		on, err := http.NewRequestWithContext(r.Context(), r.Method, behind+r.URL.Path, r.Body)
		if err != nil {
			t.Error(err)
		}
		on.Header = r.Header.Clone()
		if res, err := h2c.RoundTrip(on); err != nil {
			t.Error(err)
		} else {
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
		panic(http.ErrAbortHandler)
	})
	const anne, bob = "document:lost#viewer@user:anne", "document:lost#viewer@user:bob"
	for name, c := range map[string]struct {
		verb, key, payload string
		before, after      []string
	}{
		"create": {"create", "x", `{"touch":["` + anne + `"]}`, nil, []string{anne}},
		"upsert": {"upsert", "x", `{"relationships":["` + anne + `"]}`, []string{bob}, []string{anne}},
		"delete": {"delete", "document:lost", ``, []string{bob + caveated}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if len(c.before) > 0 {
				s.touch(t, c.before...)
			}
			p := s.play(t, c.verb, c.key, c.payload, lockOf("lost"))
			p.look()
			direct := p.sink
			p.sink = connect(t, s.plugin, strings.TrimPrefix(drop, "http://"), s.Key, `{"sagas":true}`)
			if res := p.write(); res.Status != sink.Unreachable || res.NotSent {
				t.Fatalf("a write without an answer: %v, not sent %v: %s", res.Status, res.NotSent, res.Message)
			}
			if got := p.ours(); got != sink.Yes {
				t.Errorf("it landed, and a look says %v", got)
			}
			s.expect(t, "document:lost", c.after...)
			if res := p.restore(); res.Status != sink.Unreachable || res.NotSent {
				t.Fatalf("an undo without an answer: %v, not sent %v: %s", res.Status, res.NotSent, res.Message)
			}
			s.expect(t, "document:lost", c.before...)
			p.sink = direct
			must(t, "the undo again", p.restore(), sink.OK)
			s.expect(t, "document:lost", c.before...)
			if got := p.ours(); got != sink.No {
				t.Errorf("it was taken back, and a look says %v", got)
			}
			must(t, "unlock", p.unlock(), sink.OK)
			if len(c.before) > 0 {
				s.post(t, "/v1/relationships/delete", map[string]any{"relationshipFilter": map[string]any{"resourceType": "document", "optionalResourceId": "lost"}})
			}
		})
	}
	t.Run("nothing was sent", func(t *testing.T) {
		p, err := proxy.New(s.Address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		p.Set(proxy.Refuse)
		q := s.play(t, "create", "x", `{"touch":["`+anne+`"]}`)
		q.look()
		q.sink = connect(t, s.plugin, p.Address, s.Key, `{"sagas":true}`)
		if res := q.write(); res.Status != sink.Unreachable {
			t.Errorf("%v %s", res.Status, res.Message)
		}
		p.Set(proxy.Pass)
		if got := q.ours(); got != sink.No {
			t.Errorf("nothing arrived, and a look says %v", got)
		}
	})
}

func (s *sagas) sagaAsked(t *testing.T) {
	p := s.play(t, "create", "x", `{"touch":["document:asked#viewer@user:anne"],
		"preconditions":[{"must_match":{"resource_type":"document","resource_id":"asked-gate","relation":"editor"}}]}`)
	p.look()
	must(t, "what the payload asks is not met", p.write(), sink.Conflict, "PRECONDITION_FAILURE", "asked-gate")
	s.write(t, "TOUCH", "document:asked-gate#editor@user:anne")
	must(t, "it is met", p.write(), sink.OK)
	s.write(t, "DELETE", "document:asked-gate#editor@user:anne")
	must(t, "an undo does not ask", p.restore(), sink.OK)
	s.expect(t, "document:asked")
}

// sagaExpires is about relationships that are over before the undo.
func (s *sagas) sagaExpires(t *testing.T) {
	soon := "[expiration:" + time.Now().Add(1500*time.Millisecond).UTC().Format(time.RFC3339Nano) + "]"
	const old = "[expiration:2001-01-01T00:00:00Z]"
	add, change, back := "document:expires#viewer@user:add", "document:expires#viewer@user:change", "document:expires#viewer@user:back"
	s.touch(t, change, back+soon)
	p := s.play(t, "upsert", "x", `{"touch":["`+add+soon+`","`+change+soon+`","document:expires#viewer@user:late`+old+`"],"delete":["`+back+`"]}`)
	p.look()
	must(t, "the write", p.write(), sink.OK)
	s.becomes(t, "document:expires")
	must(t, "restore", p.restore(), sink.OK)
	s.expect(t, "document:expires", change)
	must(t, "restore again", p.restore(), sink.OK)

	// A row that is over is not there, although the database still has it.
	q := s.play(t, "create", "x", `{"touch":["`+add+`","`+back+`"]}`)
	q.look()
	must(t, "create where something was once", q.write(), sink.OK)
	s.expect(t, "document:expires", add, back, change)
	must(t, "restore", q.restore(), sink.OK)
	s.expect(t, "document:expires", change)
}

func (s *sagas) sagaLarge(t *testing.T) {
	list := func(n int, relation string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"document:big#%s@user:u%d"`, relation, i)
		}
		return b.String()[1:]
	}
	p := s.play(t, "create", "x", `{"relationships":[`+list(900, "viewer")+`]}`)
	p.look()
	must(t, "900 relationships", p.write(), sink.OK)
	q := s.play(t, "upsert", "x", `{"relationships":[`+list(800, "editor")+`]}`)
	q.look()
	must(t, "1700 changes", q.write(), sink.Rejected, "update_limit", "touch")
	d := s.play(t, "delete", "document:big", ``)
	d.look()
	must(t, "a deletion", d.write(), sink.OK)
	s.expect(t, "document:big")
	must(t, "its undo", d.restore(), sink.OK)
	if rows, _ := s.read(t, "document:big"); len(rows) != 900 {
		t.Errorf("%d rows are back", len(rows))
	}
	must(t, "the undo of the first", p.restore(), sink.OK)
	s.expect(t, "document:big")
	many := s.play(t, "create", "x", `{"touch":[`+list(1000, "viewer")+`]}`)
	many.look()
	must(t, "as many as there may be, and the mark", many.write(), sink.Rejected, "update_limit")
	s.expect(t, "document:big")
}
