package hostile

import (
	"context"
	"errors"
	"flag"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost"
	asm "github.com/pawlsync/pawl/internal/wasmasm"
)

// trial is one hostile module and how it must end. Exactly one of refused, fault
// and status is set.
type trial struct {
	name   string
	module func() []byte

	patient bool // it may use more CPU time, as it is to end otherwise
	blocks  bool // it blocks in the host until the call's deadline
	apart   bool // it is compiled in a process apart, as the daemon does

	refused *string            // Load or Open fails, saying this
	fault   wasmhost.FaultKind // a call ends as this fault
	status  sink.Status        // a call ends with this status
	says    string             // what the error or message says
}

// trialLimits are small, so that what runs into one does so often.
var trialLimits = wasmhost.Limits{
	CallTimeout: 10 * time.Second, StartTimeout: 2 * time.Second, EntryCPU: 100 * time.Millisecond,
	MemoryBytes: 16 << 20, MaxInstances: 4,
}

// soon is the CallTimeout of trials that wait for their deadline.
const soon = 300 * time.Millisecond

// memoryMost is by how much a trial may make the process grow: what its sink's
// limits add up to, twice, as the collector lets garbage grow to as much as is
// in use, and what the tests themselves need.
const memoryMost = 320 << 20

// shortOf in -short: one trial out of so many is run.
const shortOf = 12

var seedFlag = flag.Uint64("seed", 0, "seed of random choices; 0: a new one each time")

func trials() []trial {
	return slices.Concat(cpuTrials(), memoryTrials(), pointerTrials(), answerTrials(), ioTrials(), wasiTrials(), startTrials(), moduleTrials())
}

func TestHostile(t *testing.T) {
	all := trials()
	if len(all) < 40 {
		t.Errorf("only %d trials", len(all))
	}
	for i, c := range all {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && i%shortOf != 0 {
				t.Skip("one of many")
			}
			c.run(t)
		})
	}
}

func (c *trial) run(t *testing.T) {
	if *neighbourFlag {
		theTwin(t) // before the goroutines are counted
	}
	goroutines := runtime.NumGoroutine()
	var compiler wasmhost.Compiler
	if c.apart {
		var err error
		if compiler, err = apart(); err != nil {
			t.Fatal(err)
		}
	}
	a, err := newArena(t.Context(), t.TempDir(), compiler)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.close(); err != nil {
			t.Error(err)
		}
		eventually(t, "every goroutine has ended", func() bool { return runtime.NumGoroutine() <= goroutines })
	})
	wasm := c.module()
	s, err := c.admit(a, wasm)
	if c.refused != nil {
		c.refusal(t, err)
		s = nil
	} else if err != nil {
		t.Fatal(err)
	}
	if err := a.open(s); err != nil {
		t.Fatal(err)
	}
	j := &jury{trial: c}
	attack := func(ctx context.Context) { a.attack(ctx, t, j.hear) }
	if c.refused != nil {
		attack = func(ctx context.Context) {
			for first := true; first || ctx.Err() == nil; first = false {
				_, err := c.admit(a, wasm)
				c.refusal(t, err)
				<-time.After(attackPace)
			}
		}
	}
	grew := a.highWater(func() { undisturbed(t, a.neighbour, attack, func() { a.calm(t) }) })
	t.Logf("the process grew by %.1f MiB", float64(grew)/(1<<20))
	if grew > memoryMost {
		t.Errorf("the process grew by %d MiB, more than %d", grew>>20, memoryMost>>20)
	}
	if c.refused == nil {
		j.verdict(t)
		c.told(t, a, j.guilty)
	}
}

// admit loads and opens the module.
func (c *trial) admit(a *arena, wasm []byte) (*wasmhost.Sink, error) {
	p, err := a.plugin(badPlugin, wasm)
	if err != nil {
		return nil, err
	}
	return p.Open(a.ctx, wasmhost.SinkConfig{Name: badSink, Limits: c.within(), Upstreams: []wasmhost.Upstream{near{}}})
}

// within are the trial's limits.
func (c *trial) within() wasmhost.Limits {
	l := trialLimits
	if c.patient || c.status == sink.OK {
		l.EntryCPU = 2 * time.Second
	}
	if c.waits() {
		l.CallTimeout = soon
	}
	return l
}

// waits reports whether the trial's calls end with their deadline.
func (c *trial) waits() bool {
	return c.blocks || c.status == sink.Unreachable || c.fault == wasmhost.FaultDeadline
}

// refusal checks the error of a module that must be refused.
func (c *trial) refusal(t *testing.T, err error) {
	t.Helper()
	var e *wasmhost.Error
	switch {
	case !errors.As(err, &e):
		t.Fatalf("it is not refused: %v", err)
	case e.Plugin != badPlugin, e.Op == "open" && e.Sink != badSink:
		t.Errorf("the error does not name plugin and sink: %v", err)
	case !strings.Contains(err.Error(), *c.refused):
		t.Errorf("the error does not say %q: %v", *c.refused, err)
	case len(err.Error()) > 2000:
		t.Errorf("the error has %d bytes: %.300s…", len(err.Error()), err)
	}
}

// jury hears every result of the hostile sink.
type jury struct {
	trial *trial

	mu       sync.Mutex
	heard    int
	expected int
	guilty   string // a key of an expected result
	wrong    string // the first that was not
}

// hear takes a result, and reports whether it tells something. Calls that merely
// shared an instance with a guilty one do not; nor do those whose time ended
// while they waited behind the others.
func (j *jury) hear(key string, r sink.Result) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.heard++
	if r.Suspect || r.Status == sink.Unreachable && strings.HasPrefix(r.Message, "not sent: ") {
		return false
	}
	why := j.trial.wrong(key, r)
	switch {
	case why == "":
		j.expected++
		j.guilty = key
	case j.wrong == "":
		j.wrong = why + ": " + r.Status.String() + ": " + r.Message
	}
	return true
}

// wrong says what is wrong with a result, if anything.
func (c *trial) wrong(key string, r sink.Result) string {
	parts := []string{c.says}
	want := c.status
	if c.fault != "" {
		want = sink.Fault
		parts = append(parts, `plugin "`+badPlugin+`"`, `sink "`+badSink+`"`, `key "`+key+`"`, string(c.fault)+" fault")
	}
	switch {
	case r.Status != want:
		return "another status than " + want.String()
	case strings.Contains(r.Message, payloadSecret):
		return "the message holds payload"
	}
	for _, part := range parts {
		if !strings.Contains(r.Message, part) {
			return "the message does not say " + part
		}
	}
	return ""
}

func (j *jury) verdict(t *testing.T) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	t.Logf("%d results, %d of them as expected", j.heard, j.expected)
	if j.wrong != "" {
		t.Error(j.wrong)
	}
	if j.expected == 0 {
		t.Error("no call ended as expected")
	}
}

// told checks that the operator can see what happened: in the log, in counters,
// in the resource's status; and that what was logged is no flood.
func (c *trial) told(t *testing.T, a *arena, key string) {
	t.Helper()
	if n := a.log.size(); n > 16<<20 {
		t.Errorf("%d MiB were logged", n>>20)
	}
	log := a.log.String()
	if strings.Contains(log, payloadSecret) {
		t.Error("the log holds payload")
	}
	if c.fault == "" || t.Failed() {
		return
	}
	if err := a.engine.ResumeSink(t.Context(), badSink); err != nil { // whose status would be that it is held
		t.Error(err)
	}
	if n := a.bad.plugin.Stats().Faults[c.fault]; n == 0 {
		t.Errorf("no fault of kind %s was counted", c.fault)
	}
	if c.fault != wasmhost.FaultDeadline { // which costs no instance
		for _, part := range []string{"plugin fault", "plugin=" + badPlugin, "sink=" + badSink, "key=" + key, "kind=" + string(c.fault)} {
			if !strings.Contains(log, part) {
				t.Errorf("the log does not say %q", part)
			}
		}
	}
	var message string
	eventually(t, "the status tells of the fault", func() bool {
		res, err := a.engine.Get(t.Context(), record.Key{Sink: badSink, Name: key})
		if err != nil {
			t.Error(err)
			return true
		}
		message = res.Status.Message
		return strings.Contains(message, string(c.fault)+" fault") && strings.Contains(message, `plugin "`+badPlugin+`"`)
	})
}

// apply is a module whose apply runs body, then answers OK if it gets there.
func apply(body ...asm.Code) func() []byte {
	return guest(func(g *asm.Guest) { g.Start = asm.Seq(asm.Seq(body...), asm.AnswerOK(1), asm.Want(0)) })
}

// guest is a module that change makes of one that answers OK to all.
func guest(change func(g *asm.Guest)) func() []byte {
	return func() []byte {
		g := asm.Guest{Manifest: manifest(badPlugin), Start: asm.Seq(asm.AnswerOK(1), asm.Want(0))}
		change(&g)
		return g.Bytes()
	}
}

// applyWith is apply in a module that more adds to.
func applyWith(more func(*asm.Module), body ...asm.Code) func() []byte {
	return guest(func(g *asm.Guest) {
		g.Extend = more
		g.Start = asm.Seq(asm.Seq(body...), asm.AnswerOK(1), asm.Want(0))
	})
}

func says(text string) *string { return &text }
