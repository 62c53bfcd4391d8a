package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pawlsync/pawl/engine/record"
)

func TestAPayloadKeepsItsBytes(t *testing.T) {
	for _, payload := range []string{
		`null`, `"text"`, `1.50e+400`, `12345678901234567890`, `{ "b":1,  "a":2 , "a":3}`, "[\n\t1\n]", `"<é\u0000>"`,
	} {
		var p PutRequest
		if err := p.Decode([]byte(`{"payload":` + payload + `}`)); err != nil {
			t.Errorf("%s: %v", payload, err)
		}
		if string(p.Bytes()) != payload {
			t.Errorf("got %q, want %q", p.Bytes(), payload)
		}
	}
}

func TestAWrongBodySaysWhatAndWhere(t *testing.T) {
	for _, c := range []struct {
		body         string
		line, column int
		says         string
	}{
		{"{\n\"payload\": {\"a\": 01}\n}", 2, 19, "invalid character '1'"},
		{`{"payload": tru}`, 1, 16, "invalid character '}'"},
		{`{"payload": 1`, 1, 14, "ends too early"},
		{`{"payload"`, 1, 11, "ends too early"},
		{`{"payload": 1,}`, 1, 15, "invalid character '}'"},
		{`{"payload": 1 "owner": 2}`, 1, 15, "invalid character '\"'"},
		{`{payload: 1}`, 1, 2, "invalid character 'p'"},
		{`"text"`, 1, 1, "no JSON object"},
		{`{"Payload": 1}`, 1, 10, `did you mean "payload"?`},
		{`{"payload": 1, "owner": "a", "owner": "b"}`, 1, 36, "given twice"},
		{`{"payload": 1, "owner": 7}`, 1, 25, "owner can't be a number; it is a string"},
		{`{"payload": 1, "suspend": null, "order": []}`, 1, 42, "no JSON object"},
		{`{"payload": 1, "order": {"number": -1}}`, 1, 37, "number can't be -1; it is a whole number, 0 or more"},
		{"{\"payload\": 1, \"order\": {\n\"sourc\": 1}}", 2, 7, `did you mean "source"?`},
		{`{"payload": 1, "order": null}`, 1, 25, "no JSON object"},
		{`{"payload": 1, "order": {"source": }}`, 1, 36, "invalid character '}'"},
		{`{"payload": 1}, {}`, 1, 15, "something follows"},
	} {
		var p PutRequest
		var problem *Problem
		err := p.Decode([]byte(c.body))
		if !errors.As(err, &problem) {
			t.Errorf("%s: %v is no Problem", c.body, err)
			continue
		}
		if problem.Line != c.line || problem.Column != c.column || !strings.Contains(problem.Error(), c.says) {
			t.Errorf("%s\n got %d:%d %q\nwant %d:%d %q", c.body, problem.Line, problem.Column, problem, c.line, c.column, c.says)
		}
	}
}

func TestR31_OnlyAnInboundResourceNeedsNoPayload(t *testing.T) {
	var p PutRequest
	if err := p.Decode([]byte(`{"direction": "inbound"}`)); err != nil || string(p.Bytes()) != "null" {
		t.Errorf("%v, %q", err, p.Bytes())
	}
	var l PlanLine
	if err := l.Decode([]byte(`{"sink": "web", "key": "a", "direction": "inbound"}`)); err != nil || l.Stored() || string(l.Bytes()) != "null" {
		t.Errorf("%v, %+v: a Put is asked about, not what is stored", err, l)
	}
	for _, body := range []string{`{}`, `{"direction": "both"}`, `{"direction": "outbound"}`} {
		if err := p.Decode([]byte(body)); err == nil || !strings.Contains(err.Error(), "has no payload") {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func FuzzDecodeNeverPanicsAndTakesOnlyJSON(f *testing.F) {
	f.Add([]byte(`{"sink":"a","key":"b","payload":{"a":[1,"x"]},"order":{"source":"s","number":1}}`))
	f.Add([]byte(`{"sink":"a","key":"b","payloadBase64":"AA=="`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var b BatchLine
		if err := b.Decode(line); err == nil && !json.Valid(line) {
			t.Errorf("took %q", line)
		} else if err != nil && CodeOf(err) == "" {
			t.Errorf("%v is no Problem", err)
		}
	})
}

func TestAMaskHidesWhatItsPathsLeadTo(t *testing.T) {
	for _, c := range []struct {
		pointers, payload, want string
	}{
		{"/a", `{"a":1,"b":2}`, `{"a":"***","b":2}`},
		{"/a", `{"b":{"a":1}}`, `{"b":{"a":1}}`},
		{"/a/b", `{"a":{"b":[1],"c":1.0}}`, `{"a":{"b":"***","c":1.0}}`},
		{"/a/b", `{"a":5}`, `{"a":5}`},
		{"/1", `[1,2,3]`, `[1,"***",3]`},
		{"/*/k", `[{"k":1},{"k":2,"l":3},4]`, `[{"k":"***"},{"k":"***","l":3},4]`},
		{"/a~1b /c~0d", `{"a/b":1,"c~d":2}`, `{"a/b":"***","c~d":"***"}`},
		{"/a", `{"\u0061":1,"a":2}`, `{"a":"***","a":"***"}`}, // neither an escape nor a second one leaks
		{"/a /a/b", `{"a":{"b":1}}`, `{"a":"***"}`},
		{"/", `{"":1}`, `{"":"***"}`},
		{"/a", `"text"`, `"text"`},
	} {
		m, err := NewMask(strings.Fields(c.pointers))
		if err != nil {
			t.Fatal(err)
		}
		if got, _, _ := m.Show([]byte(c.payload)); string(got) != c.want {
			t.Errorf("%s of %s: %s, want %s", c.pointers, c.payload, got, c.want)
		}
	}
}

func TestAPayloadThatCantBeSearchedIsHiddenWhole(t *testing.T) {
	mask, _ := NewMask([]string{"/a"})
	for _, payload := range []string{"no json", `{"a":"secret"`, "{\"a\":\"\xff\"}"} {
		if asJSON, base64, hidden := mask.Show([]byte(payload)); asJSON != nil || base64 != nil || !hidden {
			t.Errorf("%q is shown: %s, %s, %v", payload, asJSON, base64, hidden)
		}
	}
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestExplainSaysWhyAndWhatNext(t *testing.T) {
	put := noon.Add(-90 * time.Second)
	base := func(st Status) Resource {
		st.Generation = 7
		return Resource{Sink: "web", Key: "a", Generation: 7, PutAt: put, Owner: "git", Status: st}
	}
	fresh := base(Status{Phase: record.Pending, FailedAt: noon.Add(-time.Second), Acked: &Acked{Generation: 5, At: noon.Add(-3 * time.Hour)}})
	gone := fresh
	gone.Tombstone, gone.Status.Suspended = true, true
	damaged := Resource{Sink: "web", Key: "a", Status: Status{Phase: record.Failed, Reason: record.ReasonDamaged, Message: "checksum"}}
	undeletable := base(Status{Phase: record.Failed, Reason: record.ReasonRejected, Message: "the sink can't delete"})
	undeletable.Tombstone = true
	closed := Sink{Name: "web", Configured: true, Breaker: "closed", Waiting: Waiting{Fresh: 3}}
	open := closed
	open.Breaker, open.NextProbe, open.LastError = "open", noon.Add(3*time.Second), "connection refused"
	alone := closed
	alone.Waiting, alone.LastError, alone.LastErrorStatus, alone.LastErrorAt = Waiting{Fresh: 1}, "connection refused", "unreachable", noon.Add(-2*time.Second)
	locked := open
	locked.LastErrorStatus, locked.LastError = "unauthorized", "401 Unauthorized"
	absent := closed
	absent.NotReady = "target not ready: unreachable: connection refused"
	held := closed
	held.Suspended, held.SuspendReason = true, record.ReasonRestored
	suspended := base(Status{Phase: record.Pending, Suspended: true})
	tombstone := base(Status{Phase: record.Deleting, NextAt: noon.Add(5 * time.Second), Acked: &Acked{Generation: 5, At: noon.Add(-3 * time.Hour)}})
	tombstone.Tombstone = true
	for _, c := range []struct {
		name string
		r    Resource
		s    Sink
		want string
	}{
		{"fresh", base(Status{Phase: record.Pending}), closed,
			"web/a is to have generation 7, put 1m30s ago by git. It waits for its first delivery, with 2 others of its sink. The target never confirmed a generation of it."},
		{"retried", base(Status{Phase: record.Pending, Reason: record.ReasonRetryable, Message: "503 Service Unavailable", Attempts: 2, NextAt: noon.Add(4 * time.Second)}), closed,
			"web/a is to have generation 7, put 1m30s ago by git. It is not delivered yet (2 attempts failed): Retryable, 503 Service Unavailable. It is tried again in 4s. The target never confirmed a generation of it."},
		{"behind a breaker", base(Status{Phase: record.Pending, Reason: record.ReasonUnreachable, NextAt: noon}), open,
			"web/a is to have generation 7, put 1m30s ago by git. It is not delivered yet: Unreachable. The target does not answer, and the whole sink waits for it without burning attempts: connection refused. It is probed in 3s. The target never confirmed a generation of it."},
		{"locked out", base(Status{Phase: record.Pending, Reason: record.ReasonUnauthorized, NextAt: noon.Add(time.Minute)}), locked,
			"web/a is to have generation 7, put 1m30s ago by git. It is not delivered yet: Unauthorized. The target refuses our credentials, and the whole sink waits for it without burning attempts: 401 Unauthorized. It is probed in 3s. The target never confirmed a generation of it."},
		{"fresh, after a call that found no target", fresh, alone,
			"web/a is to have generation 7, put 1m30s ago by git. It waits for its delivery. The newest call of its sink, 2s ago, says: the target does not answer: connection refused. A call for an older state failed 1s ago; this one goes out once its retry.base, else its sink's, has passed since. What the target confirmed last is generation 5, 3h0m ago."},
		{"a deletion that the resource's suspension does not hold", gone, closed,
			"web/a is to be deleted, generation 7, put 1m30s ago by git. It waits for its deletion, with 2 others of its sink. A call for an older state failed 1s ago; this one goes out once its retry.base, else its sink's, has passed since. What the target confirmed last is generation 5, 3h0m ago."},
		{"a plugin without delete", undeletable, closed,
			"web/a is to be deleted, generation 7, put 1m30s ago by git. It can't be deleted: Rejected, the sink can't delete. Nothing happens until pawl retry is called; pawl forget gives it up and leaves the target as it is. The target never confirmed a generation of it."},
		{"of a sink that is not ready", base(Status{Phase: record.Pending}), absent,
			"web/a is to have generation 7, put 1m30s ago by git. It waits for its first delivery, with 2 others of its sink. The sink is not ready: target not ready: unreachable: connection refused. That is tried again, with pauses that grow; once it is, all goes on by itself. The target never confirmed a generation of it."},
		{"damaged", damaged, closed,
			"Its record in the store can't be read: checksum. pawl forget discards it; put it again after that."},
		{"acked", base(Status{Phase: record.AckedPhase, Acked: &Acked{Generation: 7, At: noon.Add(-49 * time.Hour)}}), closed,
			"web/a is to have generation 7, put 1m30s ago by git. The target confirmed it, and nothing more is owed. This generation was last confirmed 2 days ago."},
		{"drifted", base(Status{Phase: record.Drifted, DriftPaths: []string{"/x", "/y"}, NextAt: noon.Add(10 * time.Minute)}), closed,
			"web/a is to have generation 7, put 1m30s ago by git. The target was changed by somebody else at /x, /y, and the policy is to report that and touch nothing. It is looked at again in 10m0s. Accept what is there (pawl accept), or put the desired state back (pawl apply --force). The target never confirmed a generation of it."},
		{"refused", base(Status{Phase: record.Failed, Reason: record.ReasonRejected, Message: "422: no such field."}), closed,
			"web/a is to have generation 7, put 1m30s ago by git. The target refuses it for good: Rejected, 422: no such field. Nothing happens until a new generation is put, or pawl retry is called. The target never confirmed a generation of it."},
		{"being deleted", tombstone, closed,
			"web/a is to be deleted, generation 7, put 1m30s ago by git. The target said that the deletion is under way. It is looked at again in 5s. Only when the object is gone does the record go. What the target confirmed last is generation 5, 3h0m ago."},
		{"suspended twice", suspended, held,
			"web/a is to have generation 7, put 1m30s ago by git. It waits for its first delivery, with 2 others of its sink. An operator suspended it; pawl resume lets it go on. The whole sink is suspended (Restored); pawl resume --sink web lets it go on. The target never confirmed a generation of it."},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Explain(&c.r, &c.s, noon); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestExplainHasWordsForEveryPhaseAndReason(t *testing.T) {
	reasons := []record.Reason{
		record.ReasonNone, record.ReasonUnreachable, record.ReasonUnauthorized, record.ReasonRejected, record.ReasonRetryable,
		record.ReasonConflict, record.ReasonNotConverged, record.ReasonPluginFault, record.ReasonPaused, record.ReasonInProgress,
		record.ReasonContended, record.ReasonFighting, record.ReasonNotOurs, record.ReasonDrift, record.ReasonAccepted,
		record.ReasonObsolete, record.ReasonSettling, record.ReasonTargetChanged, record.ReasonRestored,
		record.ReasonMissing, record.ReasonNoContent, record.ReasonTooLarge, record.ReasonTakenOver, record.ReasonTargetDeleted,
	}
	for _, phase := range record.Phases() {
		for _, reason := range reasons {
			r := Resource{Sink: "web", Key: "a", Generation: 1, Status: Status{Phase: phase, Reason: reason}}
			for _, s := range []*Sink{nil, {}, {Breaker: "half-open"}, {Direction: record.Inbound}, {Direction: record.Both}} {
				got := Explain(&r, s, noon)
				if strings.Contains(got, "Its phase is") || strings.Contains(got, "  ") || strings.Contains(got, "..") || !strings.HasSuffix(got, ".") {
					t.Errorf("%s %s: %q", phase, reason, got)
				}
			}
		}
	}
}

func TestHeadlinesPutWhatIsUrgentFirst(t *testing.T) {
	st := DaemonStatus{
		Store: Store{RefusingPuts: true},
		Sinks: []Sink{
			{Name: "a", Configured: true, Breaker: "closed", Counts: map[record.Phase]int{record.Failed: 1, record.Pending: 9}},
			{Name: "new", Configured: true, Breaker: "closed", NotReady: "target not ready: unreachable: no route to host."},
			{Name: "b", Configured: true, Breaker: "open", LastErrorStatus: "unauthorized", NextProbe: noon.Add(time.Second)},
			{Name: "few", Configured: true, Breaker: "closed", LastErrorStatus: "unauthorized", LastErrorAt: noon.Add(-time.Minute), OldestUnacked: noon.Add(-time.Hour)},
			{Name: "late", Configured: true, Breaker: "closed", LastErrorStatus: "retry", OldestUnacked: noon.Add(-time.Hour)},
			{Name: "recent", Configured: true, Breaker: "closed", OldestUnacked: noon.Add(-time.Minute)},
			{Name: "held", Configured: true, Breaker: "closed", OldestUnacked: noon.Add(-time.Hour), Suspended: true, SuspendReason: record.ReasonOperator},
			{Name: "c", Counts: map[record.Phase]int{record.Orphaned: 2}},
		},
	}
	want := []string{
		"The disk is nearly full: Puts are refused, what was accepted is still delivered. Free some space.",
		"Sink new is not ready: target not ready: unreachable: no route to host. It is tried again; what is put for it waits.",
		"Sink b: the target refuses our credentials. It is probed in 1s.",
		"Sink few: the target refuses our credentials (newest call 1m0s ago); nothing was confirmed since.",
		"Sink late: its oldest change is not confirmed since 1h0m.",
		"Sink a: 1 resource Failed.",
		"Sink held is suspended (Operator).",
		"2 resources belong to sink c, which is not in the configuration.",
	}
	if got := Headlines(&st, noon); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := Headlines(&DaemonStatus{}, noon); got == nil || len(got) > 0 {
		t.Errorf("of a quiet daemon: %#v", got)
	}
}

func TestHeadlinesAreSentences(t *testing.T) {
	source := Source{Name: "files", Held: 2, HeldAt: noon.Add(-time.Minute)}
	if got, want := sourceHeadlines(&source, noon), "[Source files: 2 deletions held for 1m0s; see pawl source confirm files.]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	for wrong, want := range map[string]string{
		"pawl.yaml:2:3: server.lisen: unknown key; did you mean listen?": "did you mean listen? See pawl config diff.",
		"pawl.yaml:3: not YAML":                     "not YAML. See pawl config diff.",
		"pawl.yaml:3: it has no unit; write as 5s.": "write as 5s. See pawl config diff.",
	} {
		st := DaemonStatus{Config: &ConfigStatus{File: "pawl.yaml", RefusedAt: noon.Add(-time.Second), Errors: []string{wrong}}}
		got := strings.Join(Headlines(&st, noon), "\n")
		if !strings.HasPrefix(got, "The configuration pawl.yaml was refused 1s ago, and") || !strings.HasSuffix(got, want) {
			t.Errorf("of %q: %s", wrong, got)
		}
	}
}

func TestAProblemIsFoundInWhateverWrapsIt(t *testing.T) {
	p := NewProblem(409, CodeStale, "overtaken", "do nothing")
	if got := CodeOf(fmt.Errorf("put: %w", p)); got != CodeStale {
		t.Errorf("got %q", got)
	}
	if CodeOf(errors.New("x")) != "" || CodeOf(nil) != "" {
		t.Error("another error has a code")
	}
}

func TestExplainSaysATargetsWordsOnceAndNotAllOfLongOnes(t *testing.T) {
	words := "no such field: " + strings.Repeat("é", 4000)
	st := Status{Generation: 1, Phase: record.Failed, Reason: record.ReasonRejected, Message: words}
	s := Sink{Name: "web", Configured: true, Breaker: "open", LastError: words, LastErrorStatus: "unreachable"}
	got := Explain(&Resource{Sink: "web", Key: "a", Generation: 1, Status: st}, &s, noon)
	if strings.Count(got, "no such field") != 1 || len(got) > 1000 || !strings.Contains(got, "é…. Nothing happens until") || !utf8.ValidString(got) {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	s.LastError = "connection refused"
	if got := Explain(&Resource{Sink: "web", Key: "a", Generation: 1, Status: st}, &s, noon); !strings.Contains(got, "connection refused") {
		t.Errorf("what else the sink meets is not said: %s", got)
	}
}
