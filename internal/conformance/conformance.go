// Package conformance is the kit that tells authors whether their plugin keeps
// the contract of a Pawl plugin. It runs the module in the real host, against a
// scripted upstream that can be told to fail, or against the author's own one
// behind the same gate.
//
// A Check is one promise of the contract. Each has a stage of its own (stage.go):
// a sink, its upstream, and the target behind a gate that records and breaks
// exchanges (gate.go); so checks run side by side and never see one another.
// Fixture (fixture.go) is what an author says of the adapter: config, payloads,
// keys. The checks are sorted by theme in the files check_*.go.
package conformance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"sync"
	"time"

	"github.com/pawlsync/pawl/engine/wasmhost"
)

// Check is one promise of the contract, and how it is tried.
type Check struct {
	ID    string // lower-case words joined by hyphens
	Wants string // what the contract wants, as a sentence
	Fix   string // what to do where it is broken
	Run   func(t *T)
}

// checkCalls is how many deadlines of calls one check may take: a bound for a
// plugin that makes no progress, far beyond what any check takes.
const checkCalls = 10

// Options configure a run of the kit.
type Options struct {
	// Fixture says how the plugin is tried. Defaults to DefaultFixture().
	Fixture *Fixture
	// Host configures the host that runs the plugin; its Logger is replaced.
	Host wasmhost.Options
	// Filter chooses the checks whose ID it matches. Defaults to all.
	Filter *regexp.Regexp
	// Calls is how many calls the check of memory makes per round. Defaults to 500.
	Calls int
	// CallTimeout is the deadline of calls. Defaults to 30s, as the engine's.
	CallTimeout time.Duration
	// Workers is how many checks run at once. Defaults to twice the processors.
	Workers int
	// Now tells how long checks took. Defaults to time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.Fixture == nil {
		o.Fixture = DefaultFixture()
	}
	if o.Calls == 0 {
		o.Calls = 500
	}
	if o.CallTimeout == 0 {
		o.CallTimeout = 30 * time.Second
	}
	if o.Workers == 0 {
		o.Workers = 2 * runtime.GOMAXPROCS(0)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Checks lists every check, in the order in which they are reported.
func Checks() []Check {
	var all []Check
	for _, theme := range [][]Check{startChecks, lifecycleChecks, comparisonChecks, faultChecks, callChecks, batchChecks, limitChecks, sagaChecks, pollChecks} {
		all = append(all, theme...)
	}
	return all
}

// ErrNoCheck is the error of a filter that matches no check.
var ErrNoCheck = errors.New("no check has such an ID")

// Run tries the plugin wasm, which errors and logs call name.
//
// # Errors
//
// An error is about the run itself: a fixture or a filter that makes no sense,
// a port that can't be opened. What the plugin does wrong is in the Report.
func Run(ctx context.Context, wasm []byte, name string, o Options) (*Report, error) {
	o = o.withDefaults()
	if err := o.Fixture.validate(); err != nil {
		return nil, err
	}
	var chosen []Check
	for _, c := range Checks() {
		if o.Filter == nil || o.Filter.MatchString(c.ID) {
			chosen = append(chosen, c)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("%w: %q; `pawl plugin test --list` names them", ErrNoCheck, o.Filter)
	}
	k, err := newKit(ctx, wasm, name, o)
	if err != nil {
		return nil, err
	}
	defer k.close()
	began := o.Now()
	sum := sha256.Sum256(wasm)
	r := &Report{Plugin: name, SHA256: hex.EncodeToString(sum[:]), Target: o.Fixture.target()}
	if k.plugin != nil {
		m := k.plugin.Manifest()
		r.Name, r.Version = m.Name, m.Version
	}
	r.Results = k.runAll(ctx, chosen)
	r.Took = o.Now().Sub(began)
	return r, ctx.Err()
}

// kit is one run: the plugin, loaded once, and what its checks share.
type kit struct {
	options Options
	wasm    []byte
	name    string
	book    *logbook
	host    *wasmhost.Host
	plugin  *wasmhost.Plugin // nil: loadErr says why
	loadErr error
	openErr error  // of configure
	nonce   string // tells the keys of one run at a real target from those of others
}

// newKit loads the plugin and opens it once. A plugin with which that fails is
// no error: the check "opens" tells it.
func newKit(ctx context.Context, wasm []byte, name string, o Options) (*kit, error) {
	k := &kit{options: o, wasm: wasm, name: name, book: newLogbook(), nonce: nonce()}
	o.Host.Logger = k.book.logger()
	var err error
	if k.host, err = wasmhost.New(ctx, o.Host); err != nil {
		return nil, err
	}
	if k.plugin, k.loadErr = k.host.Load(ctx, wasm, name); k.loadErr != nil {
		return k, ctx.Err()
	}
	s, err := k.stage("opens", o.Fixture.Config)
	if err != nil {
		k.close()
		return nil, err
	}
	defer s.Close()
	k.openErr = s.Open(ctx)
	return k, ctx.Err()
}

func (k *kit) close() {
	if k.plugin != nil {
		_ = k.plugin.Close(context.Background())
	}
}

// runAll runs the checks, some at a time, and returns their results in order.
func (k *kit) runAll(ctx context.Context, checks []Check) []Result {
	results := make([]Result, len(checks))
	slots := make(chan struct{}, k.options.Workers)
	var wg sync.WaitGroup
	for i, c := range checks {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			results[i] = k.run(ctx, c)
		})
	}
	wg.Wait()
	return results
}

// run runs one check on a stage of its own.
func (k *kit) run(ctx context.Context, c Check) (r Result) {
	began := k.options.Now()
	r = Result{ID: c.ID, Outcome: Passed}
	defer func() { r.Took = k.options.Now().Sub(began) }()
	say := func(o Outcome, text string) Result {
		r.Outcome, r.Text = o, text
		if o == Failed {
			r.Wants, r.Fix = c.Wants, c.Fix
		}
		return r
	}
	if why, ok := k.options.Fixture.Skip[c.ID]; ok {
		return say(Skipped, "the fixture says: "+why)
	}
	if !startsAlone[c.ID] && (k.loadErr != nil || k.openErr != nil) {
		r.untried = true
		return say(Skipped, "not tried: the plugin does not start, see the check \"opens\"")
	}
	ctx, cancel := context.WithTimeout(ctx, checkCalls*k.options.CallTimeout)
	defer cancel()
	s, err := k.stage(c.ID, k.options.Fixture.Config)
	if err != nil {
		return say(Failed, "the kit could not prepare it: "+err.Error())
	}
	defer s.Close()
	t := &T{Stage: s, ctx: ctx, kit: k, check: c.ID}
	if !startsAlone[c.ID] {
		if err := s.Open(ctx); err != nil {
			return say(Failed, err.Error())
		}
	}
	end := t.do(c.Run)
	if end == nil && s.sink != nil {
		end = t.do(noFaults)
	}
	t.tidy()
	if end == nil {
		return r
	}
	r.Exchanges = s.gate.last(maxExchanges)
	return say(end.outcome, end.text)
}

// maxExchanges is how many of the last HTTP exchanges a failed check shows.
const maxExchanges = 8

// noFaults holds for every check: whatever is done to it, a plugin neither traps
// nor breaks the ABI.
func noFaults(t *T) {
	for kind, n := range t.sink.Stats().Faults {
		if n > 0 {
			t.Failf("the plugin itself failed while this was tried, %d × %s: %s", n, kind, t.book.faults(t.check))
		}
	}
}
