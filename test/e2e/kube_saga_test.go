package e2e

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/internal/kube"
)

// step is one step of a saga's run, and makes the calls that the saga would.
type step struct {
	t      *testing.T
	sink   *counted
	key    string
	mode   sink.Mode
	run    string
	place  int
	wrote  []byte
	before *sink.Image
}

// step begins a run that writes payload, or deletes where there is none.
func (s *counted) step(t *testing.T, key, payload string) *step {
	var run [16]byte
	_, _ = rand.Read(run[:])
	return &step{t: t, sink: s, key: key, run: hex.EncodeToString(run[:]), place: 1, wrote: []byte(payload)}
}

// creation is step for a create-only one, which has looked and found nothing.
func (s *counted) creation(t *testing.T, key, payload string) *step {
	t.Helper()
	st := s.step(t, key, payload)
	st.mode = sink.CreateOnly
	st.looks(sink.NotFound)
	return st
}

func (s *step) request() *sink.Request {
	return &sink.Request{Key: zedKey(s.key), Payload: s.wrote, Conflict: record.SourceWins, Mode: s.mode,
		Run: &sink.Run{ID: s.run, Step: s.place, Before: s.before}}
}

func (s *step) expect(what string, res sink.Result, want sink.Status) sink.Result {
	s.t.Helper()
	if res.Status != want {
		s.t.Fatalf("%s of %s: %s: %s; want %s", what, s.key, res.Status, res.Message, want)
	}
	return res
}

// looks takes the image.
func (s *step) looks(want sink.Status) sink.Result {
	s.t.Helper()
	res := s.expect("the look", s.sink.Observe(s.t.Context(), s.request()), want)
	switch {
	case res.Status == sink.NotFound:
		s.before = &sink.Image{}
	case res.Status == sink.OK:
		o := res.Observation
		s.before = &sink.Image{Exists: o.Exists, CID: o.CID, UID: o.UID, Content: o.Content}
	}
	return res
}

func (s *step) writes(want sink.Status) sink.Result {
	s.t.Helper()
	if len(s.wrote) == 0 {
		return s.expect("the deletion", s.sink.Delete(s.t.Context(), s.request()), want)
	}
	return s.expect("the write", s.sink.Apply(s.t.Context(), s.request()), want)
}

func (s *step) restores(want sink.Status) sink.Result {
	s.t.Helper()
	return s.expect("the undo", s.sink.Restore(s.t.Context(), s.request()), want)
}

// asks looks for the mark.
func (s *step) asks(status sink.Status, ours sink.Tri) {
	s.t.Helper()
	res := s.expect("the question", s.sink.Observe(s.t.Context(), s.request()), status)
	got := sink.Unknown
	if res.Observation != nil {
		got = res.Observation.Ours
	}
	if got != ours {
		s.t.Fatalf("%s bears the mark: %v, want %v", s.key, got, ours)
	}
}

func markOf(o object) any { return o.at("metadata", "annotations", "pawl.dev/saga") }

// sagaCreations: what is created bears the mark, by which alone it is ours.
func (c *cluster) sagaCreations(t *testing.T) {
	c.namespace(t, "saga-create")
	s := c.connect(t, "test", `{}`)
	const key, collection = "v1/ConfigMap/saga-create/c", "/api/v1/namespaces/saga-create/configmaps"
	path, manifest := configMapPath("saga-create", "c"), configMap("saga-create", "c", `{"a":"1"}`)

	mine := s.creation(t, key, manifest)
	mine.asks(sink.NotFound, sink.No)
	mine.writes(sink.OK)
	if m := markOf(c.get(t, path)); m != mine.run+"-1" {
		t.Errorf("the mark is %v", m)
	}
	mine.asks(sink.OK, sink.Yes)
	mine.writes(sink.AlreadyExists) // a proxy's second try, say
	mine.asks(sink.OK, sink.Yes)
	another := *mine
	another.place = 2
	another.asks(sink.OK, sink.No)
	another = *s.step(t, key, manifest)
	another.before = &sink.Image{}
	another.asks(sink.OK, sink.No)
	another.restores(sink.Conflict)
	mine.restores(sink.OK)
	if c.exists(t, path) {
		t.Fatal("it is still there")
	}
	mine.restores(sink.OK)

	// An equal object is somebody else's: S12.
	late := s.creation(t, key, manifest)
	version := c.create(t, collection, manifest).version()
	late.writes(sink.AlreadyExists)
	late.asks(sink.OK, sink.No)
	late.restores(sink.Conflict)
	upsert := *late
	upsert.mode = sink.Upsert // there was nothing when it looked
	upsert.writes(sink.Conflict)
	late.before = nil
	late.looks(sink.OK)
	late.writes(sink.AlreadyExists)
	if v := c.get(t, path).version(); v != version {
		t.Error("an object that was there was written")
	}
	c.remove(t, path)

	// The undo leaves what others made anew, and what they applied over ours.
	mine = s.creation(t, key, manifest)
	mine.writes(sink.OK)
	c.remove(t, path)
	version = c.create(t, collection, manifest).version()
	mine.restores(sink.Conflict)
	if v := c.get(t, path).version(); v != version {
		t.Error("somebody else's object was touched")
	}
	c.remove(t, path)
	mine = s.creation(t, key, manifest)
	mine.writes(sink.OK)
	// The next apply that is no saga's takes the mark away.
	req := &sink.Request{Key: zedKey(key), Payload: []byte(manifest), Conflict: record.SourceWins}
	mine.expect("an ordinary apply", s.Apply(t.Context(), req), sink.OK)
	if m := markOf(c.get(t, path)); m != nil {
		t.Errorf("the mark stays: %v", m)
	}
	mine.asks(sink.OK, sink.No)
	mine.restores(sink.Conflict)

	// Finalizers hold the undo, which says so until it is done.
	c.remove(t, path)
	mine = s.creation(t, key, manifest)
	mine.writes(sink.OK)
	c.edit(t, path, `{"metadata":{"finalizers":["example.com/hold"]}}`)
	for range 2 {
		if res := mine.restores(sink.InProgress); !strings.Contains(res.Message, "example.com/hold") {
			t.Errorf("it does not say what it waits for: %s", res.Message)
		}
		mine.asks(sink.OK, sink.Yes)
	}
	c.edit(t, path, `{"metadata":{"finalizers":null}}`)
	mine.restores(sink.OK)
	mine.asks(sink.NotFound, sink.No)
}

// sagaNamespaces: the undo of a namespace ends when the cluster has emptied it.
func (c *cluster) sagaNamespaces(t *testing.T) {
	s := c.connect(t, "test", `{}`)
	const name, path = "saga-namespace", "/api/v1/namespaces/saga-namespace"
	mine := s.creation(t, "v1/Namespace/"+name, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+name+`"}}`)
	mine.writes(sink.OK)
	inside := s.creation(t, "v1/ConfigMap/"+name+"/c", configMap(name, "c", `{}`))
	inside.writes(sink.OK)
	inside.restores(sink.OK)
	mine.restores(sink.InProgress)
	mine.asks(sink.OK, sink.Yes)
	inside.writes(sink.Retry) // nothing goes into it any more
	mine.restores(sink.InProgress)
	// No controller empties namespaces here; this is how one says that it did.
	c.must(t, http.MethodPut, path+"/finalize", "application/json", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+name+`"},"spec":{"finalizers":[]}}`)
	mine.restores(sink.OK)
	mine.asks(sink.NotFound, sink.No)
}

// wire stands between the adapter and the server, and is told what becomes of writes.
type wire struct {
	http.RoundTripper
	lose atomic.Bool // they arrive, and their answers are lost
	hold atomic.Bool // they arrive when land is called, and nobody waits for them

	mu   sync.Mutex
	held []func() error
}

var errLost = errors.New("connection reset")

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || !w.lose.Load() && !w.hold.Load() {
		return w.RoundTripper.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	late := r.Clone(context.WithoutCancel(r.Context()))
	late.Body = io.NopCloser(strings.NewReader(string(body)))
	send := func() error {
		res, err := w.RoundTripper.RoundTrip(late)
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
		return err
	}
	if w.lose.Load() {
		return nil, errors.Join(errLost, send())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = append(w.held, send)
	return nil, errLost
}

// land lets what is held arrive.
func (w *wire) land(t *testing.T) {
	t.Helper()
	w.hold.Store(false)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, send := range w.held {
		if err := send(); err != nil {
			t.Fatal(err)
		}
	}
	w.held = nil
}

// wired is connect over a wire.
func (c *cluster) wired(t *testing.T) (*counted, *wire) {
	t.Helper()
	k, err := kube.Open(kube.Options{Kubeconfig: c.Kubeconfig, Context: "test"})
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{RoundTripper: k}
	return c.connectOver(t, k.BaseURL(), w, `{}`), w
}

// sagaLost: whether a write landed whose answer was lost is told by the mark, and
// one that comes late meets what became of the object meanwhile.
func (c *cluster) sagaLost(t *testing.T) {
	c.namespace(t, "saga-lost")
	s, w := c.wired(t)
	const key = "v1/ConfigMap/saga-lost/l"
	path := configMapPath("saga-lost", "l")
	manifest := func(n string) string { return configMap("saga-lost", "l", `{"n":"`+n+`"}`) }
	losing := func(call func(sink.Status) sink.Result) {
		t.Helper()
		w.lose.Store(true)
		call(sink.Unreachable)
		w.lose.Store(false)
	}
	create := s.creation(t, key, manifest("1"))
	losing(create.writes)
	create.asks(sink.OK, sink.Yes)
	losing(create.restores)
	if c.exists(t, path) {
		t.Fatal("the undo did not land")
	}
	create.restores(sink.OK)

	// A creation that lands when it was already looked for in vain (S14).
	w.hold.Store(true)
	create.writes(sink.Unreachable)
	create.asks(sink.NotFound, sink.No)
	w.land(t)
	create.asks(sink.OK, sink.Yes)
	create.restores(sink.OK)
	if c.exists(t, path) {
		t.Fatal("what came late stays")
	}

	// An update, and its undo, whose answers are lost.
	c.create(t, "/api/v1/namespaces/saga-lost/configmaps", manifest("old"))
	update := s.step(t, key, manifest("new"))
	update.looks(sink.OK)
	losing(update.writes)
	update.asks(sink.OK, sink.Yes)
	update.writes(sink.Conflict)
	losing(update.restores)
	update.asks(sink.OK, sink.No)
	update.restores(sink.OK)
	// An update that comes late finds that the object is not what it depends on.
	w.hold.Store(true)
	again := s.step(t, key, manifest("new"))
	again.looks(sink.OK)
	again.writes(sink.Unreachable)
	again.asks(sink.OK, sink.No)
	c.edit(t, path, `{"data":{"theirs":"x"}}`)
	w.land(t)
	again.asks(sink.OK, sink.No)
	if o := c.get(t, path); o.at("data", "n") != "old" || o.at("data", "theirs") != "x" {
		t.Errorf("a late update landed: %v", o.at("data"))
	}

	// Nor does it create the object anew that is gone meanwhile.
	w.hold.Store(true)
	again.before = nil
	again.looks(sink.OK)
	again.writes(sink.Unreachable)
	c.remove(t, path)
	w.land(t)
	if again.asks(sink.NotFound, sink.No); c.exists(t, path) {
		t.Error("a late update created the object")
	}
	remove := s.step(t, key, "")
	remove.looks(sink.NotFound)
	remove.writes(sink.NotFound)
	c.create(t, "/api/v1/namespaces/saga-lost/configmaps", manifest("theirs"))
	remove.writes(sink.Conflict) // it was to find none
	remove.before = nil
	remove.looks(sink.OK)
	losing(remove.writes)
	remove.asks(sink.NotFound, sink.Unknown)
}

// sagaRivals: of two who create the same object one wins, and only that one is told so: S13.
func (c *cluster) sagaRivals(t *testing.T) {
	c.namespace(t, "saga-rivals")
	rivals := []*counted{c.connect(t, "test", `{}`), c.connect(t, "test", `{}`)}
	wins := [2]int{}
	for i := range 300 {
		name := fmt.Sprintf("c%d", i)
		var steps [2]*step
		for i := range steps {
			steps[i] = rivals[i].creation(t, "v1/ConfigMap/saga-rivals/"+name, configMap("saga-rivals", name, `{"a":"1"}`))
		}
		begin, statuses := make(chan struct{}), [2]sink.Status{}
		var wg sync.WaitGroup
		for i, st := range steps {
			wg.Go(func() {
				<-begin
				statuses[i] = st.sink.Apply(t.Context(), st.request()).Status
			})
		}
		close(begin)
		wg.Wait()
		winner := slices.Index(statuses[:], sink.OK)
		if winner < 0 || statuses[1-winner] != sink.AlreadyExists {
			t.Fatalf("%s: %v", name, statuses)
		}
		wins[winner]++
		steps[winner].asks(sink.OK, sink.Yes)
		steps[1-winner].asks(sink.OK, sink.No)
		steps[1-winner].restores(sink.Conflict)
		steps[winner].restores(sink.OK)
	}
	t.Logf("won: %v", wins)
}
