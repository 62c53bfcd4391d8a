package reconcile

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

var update = flag.Bool("update", false, "write the golden output anew")

// TestScenarios plays testdata/*.txt. A file holds scenarios, each headed by a
// line "# R01 …" with the row that it shows; lines after ">" are commands, the
// others what came of them. Run with -update to write the output anew, and read
// the difference: it is the documentation of what Pawl does.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for i, text := range strings.Split(string(raw), "\n# ") {
			if i == 0 {
				out.WriteString(text)
				continue
			}
			title, body, _ := strings.Cut(text, "\n")
			row, rest, _ := strings.Cut(title, " ")
			t.Run(row+"_"+strings.ReplaceAll(rest, " ", "_"), func(t *testing.T) {
				got := newWorld().play(body)
				fmt.Fprintf(&out, "\n# %s\n%s", title, got)
				if want := strings.TrimRight(body, "\n"); !*update && strings.TrimRight(got, "\n") != want {
					t.Errorf("%s: %s\ngot:\n%s\nwant:\n%s", file, title, got, want)
				}
			})
		}
		if *update {
			if err := os.WriteFile(file, []byte(strings.TrimRight(out.String(), "\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// world is one resource, its sink's rules and a clock.
type world struct {
	rules    Rules
	rec      outbox.Record
	rev      uint64
	start    time.Time
	now      time.Time
	delivery *Delivery
	out      strings.Builder
}

var testRules = Rules{
	Conflict: record.SourceWins, Deletion: record.DeleteTarget,
	Timeout: 30 * time.Second, DriftInterval: 10 * time.Minute, ReportInterval: 10 * time.Minute, PollInterval: time.Minute,
	Retry:         record.Retry{Base: 2 * time.Second, Max: 5 * time.Minute, MaxAttempts: 5, Stall: 5 * time.Minute},
	FightsPerHour: 5, OrderRetention: 24 * time.Hour, Epoch: "e",
	Manifest: sink.Manifest{Target: "t1", Observes: true, Deletes: true, ApplyConfirms: true, ApplyIdempotent: true},
}

func newWorld() *world {
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	return &world{rules: testRules, start: start, now: start}
}

// play runs the commands of a scenario and returns them with their output.
func (w *world) play(body string) string {
	for line := range strings.Lines(body) {
		command, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "> ")
		if !ok {
			if strings.TrimSpace(line) == "" {
				w.out.WriteString("\n")
			}
			continue
		}
		w.out.WriteString("> " + command + "\n")
		name, args, _ := strings.Cut(command, " ")
		w.run(name, strings.Fields(args))
	}
	return w.out.String()
}

func (w *world) sayf(format string, args ...any) { fmt.Fprintf(&w.out, "  "+format+"\n", args...) }

func (w *world) run(name string, args []string) {
	switch name {
	case "sink":
		w.configure(args)
	case "put":
		w.put(args)
	case "delete":
		w.delete(args)
	case "wait":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			panic(err)
		}
		w.now = w.now.Add(d)
	case "due":
		w.due()
	case "begin":
		w.begin(args)
	case "bears": // the key of the call that is next
		w.sayf("%s", w.delivery.Request().IdempotencyKey)
	case "answer":
		for _, a := range args {
			w.answer(a)
		}
	case "settle":
		w.settle(args)
	case "deliver":
		w.deliver(args)
	case "retry", "suspend", "resume", "accept", "force":
		w.operate(name)
	case "history":
		for _, h := range w.rec.Status.History {
			w.sayf("%s generation %d %s %s %s", h.At.Sub(w.start), h.Generation, h.Phase, h.Reason, h.Message)
		}
	default:
		panic("unknown command " + name)
	}
}

func (w *world) configure(args []string) {
	m := &w.rules.Manifest
	for _, a := range args {
		k, v, _ := strings.Cut(a, "=")
		switch k {
		case "blind":
			m.Observes = false
		case "unconfirming":
			m.ApplyConfirms = false
		case "unrepeatable":
			m.ApplyIdempotent = false
		case "undeleting":
			m.Deletes = false
		case "uid":
			m.ReportsUID = true
		case "comparable":
			m.AsFoundComparable = true
		case "target":
			m.Target = v
		case "content":
			m.ReportsContent = true
		case "silent":
			m.ReportsContent = false
		case "polls":
			m.Polls = true
		case "direction":
			w.rules.Direction = record.Direction(v)
		case "contentmax":
			w.rules.ContentMax, _ = strconv.Atoi(v)
		case "policy":
			w.rules.Conflict = record.ConflictPolicy(v)
		case "deletion":
			w.rules.Deletion = record.DeletionPolicy(v)
		default:
			panic("unknown trait " + a)
		}
	}
}

func (w *world) facts(args []string) Facts {
	f := Facts{Now: w.now}
	for _, a := range args {
		f.MaybeSent = f.MaybeSent || a == "sent"
	}
	if w.delivery != nil && w.delivery.desired.Generation == w.rec.Desired.Generation {
		f.MaybeSent = true // a delivery of it is under way
	}
	return f
}

func order(v string) record.Order {
	parts := strings.Split(v, "/")
	n, err := strconv.ParseUint(parts[2], 10, 64)
	if err != nil {
		panic(err)
	}
	return record.Order{Source: parts[0], Epoch: parts[1], Number: n}
}

func number(v string) *uint64 {
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		panic(err)
	}
	return &n
}

func (w *world) put(args []string) {
	payload := []byte(strings.ReplaceAll(args[0], "_", " "))
	p := PutRequest{Desired: record.Desired{Payload: payload, Hash: record.HashOf(payload)}}
	for _, a := range args[1:] {
		k, v, _ := strings.Cut(a, "=")
		switch k {
		case "order":
			p.Desired.Order = order(v)
		case "partial":
			p.OrderPartial = true
		case "if":
			p.IfGeneration = number(v)
		case "policy":
			p.Desired.Conflict = record.ConflictPolicy(v)
		case "deletion":
			p.Desired.Deletion = record.DeletionPolicy(v)
		case "suspend":
			p.Desired.Suspend = true
		case "direction":
			p.Desired.Direction = record.Direction(v)
		case "owner":
			p.Desired.Owner = v
		case "key":
			p.Desired.IdempotencyKey = v
		case "base", "max", "stall", "attempts":
			setRetry(&p.Desired.Retry, k, v)
		}
	}
	change, answer, err := AcceptPut(&w.rules, w.rec, p, w.facts(args))
	w.took(change, answer, err)
}

func setRetry(r *record.Retry, field, v string) {
	d, _ := time.ParseDuration(v)
	switch field {
	case "base":
		r.Base = d
	case "max":
		r.Max = d
	case "stall":
		r.Stall = d
	case "attempts":
		r.MaxAttempts, _ = strconv.Atoi(v)
	}
}

func (w *world) delete(args []string) {
	var d DeleteRequest
	for _, a := range args {
		k, v, _ := strings.Cut(a, "=")
		switch k {
		case "order":
			d.Order = order(v)
		case "if":
			d.IfGeneration = number(v)
		case "deletion":
			d.Deletion = record.DeletionPolicy(v)
		}
	}
	change, answer, err := AcceptDelete(&w.rules, w.rec, d, w.facts(args))
	w.took(change, answer, err)
}

func (w *world) took(change outbox.Change, answer Answer, err error) {
	if err != nil {
		w.sayf("refused: %v", err)
		return
	}
	before := w.rec.Desired.Generation
	w.apply(change)
	switch {
	case answer.Generation != 0:
		w.sayf("no-op, generation stays %d", answer.Generation)
	case answer.Replaced:
		w.sayf("generation %d, replacing %d that waited", w.rec.Desired.Generation, before)
	default:
		w.sayf("generation %d", w.rec.Desired.Generation)
	}
	if change.Status != nil {
		w.sayf("remembered:%s", w.memory())
	}
}

// apply does to the record what a store would do.
func (w *world) apply(c outbox.Change) {
	if c.Empty() {
		return
	}
	w.rev++
	if c.Remove {
		w.rec = outbox.Record{}
		return
	}
	if c.Desired != nil {
		w.rec.Desired = *c.Desired
		if c.NewGeneration {
			w.rec.Desired.Generation = w.rev
		}
	}
	if c.Status != nil {
		w.rec.Status = *c.Status
		if c.Settled {
			w.rec.Status = outbox.Numbered(w.rec.Status, w.rev)
		}
	}
}

// memory tells what is kept of content that is or may be at the target.
func (w *world) memory() string {
	s := ""
	if a := w.rec.Status.Acked; a != nil {
		s += fmt.Sprintf(" acked=%d", a.Generation)
		if a.Missing {
			s += "(missing)"
		}
		if a.Payload != nil {
			s += "+payload"
		}
	}
	for _, a := range w.rec.Status.Attempted {
		s += fmt.Sprintf(" attempted=%d", a.Generation)
		if a.Delete {
			s += "(delete)"
		}
		if a.Payload != nil {
			s += "+payload"
		}
		s += fmt.Sprintf("(until %s)", a.Deadline.Sub(w.start))
	}
	return s
}

func (w *world) due() {
	suspended := w.rec.Desired.Suspend || w.rec.Status.Suspended
	p := Due(&w.rules, outbox.HeadOf(record.Key{}, &w.rec), suspended, w.now, 0.5)
	if p.At.IsZero() {
		w.sayf("never due, %s", p.Phase)
		return
	}
	w.sayf("due in %s, %s, %s", p.At.Sub(w.now), p.Class, p.Phase)
}

func (w *world) begin(args []string) {
	unsure := len(args) > 0 && args[0] == "unsure"
	w.delivery = Begin(&w.rules, record.Key{Sink: "s", Name: "k"}, w.rec, w.now, unsure)
	w.sayf("%s generation %d", w.delivery.Step(), w.delivery.Generation())
}

func (w *world) answer(a string) {
	if w.delivery.Step() == Store {
		w.apply(outbox.Change{Status: w.delivery.Interim(&w.rec.Status)})
		w.delivery.Stored(w.now)
		w.sayf("stored:%s uid=%s", w.memory(), w.rec.Status.Acked.UID)
		w.sayf("%s uid=%s", w.delivery.Step(), w.delivery.Request().UID)
	}
	w.delivery.Answer(parseResult(a), w.now)
	w.sayf("%s: %s", a, w.delivery.Step())
}

func (w *world) settle(args []string) {
	v := Verdict{Now: w.now, Random: 0.5}
	for _, a := range args {
		k, val, _ := strings.Cut(a, "=")
		switch k {
		case "charge":
			v.Charge = true
		case "contender":
			v.Contender = val
		}
	}
	s := w.delivery.Settle(w.rec, v)
	pause, whole := w.delivery.RetryAfter()
	w.delivery = nil
	w.apply(s.Change)
	w.sayf("outcome %s", s.Outcome)
	if whole {
		w.sayf("the sink pauses for %s", pause)
	}
	if s.Fighting {
		w.sayf("fighting")
	}
	if !w.rec.Desired.Exists() {
		w.sayf("the record is gone")
		return
	}
	st := Effective(w.rec.Desired.Generation, w.rec.Status)
	line := fmt.Sprintf("generation %d is %s", w.rec.Desired.Generation, st.Phase)
	if st.Reason != "" {
		line += " (" + string(st.Reason) + ")"
	}
	if st.Attempts > 0 {
		line += fmt.Sprintf(", attempts %d", st.Attempts)
	}
	w.sayf("%s%s", line, w.memory())
	for _, c := range st.Conditions {
		if c.Type != record.CondAcked && c.Type != record.CondObserved || c.Type == record.CondObserved && c.Status == record.Unknown && s.Outcome == LookFailed {
			w.sayf("condition %s=%s", c.Type, c.Status)
		}
	}
	if o := st.Observed; o != nil {
		w.sayf("the target has %s", o.Content)
	}
	if d := &w.rec.Desired; d.Origin == record.FromTarget {
		w.sayf("desired, of the target: %s", map[bool]string{true: "nothing", false: string(d.Payload)}[d.Tombstone])
	}
	if len(st.DriftPaths) > 0 {
		w.sayf("differs at %s", strings.Join(st.DriftPaths, ", "))
	}
	w.due()
}

func (w *world) deliver(args []string) {
	var begin, settle []string
	var answers []string
	for _, a := range args {
		switch {
		case a == "unsure":
			begin = append(begin, a)
		case a == "charge" || strings.HasPrefix(a, "contender="):
			settle = append(settle, a)
		default:
			answers = append(answers, a)
		}
	}
	w.begin(begin)
	for _, a := range answers {
		w.answer(a)
	}
	if w.delivery.Step() != Done {
		w.sayf("unfinished: %s", w.delivery.Step())
		return
	}
	w.settle(settle)
}

func (w *world) operate(name string) {
	var change outbox.Change
	var err error
	switch name {
	case "retry":
		change, err = Retry(w.rec, w.now)
	case "accept":
		change, err = Accept(w.rec, w.now)
	case "force":
		change, err = Force(w.rec, w.now)
	default:
		change, err = Suspend(w.rec, name == "suspend", w.now)
	}
	if err != nil {
		w.sayf("refused: %v", err)
		return
	}
	w.apply(change)
	w.due()
}

// parseResult reads an answer such as "ok", "missing", "retry,after=30s,target" or
// "ok,desired=no,acked=yes,uid=u1,paths=a/b".
func parseResult(text string) sink.Result {
	parts := strings.Split(text, ",")
	res := sink.Result{Message: parts[0]}
	if parts[0] == "missing" {
		return sink.Result{Status: sink.NotFound}
	}
	for s := sink.OK; s <= sink.Fault; s++ {
		if s.String() == parts[0] {
			res.Status = s
		}
	}
	if res.Status == 0 {
		panic(errors.New("unknown answer " + text))
	}
	if res.Status == sink.OK {
		res.Message = ""
	}
	for _, p := range parts[1:] {
		k, v, _ := strings.Cut(p, "=")
		o := res.Observation
		if o == nil {
			o = &sink.Observation{Exists: true}
		}
		switch k {
		case "after":
			res.RetryAfter, _ = time.ParseDuration(v)
			continue
		case "target":
			res.RetryAfterTarget = true
			continue
		case "unsent":
			res.NotSent = true
			continue
		case "suspect":
			res.Suspect = true
			continue
		case "desired":
			o.MatchDesired = sink.TriOf(v == "yes")
		case "acked":
			o.MatchAcked = sink.TriOf(v == "yes")
		case "attempted":
			o.MatchAttempted = sink.TriOf(v == "yes")
		case "as":
			o.AsFound = v
		case "content":
			o.Content = []byte(strings.ReplaceAll(v, ";", ","))
		case "uid":
			o.UID = v
		case "object":
			o.Object = v
		case "ours":
			o.Ours = sink.TriOf(v == "yes")
		case "paths":
			o.Differing = strings.Split(v, "+")
		default:
			panic("unknown trait " + p)
		}
		res.Observation = o
	}
	return res
}
