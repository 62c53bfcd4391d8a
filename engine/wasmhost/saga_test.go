package wasmhost_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/engine/wasmhost/abi"

	asm "github.com/pawlsync/pawl/internal/wasmasm"
)

// participant opens plugins/testguest/saga on a store of its own.
func participant(t *testing.T, config string) (*wasmhost.Sink, *markedStore) {
	t.Helper()
	store := &markedStore{objects: map[string]markedObject{}, locks: map[string]string{}}
	s := open(t, load(t, newHost(t, nil), "saga", goGuest(t, "saga")), wasmhost.SinkConfig{
		Config: []byte(config), Upstreams: []wasmhost.Upstream{&fakeUpstream{name: "target", do: store.do}},
	})
	return s, store
}

// step is a request of a saga's step.
func step(key, payload string, run sink.Run) *sink.Request {
	r := request(key, payload)
	r.Run = &run
	return r
}

// image is what the engine keeps of an observation.
func image(t *testing.T, r sink.Result) *sink.Image {
	t.Helper()
	o := r.Observation
	if o == nil || r.Status != sink.OK && r.Status != sink.NotFound {
		t.Fatalf("%+v", r)
	}
	return &sink.Image{Exists: o.Exists, CID: o.CID, UID: o.UID, Content: o.Content}
}

const runA, runB = "00112233445566778899aabbccddeeff", "ffeeddccbbaa99887766554433221100"

func TestAWriteOfASagaIsMarkedAndToldByItsMark(t *testing.T) {
	s, store := participant(t, "{}")
	look := s.Observe(t.Context(), step("a", "new", sink.Run{ID: runA, Step: 3}))
	if look.Status != sink.NotFound || look.Observation == nil || look.Observation.Ours != sink.No {
		t.Fatalf("%+v", look)
	}
	run := sink.Run{ID: runA, Step: 3, Before: image(t, look)}
	create := step("a", "new", run)
	create.Mode = sink.CreateOnly
	if r := s.Apply(t.Context(), create); r.Status != sink.OK || r.Observation.Ours != sink.Yes {
		t.Fatalf("%+v", r)
	}
	if o := store.object("a"); o.content != "new" || o.mark != runA+"/3" {
		t.Errorf("%+v", o)
	}
	for name, c := range map[string]struct {
		run  sink.Run
		ours sink.Tri
	}{
		"the run's": {run, sink.Yes}, "another step's": {sink.Run{ID: runA, Step: 4}, sink.No}, "another run's": {sink.Run{ID: runB, Step: 3}, sink.No},
	} {
		if r := s.Observe(t.Context(), step("a", "new", c.run)); r.Status != sink.OK || r.Observation.Ours != c.ours {
			t.Errorf("%s: %+v, %+v", name, r, r.Observation)
		}
	}
	if r := s.Observe(t.Context(), step("gone", "", run)); r.Status != sink.NotFound || r.Observation != nil && r.Observation.Ours != sink.Unknown {
		t.Errorf("whose deletion it was: %+v, %+v", r, r.Observation)
	}
	// The same content proves nothing: to another run the object is there already.
	create = step("a", "new", sink.Run{ID: runB})
	create.Mode = sink.CreateOnly
	if r := s.Apply(t.Context(), create); r.Status != sink.AlreadyExists {
		t.Errorf("%+v", r)
	}
	// Nor does an object pass that is as it was, but another one.
	other := *run.Before
	other.Exists, other.CID, other.UID = true, store.object("a").etag, "u-0"
	if r := s.Apply(t.Context(), step("a", "new", sink.Run{ID: runB, Before: &other})); r.Status != sink.Conflict {
		t.Errorf("%+v", r)
	}
}

func TestLocksAreTakenWithTheWriteAndGivenUpByUnlock(t *testing.T) {
	s, store := participant(t, "{}")
	locks := []string{"0a", "0b"}
	if r := s.Apply(t.Context(), step("a", "new", sink.Run{ID: runA, Locks: locks, Before: &sink.Image{}})); r.Status != sink.OK {
		t.Fatalf("%+v", r)
	}
	rival := step("b", "new", sink.Run{ID: runB, Locks: []string{"0b", "0c"}, Before: &sink.Image{}})
	if r := s.Apply(t.Context(), rival); r.Status != sink.Conflict || store.object("b").content != "" || len(store.locks) != 2 {
		t.Fatalf("%+v, %+v", r, store.locks)
	}
	second := step("c", "new", sink.Run{ID: runA, Step: 1, Locks: locks, Held: true, Before: &sink.Image{}})
	if r := s.Apply(t.Context(), second); r.Status != sink.OK {
		t.Errorf("%+v", r)
	}
	if r := s.Unlock(t.Context(), step("a", "", sink.Run{ID: runA, Locks: locks})); r.Status != sink.OK || len(store.locks) != 0 {
		t.Fatalf("%+v, %+v", r, store.locks)
	}
	if o := store.object("a"); o.content != "new" {
		t.Errorf("unlocking took the object: %+v", o)
	}
	// What was held is not any more: nothing is taken anew.
	third := step("d", "new", sink.Run{ID: runA, Step: 2, Locks: locks, Held: true, Before: &sink.Image{}})
	if r := s.Apply(t.Context(), third); r.Status != sink.Conflict || store.object("d").content != "" {
		t.Errorf("%+v", r)
	}
	if r := s.Apply(t.Context(), rival); r.Status != sink.OK || store.locks["0c"] != runB {
		t.Errorf("%+v, %+v", r, store.locks)
	}
}

func TestRestoreBringsBackWhatWasThere(t *testing.T) {
	const was = "was\x00there"
	for _, c := range []struct {
		name          string
		there, delete bool
		meanwhile     string // content that somebody else writes after the step
		after         string // content after the restore, "": none
		status        sink.Status
	}{
		{name: "a creation", status: sink.OK},
		{name: "an update", there: true, after: was, status: sink.OK},
		{name: "a deletion", there: true, delete: true, after: was, status: sink.OK},
		{name: "a creation that was changed since", meanwhile: "other", after: "other", status: sink.Conflict},
		{name: "an update that was changed since", there: true, meanwhile: "other", after: "other", status: sink.Conflict},
		{name: "a deletion that was changed since", there: true, delete: true, meanwhile: "other", after: "other", status: sink.Conflict},
		{name: "what somebody else brought back", there: true, delete: true, meanwhile: was, after: was, status: sink.OK},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, store := participant(t, "{}")
			if c.there {
				store.overwrite("a", was)
			}
			run := sink.Run{ID: runA}
			run.Before = image(t, s.Observe(t.Context(), step("a", "new", run)))
			payload, call := "new", s.Apply
			if c.delete {
				payload, call = "", s.Delete
			}
			if r := call(t.Context(), step("a", payload, run)); r.Status != sink.OK {
				t.Fatalf("%+v", r)
			}
			if c.meanwhile != "" {
				store.overwrite("a", c.meanwhile)
			}
			for try := range 2 { // its answer may be lost: once more is the same
				r := s.Restore(t.Context(), step("a", payload, run))
				if o := store.object("a"); r.Status != c.status || o.content != c.after || o.mark != "" {
					t.Errorf("try %d: %+v, and the store holds %+v", try, r, o)
				}
			}
		})
	}
}

func TestWhatASinkClaimsOfSagasIsInItsManifest(t *testing.T) {
	for config, claimed := range map[string]bool{"{}": true, `{"modest": true}`: false} {
		s, _ := participant(t, config)
		if m := s.Manifest(); m.Marks != claimed || m.Locks != claimed || m.RestoresApply != claimed || m.RestoresDelete != claimed {
			t.Errorf("%s: %+v", config, m)
		}
		for name, call := range map[string]func(context.Context, *sink.Request) sink.Result{"restore": s.Restore, "unlock": s.Unlock} {
			r := call(t.Context(), step("a", "", sink.Run{ID: runA, Locks: []string{"0a"}, Before: &sink.Image{}}))
			if refused := r.Status == sink.Rejected && strings.Contains(r.Message, "has no op "+name); refused == claimed || claimed && r.Status != sink.OK {
				t.Errorf("%s: %s: %+v", config, name, r)
			}
		}
		// Where no locks were taken there is nothing that could not be given up.
		if r := s.Unlock(t.Context(), step("a", "", sink.Run{ID: runA})); r.Status != sink.OK {
			t.Errorf("%s: %+v", config, r)
		}
	}
}

// ofSagas is a manifest with the ops and claims of a participant.
func ofSagas(ops, undoable []abi.Op, lock, mark bool) []byte {
	b := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "asm")
	flag := func(n protowire.Number, v uint64) {
		b = protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
	}
	for _, op := range ops {
		flag(3, uint64(op))
	}
	flag(8, 1)
	for _, op := range undoable {
		flag(11, uint64(op))
	}
	flag(12, protowire.EncodeBool(lock))
	flag(13, protowire.EncodeBool(mark))
	return b
}

func TestClaimsOfSagasThatCanNotBeKeptAreRefused(t *testing.T) {
	all := []abi.Op{abi.OpObserve, abi.OpApply, abi.OpDelete, abi.OpUnlock, abi.OpRestore}
	without := func(op abi.Op) []abi.Op {
		return slices.DeleteFunc(slices.Clone(all), func(o abi.Op) bool { return o == op })
	}
	both := []abi.Op{abi.OpApply, abi.OpDelete}
	for _, c := range []struct {
		name     string
		manifest []byte
		says     string // "": it is accepted
	}{
		{"all", ofSagas(all, both, true, true), ""},
		{"marks alone", ofSagas([]abi.Op{abi.OpObserve, abi.OpApply}, nil, false, true), ""},
		{"an apply that can be undone", ofSagas([]abi.Op{abi.OpApply, abi.OpRestore}, []abi.Op{abi.OpApply}, false, false), ""},
		{"lock without mark", ofSagas(all, both, true, false), "claims lock but not mark"},
		{"lock without unlock", ofSagas(without(abi.OpUnlock), both, true, true), "does not list the op unlock"},
		{"mark without observe", ofSagas(without(abi.OpObserve), both, false, true), "does not list the op observe"},
		{"undoable without restore", ofSagas(without(abi.OpRestore), both, false, true), "does not list the op restore"},
		{"an undoable look", ofSagas(all, []abi.Op{abi.OpObserve}, false, true), "the op observe among the undoable ones"},
		{"an undoable delete that is not there", ofSagas(without(abi.OpDelete), both, false, true), "delete is undoable but does not list that op"},
	} {
		t.Run(c.name, func(t *testing.T) {
			right := func(err error) bool {
				return c.says == "" && err == nil || c.says != "" && err != nil && strings.Contains(err.Error(), c.says)
			}
			if _, err := asmHost(t, nil).Load(t.Context(), asm.Guest{Manifest: c.manifest}.Bytes(), "asm"); !right(err) {
				t.Errorf("describe: %v", err)
			}
			// Nor may configure change the manifest to that.
			observation := protowire.AppendBytes(protowire.AppendTag(nil, 9, protowire.BytesType), c.manifest)
			answer := protowire.AppendBytes(protowire.AppendTag([]byte(asm.OKResult), 5, protowire.BytesType), observation)
			p, err := asmHost(t, nil).Load(t.Context(), asm.Guest{Data: map[int]string{4096: string(answer)},
				Configure: asm.Seq(asm.Answer(1, 4096, len(answer)), asm.Want(0))}.Bytes(), "asm")
			if err != nil {
				t.Fatal(err)
			}
			s, err := p.Open(t.Context(), wasmhost.SinkConfig{Name: "s"})
			if !right(err) {
				t.Errorf("configure: %v", err)
			}
			if err == nil {
				_ = s.Close(t.Context())
			}
		})
	}
}

func TestTheContentOfAnImageIsBounded(t *testing.T) {
	// Each op answers with an observation of so many zero bytes of content.
	const at = 1 << 16
	head := func(content int) string {
		inner := string(protowire.AppendVarint(protowire.AppendTag([]byte{0x08, 1}, 9, protowire.BytesType), uint64(content)))
		return string(protowire.AppendVarint(protowire.AppendTag([]byte(asm.OKResult), 5, protowire.BytesType), uint64(len(inner)+content))) + inner
	}
	answering := func(content int) *wasmhost.Sink {
		h := head(content)
		g := asm.Guest{Pages: 20, Data: map[int]string{at: h}, Start: asm.Seq(asm.Answer(1, at, len(h)+content), asm.Want(0))}
		return openASM(t, g, wasmhost.SinkConfig{})
	}
	look, known := step("a", "", sink.Run{ID: runA}), step("a", "", sink.Run{ID: runA, Before: &sink.Image{}})
	s := answering(sink.MaxImage)
	if r := s.Observe(t.Context(), look); r.Status != sink.OK || len(r.Observation.Content) != sink.MaxImage {
		t.Errorf("%v: %s", r.Status, r.Message)
	}
	s = answering(sink.MaxImage + 1)
	for _, r := range []*sink.Request{known, request("a", "")} {
		if r := s.Observe(t.Context(), r); r.Status != sink.OK {
			t.Errorf("%v: %s", r.Status, r.Message)
		}
	}
	if r := s.Observe(t.Context(), look); r.Status != sink.Fault || !strings.Contains(r.Message, "1048577 bytes, more than the 1048576") {
		t.Errorf("%v: %s", r.Status, r.Message)
	}
	if st := s.Stats(); st.Faults[wasmhost.FaultMalformed] != 1 {
		t.Errorf("%v", st.Faults)
	}
}

func TestWhatStandsInForAParticipantIsOne(t *testing.T) {
	p := load(t, asmHost(t, nil), "asm", asm.Guest{Manifest: ofSagas(
		[]abi.Op{abi.OpObserve, abi.OpApply, abi.OpUnlock, abi.OpRestore}, []abi.Op{abi.OpApply}, true, true)}.Bytes())
	s, ok := p.Unready(io.EOF).(sink.Participant)
	if !ok {
		t.Fatal("it is none")
	}
	if m := s.Manifest(); !m.Marks || !m.Locks || !m.RestoresApply || m.RestoresDelete {
		t.Errorf("%+v", m)
	}
	for _, r := range []sink.Result{s.Restore(t.Context(), request("a", "")), s.Unlock(t.Context(), request("a", ""))} {
		if r.Status != sink.Unreachable || !r.NotSent {
			t.Errorf("%+v", r)
		}
	}
}
