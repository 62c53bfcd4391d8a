package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
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
	// SPICEDB_FLAGS may name another datastore, as --datastore-engine=postgres --datastore-conn-uri=…
	db, err := servers.StartSpiceDB(ctx, t.TempDir(), strings.Fields(os.Getenv("SPICEDB_FLAGS"))...)
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
		"AnotherHandAtTheSameTime":  (*sagas).sagaWindow,
		"AnAnswerThatIsLost":        (*sagas).sagaLost,
		"PreconditionsOfThePayload": (*sagas).sagaAsked,
		"WhatExpiresMeanwhile":      (*sagas).sagaExpires,
		"MoreThanOneWriteHolds":     (*sagas).sagaLarge,
		"UnlockIsOfOneRun":          (*sagas).sagaUnlock,
		"WhatADeletionIsAbout":      (*sagas).sagaKeys,
		"ASinkThatTakesNoPart":      (*sagas).sagaOff,
		"ThroughTheEngine":          (*sagas).sagaRun,
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
