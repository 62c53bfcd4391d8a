package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/memory"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/source"
)

// told is a source that tells the sets that its test sends.
type told struct {
	sets    chan []string
	through chan error
	rescans chan struct{}
	kept    []source.Kept // of each set
}

func (s *told) Run(ctx context.Context, in source.Inlet) error {
	for {
		select {
		case set := <-s.sets:
			s.through <- in.Full(ctx, func(yield func(source.Item, error) bool) {
				for _, name := range set {
					it := source.Item{Key: record.Key{Sink: "cluster", Name: name}, Payload: []byte(`1`), Place: name + ".yaml:1"}
					if !yield(it, nil) {
						return
					}
				}
			}, func() []source.Kept { return s.kept })
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *told) Rescan() { s.rescans <- struct{}{} }

func (s *told) tell(t *testing.T, names ...string) {
	t.Helper()
	s.sets <- names
	if err := <-s.through; err != nil {
		t.Fatal(err)
	}
}

// startSources serves a manager with the source files, on a real engine.
func startSources(t *testing.T) (*told, *engine.Engine, *httptest.Server) {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{
		Store: func(obs outbox.Observer) (outbox.Store, error) {
			return memory.Open(memory.NewDisk(), memory.Options{Observer: obs})
		},
		Sinks: []engine.SinkOptions{{Name: "cluster", Sink: newTarget(), DriftInterval: -1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Put(t.Context(), engine.Put{Key: record.Key{Sink: "cluster", Name: "old"}, Payload: []byte(`1`), Owner: "team/gone"}); err != nil {
		t.Fatal(err)
	}
	s := &told{sets: make(chan []string), through: make(chan error), rescans: make(chan struct{}, 1)}
	m := source.New(source.Options{Engine: e, Sources: []source.Spec{
		{Name: "files", Kind: "dir", Source: s, Fuse: source.FuseOptions{Window: 1 << 40, Share: 0.2, AtLeast: 1}},
	}})
	m.Start()
	t.Cleanup(func() {
		m.Close()
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	_, _, hs := start(t, Options{Engine: e, Sources: m})
	return s, e, hs
}

func read[T any](t *testing.T, hs *httptest.Server, method, path, body string, status int) T {
	t.Helper()
	response, text := ask(t, method, hs.URL+path, body)
	if response.StatusCode != status {
		t.Fatalf("%s %s: %s, want %d: %s", method, path, response.Status, status, text)
	}
	var v T
	if len(text) > 0 {
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
	}
	return v
}

func TestSourcesAreListedWithThoseThatLeftTheConfiguration(t *testing.T) {
	s, _, hs := startSources(t)
	s.kept = []source.Kept{{Place: "bad.yaml:3", Err: errors.New("line 3: a tab")}}
	s.tell(t, "a", "b")
	list := read[api.SourceList](t, hs, "GET", "/v1/sources", "", 200)
	if len(list.Items) != 2 {
		t.Fatalf("%+v", list)
	}
	files, gone := list.Items[0], list.Items[1]
	if files.Name != "files" || files.State != api.SourceRunning || files.Resources != 2 || files.FullItems != 2 || files.FullAt.IsZero() || files.Kept != 1 || files.Fuse.AtLeast != 1 {
		t.Errorf("%+v", files)
	}
	if gone.Name != "team/gone" || gone.State != api.SourceNotConfigured || gone.Resources != 1 || gone.Fuse != nil {
		t.Errorf("%+v", gone)
	}
	one := read[api.Source](t, hs, "GET", "/v1/sources/files", "", 200)
	if len(one.Problems) != 1 || one.Problems[0] != (api.SourceProblem{Place: "bad.yaml:3", Message: "line 3: a tab"}) {
		t.Errorf("the problems are %+v", one.Problems)
	}
	if one := read[api.Source](t, hs, "GET", "/v1/sources/team%2Fgone", "", 200); one.Resources != 1 {
		t.Errorf("%+v", one)
	}
	p := read[api.Problem](t, hs, "GET", "/v1/sources/fils", "", 404)
	if p.Code != api.CodeUnknownSource || !strings.Contains(p.Hint, "files") {
		t.Errorf("%+v", p)
	}
	status := read[api.DaemonStatus](t, hs, "GET", "/v1/status", "", 200)
	if len(status.Sources) != 1 || !strings.Contains(strings.Join(status.Headlines, "\n"), "Source files: 1 thing can't be read") {
		t.Errorf("%+v", status)
	}
}

func TestARescanIsAskedFor(t *testing.T) {
	s, _, hs := startSources(t)
	s.tell(t) // it runs
	read[struct{}](t, hs, "POST", "/v1/sources/files/rescan", "", 204)
	<-s.rescans
	if p := read[api.Problem](t, hs, "POST", "/v1/sources/nosuch/rescan", "", 404); p.Code != api.CodeUnknownSource {
		t.Errorf("%+v", p)
	}
}

func TestHeldDeletionsAreConfirmedAsTheyWereShown(t *testing.T) {
	target := "/v1/sources/files"
	s, e, hs := startSources(t)
	s.tell(t, "a", "b", "c")
	if p := read[api.Problem](t, hs, "POST", target+"/confirm", `{"digest":""}`, 409); p.Code != api.CodeNothingToDo {
		t.Errorf("with nothing held: %+v", p)
	}
	s.tell(t)
	first := read[api.SourceHeld](t, hs, "GET", target+"/held?limit=2", "", 200)
	if first.Total != 3 || len(first.Items) != 2 || first.Items[0] != (api.SourceHeldItem{Sink: "cluster", Key: "a", Place: "a.yaml:1"}) || first.BySink["cluster"] != 3 || first.Why == "" {
		t.Fatalf("%+v", first)
	}
	second := read[api.SourceHeld](t, hs, "GET", target+"/held?limit=2&page="+first.Next, "", 200)
	if len(second.Items) != 1 || second.Items[0].Key != "c" || second.Next != "" {
		t.Errorf("%+v", second)
	}
	if p := read[api.Problem](t, hs, "GET", target+"/held?page=x", "", 422); p.Code != api.CodeInvalid {
		t.Errorf("%+v", p)
	}
	status := read[api.DaemonStatus](t, hs, "GET", "/v1/status", "", 200)
	if !strings.Contains(strings.Join(status.Headlines, "\n"), "pawl source confirm files") {
		t.Errorf("the headlines are %q", status.Headlines)
	}
	if p := read[api.Problem](t, hs, "POST", target+"/confirm", `{"digest":"00"}`, 409); p.Code != api.CodeHeldChanged {
		t.Errorf("of another list: %+v", p)
	}
	if p := read[api.Problem](t, hs, "POST", target+"/confirm", `{"diggest":"00"}`, 400); p.Code != api.CodeBadRequest {
		t.Errorf("of a body that is none: %+v", p)
	}
	done := read[api.SourceConfirmed](t, hs, "POST", target+"/confirm", `{"digest":"`+first.Digest+`"}`, 200)
	if done.Deleted != 3 {
		t.Errorf("%+v", done)
	}
	if r, err := e.Get(t.Context(), record.Key{Sink: "cluster", Name: "a"}); err == nil && !r.Desired.Tombstone {
		t.Errorf("it is there still: %+v", r)
	}
}

func TestResourcesAreHandedOver(t *testing.T) {
	s, e, hs := startSources(t)
	s.tell(t, "a")
	for _, body := range []string{`{}`, `{"to":"files","nobody":true}`} {
		if p := read[api.Problem](t, hs, "POST", "/v1/sources/team%2Fgone/handover", body, 422); p.Code != api.CodeInvalid {
			t.Errorf("%s: %+v", body, p)
		}
	}
	if p := read[api.Problem](t, hs, "POST", "/v1/sources/files/handover", `{"to":"nosuch"}`, 404); !strings.Contains(p.Detail, "nosuch") {
		t.Errorf("%+v", p)
	}
	if p := read[api.Problem](t, hs, "POST", "/v1/sources/files/handover", `{"to":"files"}`, 422); p.Code != api.CodeInvalid || !strings.Contains(p.Detail, "itself") {
		t.Errorf("%+v", p)
	}
	if p := read[api.Problem](t, hs, "POST", "/v1/sources/team%2Fgone/rescan", "", 404); !strings.Contains(p.Detail, "not in the configuration") {
		t.Errorf("%+v", p)
	}
	if p := read[api.Problem](t, hs, "POST", "/v1/sources/nosuch/handover", `{"to":"files"}`, 404); !strings.Contains(p.Detail, "nosuch") {
		t.Errorf("%+v", p)
	}
	if n := read[api.SourceHandedOver](t, hs, "POST", "/v1/sources/team%2Fgone/handover", `{"to":"files","sink":"cluster","prefix":"o"}`, 200); n.Resources != 1 {
		t.Errorf("%+v", n)
	}
	r, err := e.Get(t.Context(), record.Key{Sink: "cluster", Name: "old"})
	if err != nil || r.Desired.Owner != "files" {
		t.Errorf("%+v, %v", r, err)
	}
	if n := read[api.SourceHandedOver](t, hs, "POST", "/v1/sources/files/handover", `{"nobody":true}`, 200); n.Resources != 2 {
		t.Errorf("%+v", n)
	}
}

func TestWithoutSourcesThereAreNone(t *testing.T) {
	_, _, hs := start(t, Options{})
	if list := read[api.SourceList](t, hs, "GET", "/v1/sources", "", 200); list.Items == nil || len(list.Items) != 0 {
		t.Errorf("%+v", list)
	}
	for _, route := range []string{"GET /v1/sources/x", "POST /v1/sources/x/rescan", "GET /v1/sources/x/held"} {
		method, path, _ := strings.Cut(route, " ")
		if p := read[api.Problem](t, hs, method, path, "", 404); p.Code != api.CodeUnknownSource || !strings.Contains(p.Hint, "none") {
			t.Errorf("%s: %+v", route, p)
		}
	}
}

func TestAPawlSourceNamesItsSenders(t *testing.T) {
	e, err := engine.Open(t.Context(), engine.Options{Store: func(obs outbox.Observer) (outbox.Store, error) {
		return memory.Open(memory.NewDisk(), memory.Options{Observer: obs})
	}})
	if err != nil {
		t.Fatal(err)
	}
	m := source.New(source.Options{Engine: e, Sources: []source.Spec{{Name: "edges", Kind: "pawl", Senders: []string{"edge-*"}}}})
	m.Start()
	t.Cleanup(func() {
		m.Close()
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	_, _, hs := start(t, Options{Engine: e, Sources: m})
	if p := read[api.Problem](t, hs, "GET", "/v1/sources/edges/held", "", 404); p.Hint != "none has sent yet" {
		t.Errorf("%+v", p)
	}
	if _, err := m.Sender(t.Context(), "edge-1"); err != nil {
		t.Fatal(err)
	}
	if p := read[api.Problem](t, hs, "GET", "/v1/sources/edges/held", "", 404); !strings.Contains(p.Detail, "edges declares senders edge-*") || p.Hint != "name one of them: edge-1" {
		t.Errorf("%+v", p)
	}
	if s := read[api.Source](t, hs, "GET", "/v1/sources/edges", "", 200); s.State != api.SourceDeclares || s.Fuse != nil {
		t.Errorf("%+v", s)
	}
}
