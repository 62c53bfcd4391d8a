package sim

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/bubble"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "play this seed alone")
	seedsFlag = flag.Int("seeds", 0, "how many seeds to play; defaults to 400, in -short to 150")
)

func TestPromisesHoldUnderFaults(t *testing.T) {
	if *seedFlag != 0 {
		play(t, *seedFlag)
		return
	}
	n := *seedsFlag
	if n == 0 {
		n = 400
		if testing.Short() {
			n = 150
		}
	}
	base := rand.Uint64() >> 20
	t.Logf("seeds %d to %d; -seed plays one of them alone", base, base+uint64(n)-1)
	for i := range n {
		play(t, base+uint64(i))
		if t.Failed() {
			return
		}
	}
}

// play simulates one seed: a storm, then a calm, then the books are checked.
func play(t *testing.T, seed uint64) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, seed)
		defer w.printHistory()
		ctx, cancel := context.WithCancel(t.Context())
		waits := &waits{ctx: ctx}
		seen := newWatcher(w)
		w.storm(waits)
		w.calm()
		cancel() // every wait has ended: everything has come to rest
		waits.Wait()
		w.check()
		seen.check()
		if err := w.engine.Close(t.Context()); err != nil {
			w.failf(record.Key{}, "close: %v", err)
		}
		seen.done.Wait()
		for _, target := range w.targets {
			target.landing.Wait()
		}
	})
}

const (
	clients       = 3
	keysPerClient = 6
)

// storm lets clients work for some minutes while everything fails now and then.
func (w *world) storm(waits *waits) {
	var working sync.WaitGroup
	for c := range clients {
		working.Go(func() { newClient(w, c, waits).work() })
	}
	for range 3 + w.rng.IntN(12) {
		time.Sleep(time.Duration(w.rng.IntN(40)) * time.Second)
		w.mishap()
	}
	working.Wait()
}

// mishap makes something go wrong, or right again.
func (w *world) mishap() {
	target := w.targets[w.rng.IntN(len(w.targets))]
	switch w.rng.IntN(7) {
	case 0:
		w.restart(true)
	case 1:
		w.restart(false)
	case 2:
		n := 1 + w.rng.IntN(4)
		w.logf(record.Key{}, "%d commits fail", n)
		w.disk.FailCommits(n, errDisk)
	case 3:
		w.logf(record.Key{}, "%s is down", target.name)
		target.weather(true, true)
	case 4:
		w.logf(record.Key{}, "%s is well", target.name)
		target.weather(false, false)
	case 5:
		full := w.rng.IntN(2) == 0
		w.logf(record.Key{}, "disk full: %t", full)
		w.disk.SetFull(full)
	default:
		w.logf(record.Key{}, "%s is faulty", target.name)
		target.weather(true, false)
	}
}

// calm ends all faults and gives everything the time that it may need: the longest
// pause there is, a drift check, and some calls.
func (w *world) calm() {
	w.disk.FailCommits(0, nil)
	w.disk.SetFull(false)
	for _, target := range w.targets {
		target.weather(false, false)
	}
	for w.missing != "" {
		w.restart(false)
	}
	w.logf(record.Key{}, "calm")
	e := w.engine
	for _, s := range w.options.Sinks {
		w.must(record.Key{}, e.ResumeSink(w.t.Context(), s.Name))
	}
	for _, r := range w.list() {
		w.must(r.Key, e.Resume(w.t.Context(), r.Key))
	}
	// What was rejected before now rests until somebody asks again (R45).
	for range 2 {
		time.Sleep(15 * time.Minute)
		for _, r := range w.list() {
			if r.Status.Phase == record.Failed {
				w.must(r.Key, e.Retry(w.t.Context(), r.Key))
			}
		}
	}
	time.Sleep(5 * time.Minute)
	for range 1000 { // until no look is under way
		synctest.Wait()
		if !slices.ContainsFunc(e.Sinks(), func(s engine.SinkStatus) bool { return s.InFlight > 0 }) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.failf(record.Key{}, "calls are in flight all the time")
}

func (w *world) must(key record.Key, err error) {
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		w.failf(key, "in the calm: %v", err)
	}
}

// list returns every resource, page by page.
func (w *world) list() []engine.Resource {
	var all []engine.Resource
	o := engine.ListOptions{Limit: 1 + w.rng.IntN(5), Payloads: true}
	for {
		page, err := w.engine.List(w.t.Context(), o)
		if err != nil {
			w.failf(record.Key{}, "list: %v", err)
			return all
		}
		all = append(all, page.Items...)
		if o.Page = page.Next; o.Page == "" {
			return all
		}
	}
}

// check compares what clients were promised with what is stored and what the
// targets hold.
func (w *world) check() {
	counts := map[string]map[record.Phase]int{}
	stored := map[record.Key]engine.Resource{}
	for _, r := range w.list() {
		stored[r.Key] = r
		if counts[r.Key.Sink] == nil {
			counts[r.Key.Sink] = map[record.Phase]int{}
		}
		counts[r.Key.Sink][r.Status.Phase]++
	}
	for key, p := range w.ledger {
		r, ok := stored[key]
		w.checkResource(key, p, r, ok)
		delete(stored, key)
	}
	for key := range stored {
		w.failf(key, "nobody ever put it")
	}
	for _, s := range w.engine.Sinks() {
		if fmt.Sprint(s.Counts) != fmt.Sprint(counts[s.Name]) {
			w.failf(record.Key{}, "%s counts %v, the list %v", s.Name, s.Counts, counts[s.Name])
		}
	}
	if n := w.engine.Stats().Waiters; n != 0 {
		w.failf(record.Key{}, "%d waiters are left", n)
	}
}

// tell puts what is stored of a resource that failed into its history.
func (w *world) tell(r *engine.Resource) {
	st := &r.Status
	w.logf(r.Key, "stored: generation %d, acked %+v, attempted %+v", r.Desired.Generation, st.Acked, st.Attempted)
	for _, h := range st.History {
		w.logf(r.Key, "stored: at %s generation %d was %s %s %s", h.At.Sub(w.start), h.Generation, h.Phase, h.Reason, h.Message)
	}
}

// checkResource holds one resource against its promise (P1, P2).
func (w *world) checkResource(key record.Key, p *promise, r engine.Resource, ok bool) {
	want := nothing
	if ok {
		want = string(r.Desired.Payload)
	}
	if !slices.Contains(p.possible, want) {
		w.failf(key, "P1: %q is stored, %q was promised", want, p.possible)
	}
	defer func() {
		if w.failed[key] {
			w.tell(&r)
		}
	}()
	if n := len(r.Status.History); n > record.HistoryLength {
		w.failf(key, "R65: %d lines of history", n)
	}
	target, policy := w.of(key)
	switch {
	case ok && r.Desired.Tombstone:
		w.failf(key, "P2: it is still being deleted: %s %s", r.Status.Phase, r.Status.Reason)
	case (p.drifted || p.forgotten) && policy != record.SourceWins: // what the target holds may stand
		if ok && r.Status.Phase != record.AckedPhase && r.Status.Phase != record.Drifted {
			w.failf(key, "P2: it is %s %s", r.Status.Phase, r.Status.Reason)
		}
	case ok && r.Status.Phase != record.AckedPhase:
		w.failf(key, "P2: it is %s %s (%s)", r.Status.Phase, r.Status.Reason, r.Status.Message)
	case p.forgotten && (!ok || !target.manifest.Observes), p.drifted && !ok:
	default:
		if got := target.holds(key.Name); got != want {
			w.failf(key, "P2: the target holds %q, desired is %q", got, want)
		}
	}
}

// of returns key's target and its conflict policy.
func (w *world) of(key record.Key) (*target, record.ConflictPolicy) {
	for i, target := range w.targets {
		if target.name == key.Sink {
			return target, w.options.Sinks[i].Conflict
		}
	}
	panic("no sink " + key.Sink)
}

// watcher follows every change, over restarts, and knows what it saw last.
type watcher struct {
	w      *world
	done   sync.WaitGroup
	mu     sync.Mutex
	last   map[record.Key]engine.Event
	ending bool
}

func newWatcher(w *world) *watcher {
	s := &watcher{w: w, last: map[record.Key]engine.Event{}}
	s.done.Go(s.follow)
	return s
}

func (s *watcher) follow() {
	from := ""
	for {
		e := s.w.now()
		if from == "" {
			from = s.relist(e)
		}
		if from != "" && errors.Is(s.watch(e, &from), engine.ErrWatchExpired) {
			from = ""
			continue
		}
		if s.w.now() == e && s.over() {
			return
		}
		time.Sleep(time.Second) // until the next engine is there
	}
}

func (s *watcher) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending
}

func (s *watcher) watch(e *engine.Engine, from *string) error {
	for ev, err := range e.Watch(context.Background(), engine.WatchOptions{From: *from}) {
		if err != nil {
			return err
		}
		*from = ev.Token
		s.mu.Lock()
		s.last[ev.Resource.Key] = ev
		s.mu.Unlock()
	}
	return nil
}

// relist starts again from a list, as the error says.
func (s *watcher) relist(e *engine.Engine) (token string) {
	page, err := e.List(context.Background(), engine.ListOptions{Limit: 1000})
	if err != nil {
		return "" // it is closing
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.last)
	for _, r := range page.Items {
		s.last[r.Key] = engine.Event{Resource: r}
	}
	return page.Token
}

// check holds what the watcher saw last against what there is (R64).
func (s *watcher) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	for _, r := range s.w.list() {
		saw, ok := s.last[r.Key]
		delete(s.last, r.Key)
		phase := saw.Resource.Status.Phase // where it says Orphaned, a change of the configuration ended that, and no change of the resource
		if !ok || saw.Removed || saw.Resource.Desired.Generation != r.Desired.Generation || phase != r.Status.Phase && phase != record.Orphaned {
			s.w.failf(r.Key, "R64: the watcher saw generation %d %s last (removed: %t), it is %d %s", saw.Resource.Desired.Generation,
				saw.Resource.Status.Phase, saw.Removed, r.Desired.Generation, r.Status.Phase)
		}
	}
	for key, saw := range s.last {
		if !saw.Removed {
			s.w.failf(key, "R64: the watcher was never told that it went")
		}
	}
}
