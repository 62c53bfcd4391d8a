package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/test/e2e/proxy"
	"github.com/pawlsync/pawl/test/e2e/servers"
)

// sagaSchema is what the sink's documentation tells an operator to add.
const sagaSchema = `
definition workflow {}
definition lock { relation workflow: workflow; }`

func TestSpiceDBSagas(t *testing.T) {
	if testing.Short() {
		t.Skip("real servers are slow to build and to start")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	db, err := servers.StartSpiceDB(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Stop()
	s := &sagas{spice: &spice{zed{db}, shippedPlugin(t, "spicedb")}}
	s.on, s.off = connect(t, s.plugin, s.Address, s.Key, `{"sagas":true}`), connect(t, s.plugin, s.Address, s.Key, `{}`)
	s.post(t, "/v1/schema/write", map[string]any{"schema": schema})
	t.Run("WithoutTheDefinitions", s.sagaSchemaLacks)
	s.post(t, "/v1/schema/write", map[string]any{"schema": schema + sagaSchema})
	for name, test := range map[string]func(*sagas, *testing.T){
		"EachVerbInBothModes":       (*sagas).sagaVerbs,
		"AnotherRunsLock":           (*sagas).sagaLocks,
		"AnotherHandBeforeTheWrite": (*sagas).sagaMeddled,
		"AnotherHandBeforeTheUndo":  (*sagas).sagaMeddledLater,
		"AnAnswerThatIsLost":        (*sagas).sagaLost,
		"PreconditionsOfThePayload": (*sagas).sagaAsked,
		"WhatExpiresMeanwhile":      (*sagas).sagaExpires,
		"MoreThanOneWriteHolds":     (*sagas).sagaLarge,
		"UnlockIsOfOneRun":          (*sagas).sagaUnlock,
		"WhatADeletionIsAbout":      (*sagas).sagaKeys,
		"ASinkThatTakesNoPart":      (*sagas).sagaOff,
		"AThousandRaces":            (*sagas).sagaRaces,
	} {
		t.Run(name, func(t *testing.T) { test(s, t) })
	}
}

// sagas is what the tests share: sinks that take part, and not.
type sagas struct {
	*spice
	on, off *counted
}

// player plays the part of the engine in one run of a saga at one sink.
type player struct {
	t    *testing.T
	sink *counted
	run  sink.Run
	key  string
	verb string // create, upsert or delete
	want string // the payload
}

// play returns a player of a new run.
func (s *sagas) play(t *testing.T, verb, key, payload string, locks ...string) *player {
	return &player{t: t, sink: s.on, verb: verb, key: key, want: payload,
		run: sink.Run{ID: fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()), Locks: locks}}
}

// rival is a run of its own with the same plan.
func (p *player) rival() *player {
	q := *p
	q.run.ID, q.run.Before = fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()), nil
	return &q
}

func (p *player) call(what func(context.Context, *sink.Request) sink.Result) sink.Result {
	ctx, cancel := context.WithTimeout(p.t.Context(), 20*time.Second)
	defer cancel()
	run := p.run
	r := &sink.Request{Key: zedKey(p.key), Payload: []byte(p.want), Hash: record.HashOf([]byte(p.want)), Run: &run}
	if p.verb == "create" {
		r.Mode = sink.CreateOnly
	}
	return what(ctx, r)
}

// look takes the image of what is there, as the engine does.
func (p *player) look() sink.Result {
	p.run.Before = nil
	res := p.call(p.sink.Observe)
	switch {
	case res.Status == sink.NotFound:
		p.run.Before = &sink.Image{}
	case res.Status == sink.OK:
		o := res.Observation
		p.run.Before = &sink.Image{Exists: o.Exists, CID: o.CID, UID: o.UID, Content: o.Content}
	}
	return res
}

func (p *player) write() sink.Result {
	if p.verb == "delete" {
		return p.call(p.sink.Delete)
	}
	return p.call(p.sink.Apply)
}

func (p *player) restore() sink.Result { return p.call(p.sink.Restore) }
func (p *player) unlock() sink.Result  { return p.call(p.sink.Unlock) }

// ours asks whether the write is there.
func (p *player) ours() sink.Tri {
	p.t.Helper()
	res := p.call(p.sink.Observe)
	if res.Observation == nil {
		p.t.Fatalf("a look saw nothing: %v %s", res.Status, res.Message)
	}
	return res.Observation.Ours
}

func (p *player) mark() string {
	return fmt.Sprintf("lock:%s-%d#workflow@workflow:%s", p.run.ID, p.run.Step, p.run.ID)
}

func (p *player) lock(id string) string { return "lock:" + id + "#workflow@workflow:" + p.run.ID }

// must holds a call to its status.
func must(t *testing.T, what string, res sink.Result, want sink.Status, told ...string) {
	t.Helper()
	if res.Status != want {
		t.Fatalf("%s: %v %q, want %v", what, res.Status, res.Message, want)
	}
	for _, s := range told {
		if !strings.Contains(res.Message, s) {
			t.Errorf("%s tells %q, which does not say %q", what, res.Message, s)
		}
	}
}

// heldBy are the locks and marks of a run, sorted.
func (z *zed) heldBy(t *testing.T, run string) (rows []string) {
	t.Helper()
	all, _ := z.read(t, "lock")
	for _, r := range all {
		if strings.HasSuffix(r, "@workflow:"+run) {
			rows = append(rows, r)
		}
	}
	return rows
}

// lockOf is a lock as the engine names one.
func lockOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16])
}

// touch writes rows with caveats and expirations, as a third party.
func (s *sagas) touch(t *testing.T, rows ...string) {
	t.Helper()
	var list []string
	for _, r := range rows {
		list = append(list, fmt.Sprintf("%q", r))
	}
	payload := []byte(`{"touch":[` + strings.Join(list, ",") + `]}`)
	res := s.off.Apply(t.Context(), &sink.Request{Key: zedKey("third"), Payload: payload, Hash: record.HashOf(payload)})
	must(t, "a third party's write", res, sink.OK)
}

const caveated = `[office_hours:{"from":9,"zone":"utc"}][expiration:2040-01-02T03:04:05.000006Z]`

// sagaVerbs goes the whole way of a step, for each verb and form of a payload: what
// was there before comes back to the letter, twice over.
func (s *sagas) sagaVerbs(t *testing.T) {
	for i, c := range []struct {
		verb, key, payload    string
		before, after, others []string // rows of document:ID; others are nobody's business
	}{
		{"create", "any", `{"touch":["ID#viewer@user:anne","ID#editor@user:anne"]}`,
			nil, []string{"ID#editor@user:anne", "ID#viewer@user:anne"}, []string{"ID#viewer@user:other"}},
		{"create", "any", `{"relationships":["ID#viewer@user:anne","ID#editor@user:anne"]}`, nil, []string{"ID#editor@user:anne", "ID#viewer@user:anne"}, nil},
		{"create", "any", `{"relationships":["ID#viewer@user:anne"],"scope":{"resource":"ID","relations":["viewer"],"subject_types":["user","group"]}}`,
			nil, []string{"ID#viewer@user:anne"}, []string{"ID#editor@user:other"}},
		{"upsert", "any", `{"touch":["ID#viewer@user:anne","ID#viewer@user:new"],"delete":["ID#viewer@user:bob"]}`,
			[]string{"ID#viewer@user:anne" + caveated, "ID#viewer@user:bob" + caveated}, []string{"ID#viewer@user:anne", "ID#viewer@user:new"}, []string{"ID#editor@user:other"}},
		{"upsert", "any", `{"touch":["ID#viewer@user:anne"]}`, []string{"ID#viewer@user:anne"}, []string{"ID#viewer@user:anne"}, nil}, // was there: stays
		{"upsert", "any", `{"relationships":["ID#viewer@user:anne","ID#editor@user:new"]}`,
			[]string{"ID#viewer@group:eng#member", "ID#viewer@user:anne" + caveated, "ID#viewer@user:*"}, []string{"ID#editor@user:new", "ID#viewer@user:anne"}, nil},
		{"upsert", "any", `{"relationships":[],"scope":{"resource":"ID"}}`, []string{"ID#viewer@user:anne" + caveated}, nil, nil},
		{"delete", "ID", ``, []string{"ID#editor@user:bob", "ID#viewer@user:anne" + caveated}, nil, nil},
		{"delete", "ID#viewer", ``, []string{"ID#viewer@group:eng#member", "ID#viewer@user:anne" + caveated}, nil, []string{"ID#editor@user:other"}},
		{"delete", "ID#viewer@user:anne", ``, []string{"ID#viewer@user:anne" + caveated}, nil, []string{"ID#viewer@user:other"}},
		{"delete", "ID", ``, nil, nil, nil},
	} {
		for _, locks := range [][]string{nil, {lockOf("a"), lockOf("b")}} {
			t.Run(fmt.Sprintf("%d-%s-%d-locks", i, c.verb, len(locks)), func(t *testing.T) {
				id := fmt.Sprintf("document:verbs-%d-%d", i, len(locks))
				named := func(rows ...string) (out []string) {
					for _, r := range rows {
						out = append(out, strings.ReplaceAll(r, "ID", id))
					}
					return out
				}
				before, after := named(append(c.before, c.others...)...), named(append(c.after, c.others...)...)
				if len(before) > 0 {
					s.touch(t, before...)
				}
				s.expect(t, id, before...)
				p := s.play(t, c.verb, named(c.key)[0], named(c.payload)[0], locks...)
				p.run.Step = 3
				if res := p.look(); res.Observation.Ours != sink.No || res.Observation.Exists != (len(c.before) > 0) {
					t.Fatalf("before: %v %+v", res.Status, res.Observation)
				}
				must(t, "the write", p.write(), sink.OK)
				s.expect(t, id, after...)
				held := []string{p.mark()}
				for _, l := range locks {
					held = append(held, p.lock(l))
				}
				if got := s.heldBy(t, p.run.ID); len(got) != len(held) {
					t.Errorf("the run holds %q, want %q", got, held)
				}
				if got := p.ours(); got != sink.Yes {
					t.Errorf("after the write it is ours: %v", got)
				}
				if got := p.rival().ours(); got != sink.No {
					t.Errorf("a rival says that it is theirs: %v", got)
				}
				if res := p.write(); res.Status != sink.Conflict && res.Status != sink.AlreadyExists {
					t.Errorf("a second copy of the write: %v %s", res.Status, res.Message)
				}
				p.run.Held = locks != nil
				s.expect(t, id, after...)
				for _, time := range []string{"once", "twice"} {
					must(t, "restore "+time, p.restore(), sink.OK)
					s.expect(t, id, before...)
				}
				if got := p.ours(); got != sink.No {
					t.Errorf("after the undo it is ours: %v", got)
				}
				must(t, "unlock", p.unlock(), sink.OK)
				must(t, "unlock again", p.unlock(), sink.OK)
				if got := s.heldBy(t, p.run.ID); len(got) > 0 {
					t.Errorf("after unlock the run holds %q", got)
				}
				s.expect(t, id, before...)
			})
		}
	}
}

func (s *sagas) sagaLocks(t *testing.T) {
	a := s.play(t, "create", "x", `{"touch":["document:locks#viewer@user:anne"]}`, lockOf("l1"), lockOf("l2"))
	b := s.play(t, "create", "x", `{"touch":["document:locks#editor@user:bob"]}`, lockOf("l2"), lockOf("l3"))
	a.look()
	b.look()
	must(t, "the first", a.write(), sink.OK)
	res := b.write()
	must(t, "the second", res, sink.Conflict, "lock")
	for _, secret := range []string{a.run.ID, lockOf("l2"), "anne"} {
		if strings.Contains(res.Message, secret) {
			t.Errorf("%q tells %q", res.Message, secret)
		}
	}
	s.expect(t, "document:locks", "document:locks#viewer@user:anne")
	s.expect(t, "lock:"+lockOf("l3"))
	if b.ours() != sink.No {
		t.Error("a write that was refused counts as done")
	}

	// The next step goes through while the run has its locks, be it that it was said to
	// hold them or that it finds them its own.
	a.run.Step, a.want = 1, `{"touch":["document:locks#editor@user:carol"]}`
	a.look()
	must(t, "own locks count as free", a.write(), sink.OK)
	a.run.Step, a.want, a.run.Held = 2, `{"touch":["document:locks#editor@user:dave"]}`, true
	a.look()
	must(t, "locks are held", a.write(), sink.OK)
	s.write(t, "DELETE", a.lock(lockOf("l1")))
	a.run.Step, a.want = 3, `{"touch":["document:locks#editor@user:erin"]}`
	a.look()
	must(t, "a lock is lost", a.write(), sink.Conflict, "lost a lock")
	s.expect(t, "document:locks", "document:locks#viewer@user:anne", "document:locks#editor@user:carol", "document:locks#editor@user:dave")

	must(t, "unlock", a.unlock(), sink.OK)
	must(t, "the second, once it is free", b.write(), sink.OK)
	b.unlock()
}

func (s *sagas) sagaUnlock(t *testing.T) {
	a := s.play(t, "upsert", "x", `{"touch":["document:unlock#viewer@user:anne"]}`, lockOf("u1"))
	b := s.play(t, "upsert", "x", `{"touch":["document:unlock#editor@user:bob"]}`, lockOf("u2"))
	must(t, "unlock of what was never there", a.unlock(), sink.OK)
	for _, p := range []*player{a, b} {
		p.look()
		must(t, "write", p.write(), sink.OK)
	}
	must(t, "unlock", a.unlock(), sink.OK)
	if a, b := s.heldBy(t, a.run.ID), s.heldBy(t, b.run.ID); len(a) != 0 || len(b) != 2 {
		t.Errorf("left are %q of the first, and %q of the second", a, b)
	}
	s.expect(t, "document:unlock", "document:unlock#viewer@user:anne", "document:unlock#editor@user:bob")
}

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
			found, revision := s.read(t, "document:meddled")
			must(t, "the write", p.write(), c.want)
			if _, now := s.read(t, "document:meddled"); now != revision {
				t.Errorf("a write that was refused wrote: %q was there", found)
			}
			if held := s.heldBy(t, p.run.ID); len(held) > 0 || p.ours() != sink.No {
				t.Errorf("it left %q", held)
			}
		})
	}
}

// sagaMeddledLater is what a third party does between the write and its undo.
func (s *sagas) sagaMeddledLater(t *testing.T) {
	const anne, bob, carol = "document:later#viewer@user:anne", "document:later#viewer@user:bob", "document:later#editor@user:carol"
	payload := `{"touch":["` + anne + `"],"delete":["` + bob + `"]}` // adds anne, removes bob
	for name, c := range map[string]struct {
		touch, remove []string
		want          sink.Status
		after         []string
	}{
		"what it added is changed":       {[]string{anne + caveated}, nil, sink.Conflict, []string{anne + caveated}},
		"what it removed came otherwise": {[]string{bob + caveated}, nil, sink.Conflict, []string{anne, bob + caveated}},
		"what it removed came back":      {[]string{bob}, nil, sink.OK, []string{bob}},
		"what it added is gone":          {nil, []string{anne}, sink.OK, []string{bob}},
		"another row came":               {[]string{carol}, nil, sink.OK, []string{bob, carol}},
	} {
		t.Run(name, func(t *testing.T) {
			s.post(t, "/v1/relationships/delete", map[string]any{"relationshipFilter": map[string]any{"resourceType": "document", "optionalResourceId": "later"}})
			s.touch(t, bob)
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

func (s *sagas) sagaKeys(t *testing.T) {
	for _, key := range []string{"alice's documents", "document:keys#", "document:keys#viewer@", "document:", "document:keys#view er"} {
		p := s.play(t, "delete", key, ``)
		must(t, key, p.look(), sink.Rejected, "the key")
	}
}

// sagaOff is a sink without "sagas": it can do a last step that needs no mark.
func (s *sagas) sagaOff(t *testing.T) {
	if m := s.off.Manifest(); m.Marks || m.Locks || m.RestoresApply || m.RestoresDelete {
		t.Errorf("it claims what is not wanted: %+v", m)
	}
	if m := s.on.Manifest(); !m.Marks || !m.Locks || !m.RestoresApply || !m.RestoresDelete || m.BatchMax < 2 {
		t.Errorf("it claims less than it can: %+v", m)
	}
	s.write(t, "TOUCH", "document:off#viewer@user:anne")
	p := s.play(t, "delete", "document:off", ``)
	p.sink = s.off
	p.look()
	must(t, "a deletion", p.write(), sink.OK)
	s.expect(t, "document:off")
	if held := s.heldBy(t, p.run.ID); len(held) > 0 {
		t.Errorf("it marks: %q", held)
	}
}

// sagaSchemaLacks is the first saga at a SpiceDB whose schema nobody has prepared.
func (s *sagas) sagaSchemaLacks(t *testing.T) {
	p := s.play(t, "create", "x", `{"touch":["document:lacks#viewer@user:anne"]}`, lockOf("lacks"))
	lines := []string{"definition workflow {}", "definition lock { relation workflow: workflow; }"}
	must(t, "the first look", p.look(), sink.Rejected, lines...)
	p.run.Before = &sink.Image{}
	must(t, "a write", p.write(), sink.Rejected, lines...)
	if p.ours() != sink.No {
		t.Error("there can be no mark, and a look does not say so")
	}
	must(t, "restore", p.restore(), sink.OK)
	must(t, "unlock", p.unlock(), sink.OK)
	s.expect(t, "document:lacks")
}

// sagaRaces: two runs want the same object at the same time, over and over, with locks
// and without. Exactly one has it, and the other gains nothing.
func (s *sagas) sagaRaces(t *testing.T) {
	const rounds = 1000
	for i := range rounds {
		object := fmt.Sprintf("document:race%d", i)
		var locks []string
		if i%2 == 0 {
			locks = []string{lockOf(object)}
		}
		anne, bob := object+"#editor@user:anne", object+"#editor@user:bob"
		payload := func(row string) string { return `{"relationships":["` + row + `"]}` }
		if i%4 == 0 { // the locks alone keep these apart
			payload = func(row string) string { return `{"touch":["` + row + `"]}` }
		}
		a := s.play(t, "create", "x", payload(anne), locks...)
		b := s.play(t, "create", "x", payload(bob), locks...)
		var wg sync.WaitGroup
		results := [2]sink.Result{}
		for j, p := range []*player{a, b} {
			wg.Go(func() {
				p.look()
				results[j] = p.write()
			})
		}
		wg.Wait()
		won, lost, row := a, 1, anne
		if results[1].Status == sink.OK {
			won, lost, row = b, 0, bob
		}
		if results[1-lost].Status != sink.OK {
			t.Fatalf("round %d: nobody won: %+v", i, results)
		}
		if st := results[lost].Status; st != sink.Conflict && st != sink.AlreadyExists {
			t.Fatalf("round %d: the loser is told %v %s", i, st, results[lost].Message)
		}
		loser := []*player{a, b}[lost]
		if won.ours() != sink.Yes || loser.ours() != sink.No {
			t.Fatalf("round %d: the marks are wrong", i)
		}
		must(t, "an undo of what was not written", loser.restore(), sink.OK)
		s.expect(t, object, row)
		must(t, "unlock", won.unlock(), sink.OK)
		if t.Failed() {
			t.Fatalf("round %d", i)
		}
	}
}
