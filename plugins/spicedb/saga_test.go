package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	pawl "github.com/pawlsync/pawl/sdk/go"
	"github.com/pawlsync/pawl/sdk/go/pawltest"
)

// rowsOf reads relationships as a payload has them.
func rowsOf(t *testing.T, list ...string) rows {
	t.Helper()
	out := rows{}
	for _, text := range list {
		r, err := parseRelationship(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		out[r.key] = &r
	}
	return out
}

func TestAnImageIsReadAgain(t *testing.T) {
	many := rows{}
	for i := range 5000 {
		maps.Copy(many, rowsOf(t, fmt.Sprintf(`document:one-with-a-long-name#viewer@user:someone-%d[pinned:{"n":%d}]`, i, i)))
	}
	for name, image := range map[string]rows{
		"none": {},
		"all traits": rowsOf(t, "document:a#viewer@user:b", "document:a#viewer@user:*", "document:a#viewer@group:b#member", "tenant/document:a|b=c+d/e_f-g#viewer@user:b",
			"document:a#editor@user:c[pinned]", `document:a#editor@user:d[pinned:{}]`, `document:a#editor@user:e[pinned:{"x":[1,null,{"y":"]"}],"a":true}]`,
			"document:a#editor@user:f[expiration:1969-12-31T23:59:59.999999Z]", `document:a#editor@user:g[pinned:{"x":1}][expiration:2040-01-02T03:04:05.000006Z]`),
		"many": many,
	} {
		t.Run(name, func(t *testing.T) {
			b := encodeImage(image)
			again, ok := decodeImage(b)
			if !ok || !sameImage(image, again) || cidOf(image) != cidOf(again) || !bytes.Equal(b, encodeImage(again)) {
				t.Errorf("%d bytes of %d rows are read as %d rows, %v", len(b), len(image), len(again), ok)
			}
			for key, r := range image {
				if got := again[key]; got == nil || got.ExpiresNanos != r.ExpiresNanos || keyOf(&got.Row) != key {
					t.Errorf("%s is read as %+v", key, got)
				}
			}
			for n := range min(len(b), 300) {
				if _, ok := decodeImage(b[:n]); ok && n > 0 {
					t.Errorf("%d of %d bytes are read", n, len(b))
				}
			}
			if _, ok := decodeImage(append(slices.Clone(b), 0)); ok {
				t.Error("a byte too many is read")
			}
		})
	}
	if b := encodeImage(many); len(b) > 40*len(many) {
		t.Errorf("%d bytes for %d rows", len(b), len(many))
	}
}

func TestAnImagesIDChangesWithItsContent(t *testing.T) {
	seen := map[string]string{}
	for _, list := range []string{
		"", "document:a#viewer@user:b", "document:a#viewer@user:c", "document:a#viewer@user:b document:a#viewer@user:c",
		"document:a#viewer@user:b[pinned]", `document:a#viewer@user:b[pinned:{"n":1}]`, `document:a#viewer@user:b[pinned:{"n":2}]`,
		"document:a#viewer@user:b[expiration:2040-01-02T03:04:05.000006Z]", "document:a#viewer@user:b[expiration:2040-01-02T03:04:05.000007Z]",
	} {
		cid := cidOf(rowsOf(t, strings.Fields(list)...))
		if before, ok := seen[cid]; ok {
			t.Errorf("%q has the id of %q", list, before)
		}
		seen[cid] = list
	}
}

func TestAnImageThatIsTooLargeIsRefused(t *testing.T) {
	image := rows{}
	for i := range 300 {
		maps.Copy(image, rowsOf(t, fmt.Sprintf(`document:a#viewer@user:u%d[pinned:{"n":%q}]`, i, strings.Repeat("x", 4096))))
	}
	if _, err := contentOf(image); err == nil || !strings.Contains(err.Error(), "300 relationships") || !strings.Contains(err.Error(), "scope") {
		t.Errorf("%v", err)
	}
}

func TestADeletionIsAboutWhatItsKeySays(t *testing.T) {
	for key, want := range map[string]*state{
		"document:a":                       {scope: &scope{resourceType: "document", resourceID: "a"}},
		"t1x/document:a#viewer":            {scope: &scope{resourceType: "t1x/document", resourceID: "a", relations: []string{"viewer"}}},
		"document:a#viewer@user:*":         {owned: []string{"document:a#viewer@user:*"}},
		"document:a#viewer@user:b#...":     {owned: []string{"document:a#viewer@user:b"}},
		"document:a#viewer@group:b#member": {owned: []string{"document:a#viewer@group:b#member"}},
		"document":                         nil, "document:": nil, "document:a#": nil, "document:a#viewer@": nil, "document:a#viewer@user": nil, "document:a b": nil, "Document:a": nil, "": nil,
	} {
		got, err := stateOfKey(key)
		switch {
		case want == nil && err == nil:
			t.Errorf("%q is read as %+v", key, got)
		case want == nil:
		case err != nil || !slices.Equal(got.owned, want.owned) || (got.scope == nil) != (want.scope == nil) || got.scope != nil && !got.scope.equal(want.scope):
			t.Errorf("%q is read as %+v, %v", key, got, err)
		}
	}
}

func TestADeletionGoesByTheAckWhereThereIsOne(t *testing.T) {
	state, err := (&state{owned: []string{"document:list#viewer@user:b"}}).encode()
	if err != nil {
		t.Fatal(err)
	}
	cfg := &config{}
	q, err := cfg.readRequest(&pawl.Request{Key: "document:object", Acked: &pawl.Acked{AdapterState: state}, Saga: &pawl.SagaRun{}})
	if err != nil || len(q.scopes()) > 0 || len(q.keys()) != 1 || q.keys()[0].ResourceID != "list" {
		t.Errorf("it is about %+v %+v, %v", q.scopes(), q.keys(), err)
	}
}

func sagaCreate(row string) *pawl.Request {
	return &pawl.Request{Key: "k", Payload: []byte(`{"touch":["` + row + `"]}`), Mode: pawl.CreateOnly,
		Saga: &pawl.SagaRun{ID: strings.Repeat("a", 32), Before: &pawl.Image{}}}
}

// A request that outlives the call could land when its locks are another's.
func TestAWriteEndsWithItsCall(t *testing.T) {
	var timeouts []int
	s := sinkOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ms, err := strconv.Atoi(strings.TrimSuffix(r.Header.Get("Grpc-Timeout"), "m"))
		if err != nil {
			t.Errorf("a write without an end: %v", err)
		}
		timeouts = append(timeouts, ms)
		answering("10", "conflict").ServeHTTP(w, r)
	}), `{"sagas":true}`)
	r := sagaCreate("document:a#viewer@user:b")
	r.TimeoutMillis = 60_000 // as it was long ago
	s.Apply(r)
	if len(timeouts) != maxRepeats+1 || slices.Max(timeouts) > 30_000 || !slices.IsSortedFunc(timeouts, func(a, b int) int { return b - a }) {
		t.Errorf("the writes may take %v ms; the call has 30 s", timeouts)
	}
	late := pawltest.New(t, &adapter{}, pawltest.Options{Config: `{"sagas":true}`, Upstream: answering("0", ""), CallTimeout: time.Nanosecond})
	if got := late.Apply(sagaCreate("document:a#viewer@user:b")); got.Status != pawl.StatusUnreachable || len(late.Sent()) > 0 {
		t.Errorf("a write whose time was up: %v %q, %d requests", got.Status, got.Message, len(late.Sent()))
	}
}

// clocked is a call whose time counts from the first question for its deadline.
type clocked struct {
	context.Context
	t     *testing.T
	asked bool
}

func (c *clocked) Deadline() (time.Time, bool) {
	c.asked = true
	return c.Context.Deadline()
}

func (c *clocked) Value(key any) any {
	if !c.asked {
		c.t.Error("the host is called before the clock is started")
		c.asked = true
	}
	return c.Context.Value(key)
}

// onTheClock is the adapter with every call's context clocked.
type onTheClock struct {
	*adapter
	t *testing.T
}

func (a onTheClock) Apply(ctx context.Context, r *pawl.Request) (pawl.Observation, error) {
	return a.adapter.Apply(&clocked{Context: ctx, t: a.t}, r)
}

func (a onTheClock) Restore(ctx context.Context, r *pawl.Request) (pawl.Observation, error) {
	return a.adapter.Restore(&clocked{Context: ctx, t: a.t}, r)
}

func (a onTheClock) Unlock(ctx context.Context, r *pawl.Request) error {
	return a.adapter.Unlock(&clocked{Context: ctx, t: a.t}, r)
}

func TestTheTimeOfALookCountsToo(t *testing.T) {
	s := pawltest.New(t, onTheClock{&adapter{}, t}, pawltest.Options{Config: `{"sagas":true}`, Upstream: answering("0", "")})
	r := sagaCreate("document:a#viewer@user:b")
	r.Mode, r.Saga.Before = pawl.Upsert, &pawl.Image{Exists: true, Content: encodeImage(rowsOf(t, "document:a#viewer@user:b"))}
	if got := s.Apply(r); got.Status != pawl.StatusConflict || len(s.Sent()) != 1 {
		t.Errorf("what the image has is gone: %v %q", got.Status, got.Message)
	}
	s.Restore(r)
	s.Unlock(r)
}

func TestWhatCameOfAStep(t *testing.T) {
	for _, c := range []struct {
		code, reason string
		want         pawl.Status
	}{
		{"6", "ATTEMPT_TO_RECREATE_RELATIONSHIP", pawl.StatusConflict}, // the mark is there: a second copy of the request
		{"9", "WRITE_OR_DELETE_PRECONDITION_FAILURE", pawl.StatusAlreadyExists},
		{"10", "SERIALIZATION_FAILURE", pawl.StatusRetry}, {"4", "", pawl.StatusRetry}, {"13", "", pawl.StatusRetry}, {"14", "", pawl.StatusRetry},
		{"7", "", pawl.StatusUnauthorized}, {"9", "UNKNOWN_DEFINITION", pawl.StatusRejected}, {"3", "INVALID_SUBJECT_TYPE", pawl.StatusRejected},
	} {
		s := sinkOf(t, answering(c.code, "no", "Grpc-Status-Details-Bin", details(c.reason)), `{"sagas":true}`)
		if got := s.Apply(sagaCreate("document:a#viewer@user:b")); got.Status != c.want {
			t.Errorf("code %s, %s: %v %q, want %v", c.code, c.reason, got.Status, got.Message, c.want)
		}
	}
}

func TestAnImageThatIsNoneIsRefused(t *testing.T) {
	s := sinkOf(t, answering("0", ""), `{"sagas":true}`)
	for _, before := range []*pawl.Image{nil, {Exists: true}, {Exists: true, Content: []byte{9, 9}}} {
		r := sagaCreate("document:a#viewer@user:b")
		r.Saga.Before = before
		if got := s.Apply(r); got.Status != pawl.StatusRejected || len(s.Sent()) > 0 {
			t.Errorf("%+v: %v %q", before, got.Status, got.Message)
		}
	}
}

func TestNamesOfTheDefinitionsAreChecked(t *testing.T) {
	for _, config := range []string{`{"saga_lock_type":"Lock"}`, `{"saga_workflow_type":"a"}`, `{"precondition_limit":0}`, `{"sagas":"yes"}`} {
		if _, err := pawltest.TryNew(t, &adapter{}, pawltest.Options{Config: config, Upstream: answering("0", "")}); err == nil {
			t.Errorf("%s is taken", config)
		}
	}
}
