package statesync

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/source"
	"github.com/pawlsync/pawl/internal/source/kube/feed"
	"github.com/pawlsync/pawl/kube/v1alpha1"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 5, time.UTC)

// known is a StateSync of generation 3, of which 3 was stored.
func known() *entry {
	ss := &v1alpha1.StateSync{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "x", Generation: 3}}
	return &entry{sync: ss, key: record.Key{Sink: "web", Name: "team/x"}, answered: 3, accepted: 3}
}

// acked is its resource, whose engine counts otherwise.
func acked() *engine.Resource {
	res := &engine.Resource{Key: record.Key{Sink: "web", Name: "team/x"}}
	res.Desired = record.Desired{Generation: 70, Hash: record.HashOf([]byte("{}")), Owner: "team"}
	res.Status = record.Status{Generation: 70, Phase: record.AckedPhase,
		Acked:      &record.Acked{Generation: 70, Hash: res.Desired.Hash, Ref: "/x", At: noon},
		Conditions: []record.Condition{{Type: record.CondAcked, Status: record.True, ObservedGeneration: 70}}}
	return res
}

func hide(string, []byte) json.RawMessage { return nil }

// summary reads "Acked 3 Accepted=True/Stored@3 Acked=True/Acked@3".
func summary(st v1alpha1.StateSyncStatus) string {
	s := fmt.Sprint(st.Phase, " ", st.ObservedGeneration)
	for _, c := range st.Conditions {
		s += fmt.Sprintf(" %s=%s/%s@%d", c.Type, c.Status, c.Reason, c.ObservedGeneration)
	}
	return s
}

func TestTheStatusSaysHowItDoes(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(e *entry, res *engine.Resource) *engine.Resource
		want string
	}{
		{"acked", func(_ *entry, r *engine.Resource) *engine.Resource { return r },
			"Acked 3 Accepted=True/Stored@3 Acked=True/Acked@3"},
		{"under way", func(_ *entry, r *engine.Resource) *engine.Resource {
			r.Status.Phase, r.Status.Conditions = record.Delivering, nil
			return r
		}, "Pending 3 Accepted=True/Stored@3 Acked=False/NotAcked@3"},
		{"a later change was refused", func(e *entry, r *engine.Resource) *engine.Resource {
			e.answered, e.refusal = 4, engine.ErrTooLarge
			return r
		}, "Acked 4 Accepted=False/TooLarge@4 Acked=True/Acked@3"},
		{"never stored", func(e *entry, _ *engine.Resource) *engine.Resource {
			e.accepted, e.refusal = 0, fmt.Errorf("x: %w", feed.ErrTaken)
			return nil
		}, "Refused 3 Accepted=False/KeyTaken@3 Acked=False/Refused@3"},
		{"forgotten", func(*entry, *engine.Resource) *engine.Resource { return nil },
			"Forgotten 3 Accepted=True/Stored@3 Acked=False/Forgotten@3"},
		{"deleted, and owed", func(e *entry, r *engine.Resource) *engine.Resource {
			deleting(e)
			r.Desired.Tombstone, r.Status.Phase, r.Status.Conditions = true, record.Pending, nil
			return r
		}, "Deleting 3 Accepted=True/Stored@3 Acked=False/NotAcked@3 Deleted=False/Owed@3"},
		{"deleted, and held", func(e *entry, r *engine.Resource) *engine.Resource {
			deleting(e)
			e.fused = source.ErrFused
			return r
		}, "Held 3 Accepted=True/Stored@3 Acked=True/Acked@3 Deleted=False/HeldByFuse@3"},
		{"deleted, and held since before the start", func(e *entry, r *engine.Resource) *engine.Resource {
			deleting(e)
			e.answered, e.accepted = 0, 0
			return r
		}, "Held 3 Acked=True/Acked@3 Deleted=False/HeldByFuse@3"},
		{"deleted, and not stored", func(e *entry, r *engine.Resource) *engine.Resource {
			deleting(e)
			e.fused = engine.ErrNoSpace
			return r
		}, "Acked 3 Accepted=True/Stored@3 Acked=True/Acked@3 Deleted=False/NotStored@3"},
	} {
		e := known()
		res := tc.do(e, acked())
		if got := summary(statusOf(e, res, hide, noon)); got != tc.want {
			t.Errorf("%s: %s\nwant %s", tc.name, got, tc.want)
		}
	}
}

func deleting(e *entry) {
	now := metav1.NewTime(noon)
	e.sync.DeletionTimestamp, e.settled = &now, true
}

func TestReasonsOfRefusals(t *testing.T) {
	for want, err := range map[string]error{
		"Owned": engine.ErrOwned, "IdempotencyKeyUsed": engine.ErrKeyUsed, "UnknownSink": engine.ErrUnknownSink, "TooLarge": engine.ErrTooLarge, "Stale": engine.ErrStale,
		"Invalid": engine.ErrInvalid, "KeyTaken": feed.ErrTaken, "PayloadNotFound": &refusedError{reason: "PayloadNotFound"}, "Refused": errors.New("x"),
	} {
		if got := reasonOf(fmt.Errorf("put: %w", err)); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}

func TestAConditionThatStaysKeepsItsTime(t *testing.T) {
	e := known()
	e.sync.Status = statusOf(e, acked(), hide, noon)
	later := noon.Add(time.Hour)
	same := statusOf(e, acked(), hide, later)
	if text(same) != text(e.sync.Status) {
		t.Errorf("a status of which nothing changed is another one:\n%s\n%s", text(same), text(e.sync.Status))
	}
	res := acked()
	res.Status.Conditions[0].Status = record.False
	for _, c := range statusOf(e, res, hide, later).Conditions {
		if want := c.Type == v1alpha1.ConditionAcked; c.LastTransitionTime.Time.Equal(later.Truncate(time.Second)) != want {
			t.Errorf("%s: time %v", c.Type, c.LastTransitionTime)
		}
	}
}

func TestWhatTheTargetHasIsShownAsFarAsItMay(t *testing.T) {
	res := acked()
	res.Status.Observed = &record.Observed{Content: []byte(`{"a":1}`), Hash: record.HashOf([]byte("x")), Cursor: "c7", At: noon}
	st := statusOf(known(), res, func(sink string, b []byte) json.RawMessage { return json.RawMessage(`"` + sink + `"`) }, noon)
	if string(st.Observed.Content.Raw) != `"web"` || st.Cursor != "c7" || st.Observed.ContentHash != record.HashOf([]byte("x")).Hex() {
		t.Errorf("%s", text(st))
	}
	long := json.RawMessage(`"` + strings.Repeat("x", contentMax) + `"`)
	for what, show := range map[string]shower{"hidden": hide, "too long": func(string, []byte) json.RawMessage { return long }} {
		if st := statusOf(known(), res, show, noon); st.Observed.Content != nil || st.Observed.ContentHash == "" {
			t.Errorf("%s: %.200s", what, text(st))
		}
	}
}

func TestWhatWasTakenOverIsShown(t *testing.T) {
	show := func(_ string, b []byte) json.RawMessage { return b }
	res := acked()
	res.Desired.Payload, res.Desired.Hash = []byte(`{"a":2}`), record.HashOf([]byte("y"))
	if st := statusOf(known(), res, show, noon); st.Observed != nil && st.Observed.Content != nil {
		t.Errorf("a payload of the source's own shows: %s", text(st))
	}
	res.Desired.Origin = record.FromTarget
	if st := statusOf(known(), res, show, noon); st.Observed == nil || st.Observed.Content == nil || string(st.Observed.Content.Raw) != `{"a":2}` || st.Observed.ContentHash != res.Desired.Hash.Hex() {
		t.Errorf("%s", text(st))
	}
	res.Desired.Payload, res.Desired.Tombstone = nil, true
	if st := statusOf(known(), res, show, noon); st.Observed != nil && st.Observed.Content != nil {
		t.Errorf("there is nothing at the target: %s", text(st))
	}
}

func TestLongMessagesAreCut(t *testing.T) {
	e := known()
	e.refusal = errors.New("x" + strings.Repeat("ü", 20_000))
	st := statusOf(e, nil, hide, noon)
	for _, message := range []string{st.LastError, st.Conditions[0].Message, st.Conditions[1].Message} {
		if len(message) > messageMax+len("…") || !utf8.ValidString(message) {
			t.Errorf("a message of %d bytes: %.20q", len(message), message)
		}
	}
}

func TestEventsWarnOfWhatSomebodyShouldLookAt(t *testing.T) {
	for phase, want := range map[string]string{"Acked": "Normal", "Deleting": "Normal", "Drifted": "Warning", "Held": "Warning", "Refused": "Warning", "Stalled": "Warning"} {
		ev := eventOf("team", known(), &v1alpha1.StateSyncStatus{Phase: phase, LastError: strings.Repeat("x", 5000)}, noon)
		message, _ := ev.Object["message"].(string)
		if ev.Object["type"] != want || ev.Object["reason"] != phase || len(message) > messageMax+len("…") {
			t.Errorf("%s: %v", phase, ev.Object)
		}
	}
}
