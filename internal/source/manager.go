package source

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
)

// Engine is what a Manager needs of *engine.Engine.
type Engine interface {
	PutBatch(context.Context, []engine.Put) ([]engine.BatchItem, error)
	DeleteBatch(context.Context, []engine.Delete) []engine.BatchItem
	HandOver(ctx context.Context, key record.Key, from, to string) error
	Owners(context.Context, func(key record.Key, owner string) bool) error
	Note(name string) ([]byte, error)
	SetNote(name string, value []byte) error
	Sinks() []engine.SinkStatus
	ReleaseRestored(sink string) (bool, error)
}

// Observer is told what sources change. It must return quickly.
type Observer interface {
	// SourceChanged reports n changes of a source: kind is "put" or "delete", result
	// one of Results.
	SourceChanged(source, kind, result string, n int)
}

// Options configure a Manager. Only Engine is needed.
type Options struct {
	Engine  Engine
	Sources []Spec
	// GroupMax is how many resources are put in one batch, at most the engine's
	// BatchMax. Defaults to 1,000.
	GroupMax int
	// Logger gets what an operator should know. Defaults to none.
	Logger *slog.Logger
	// Observer is told what happens, for metrics. Defaults to none.
	Observer Observer
	// Seed makes the jitter of pauses reproducible. Defaults to a random one.
	Seed uint64
}

// Spec is one source of the configuration.
type Spec struct {
	Name string
	Kind string // dir, kube, statesync or pawl
	// Source tells what is wanted; nil: senders do, see Manager.Sender.
	Source   Source
	Senders  []string // names of those that may send; edge-* is all that begin so
	Sinks    []string // that senders may send to; none: all
	Deletion record.DeletionPolicy
	Fuse     FuseOptions
}

// Manager runs the sources and keeps their books. All methods may be called from
// many goroutines.
type Manager struct {
	o      Options
	engine Engine
	log    *slog.Logger

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup
	ready   chan struct{} // closed once the books are read

	changing sync.RWMutex // held by Change, shared by who asks for senders; comes first
	specs    []Spec       // of the configuration; under changing
	declared atomic.Pointer[declared]

	mu        sync.Mutex
	random    *rand.Rand
	inlets    map[string]*inlet // of sources and of senders
	strangers map[string]int    // how much sources own that are not configured
	countedAt time.Time
	restored  map[string]map[string]bool // by sink of a restored store: the owners that have not told all
}

// New returns a Manager that does nothing yet. The names of the sources differ.
func New(o Options) *Manager {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.GroupMax == 0 {
		o.GroupMax = 1000
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	m := &Manager{
		o: o, engine: o.Engine, log: o.Logger, ready: make(chan struct{}),
		random: rand.New(rand.NewPCG(o.Seed, 2)), inlets: map[string]*inlet{}, strangers: map[string]int{}, restored: map[string]map[string]bool{},
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.specs = o.Sources
	m.declared.Store(declare(o.Sources))
	for _, spec := range o.Sources {
		if spec.Source != nil {
			m.inlets[spec.Name] = newInlet(m, spec, "")
		}
	}
	return m
}

// Start begins to run the sources. It returns at once: what they own is read first,
// which takes seconds where a million resources are stored.
func (m *Manager) Start() { m.running.Go(m.begin) }

// Close ends the sources and waits until they have ended. The engine must be open
// until then.
func (m *Manager) Close() {
	m.cancel()
	m.changed()
	m.running.Wait()
}

// begin reads the books and runs every source.
func (m *Manager) begin() {
	for failures := 0; ; failures++ {
		err := m.readBooks(m.ctx)
		if err == nil {
			break
		}
		if m.ctx.Err() != nil {
			return
		}
		m.log.Error("what sources own can't be read, and none is begun until it can", "error", err)
		for _, in := range m.all() {
			in.trouble(notNoted, err)
		}
		select {
		case <-time.After(m.pause(failures)):
		case <-m.ctx.Done():
			return
		}
	}
	m.changing.Lock() // a Change that waits for ready finds all of them running
	defer m.changing.Unlock()
	close(m.ready)
	for _, in := range m.all() {
		in.trouble(notNoted, nil)
		m.launch(in)
	}
}

// readBooks learns what every source owns and what its fuse had counted.
func (m *Manager) readBooks(ctx context.Context) error {
	if len(m.specs) == 0 {
		return nil // nobody asks, but for a list
	}
	restored := m.restoredSinks()
	owned, strangers := map[string]*keySet{}, map[string]int{}
	err := m.engine.Owners(ctx, func(key record.Key, owner string) bool {
		if waiting := restored[key.Sink]; waiting != nil {
			waiting[owner] = true
		}
		if owner == "" {
			return true
		}
		set := owned[owner]
		if set == nil {
			if _, configured := m.configured(owner); !configured {
				strangers[owner]++
				return true
			}
			fresh := newKeySet()
			set = &fresh
			owned[owner] = set
		}
		set.put(key, mark{})
		return true
	})
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.strangers, m.countedAt, m.restored = strangers, time.Now(), restored
	for owner := range owned {
		if m.inlets[owner] == nil {
			spec, _ := m.configured(owner)
			m.inlets[owner] = m.newSender(owner, spec)
		}
	}
	m.mu.Unlock()
	for _, in := range m.all() {
		if err := in.open(owned[in.spec.Name]); err != nil {
			return err
		}
	}
	m.tellRestored(restored)
	return nil
}

// open takes over what the source owns and what its fuse had counted.
func (in *inlet) open(owned *keySet) error {
	note, err := in.m.engine.Note(noteName(in.spec.Name))
	if err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.fuse.Recall(note); err != nil {
		in.log.Error("the fuse begins to count anew", "error", err)
	}
	in.note.saved = string(note)
	if owned != nil {
		in.owned = *owned
	}
	in.fuse.Saw(time.Now(), in.owned.n)
	return nil
}

// configured returns the settings of a source or sender.
func (m *Manager) configured(name string) (Spec, bool) {
	if in := m.inlets[name]; in != nil && in.group == "" {
		return in.spec, true
	}
	return m.groupOf(name)
}

// all returns every source and known sender by name.
func (m *Manager) all() []*inlet {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]*inlet, 0, len(m.inlets))
	for _, in := range m.inlets {
		out = append(out, in)
	}
	slices.SortFunc(out, func(a, b *inlet) int { return strings.Compare(a.spec.Name, b.spec.Name) })
	return out
}

// find returns a source or a known sender; else ErrDeclares, ErrNotConfigured or
// ErrUnknown.
func (m *Manager) find(name string) (*inlet, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if in := m.inlets[name]; in != nil {
		return in, nil
	}
	for _, g := range m.declared.Load().groups {
		if g.Name == name {
			return nil, fmt.Errorf("%w; %s declares senders %s", ErrDeclares, name, strings.Join(g.Senders, ", "))
		}
	}
	if m.strangers[name] > 0 {
		return nil, fmt.Errorf("%w: %q", ErrNotConfigured, name)
	}
	return nil, fmt.Errorf("%w: %q", ErrUnknown, name)
}

// alone is find that takes the source's turn alone, which the caller gives back. One that
// was ended in the wait for it is none: what it holds is no more what its successor would
// delete.
func (m *Manager) alone(name string) (*inlet, error) {
	for {
		in, err := m.find(name)
		if err != nil {
			return nil, err
		}
		in.turn.Lock()
		if !in.over {
			return in, nil
		}
		in.turn.Unlock()
	}
}

// count reports changes.
func (m *Manager) count(source, kind string, t tally) {
	if m.o.Observer == nil {
		return
	}
	for r, n := range t {
		if n > 0 {
			m.o.Observer.SourceChanged(source, kind, resultNames[r], n)
		}
	}
}

// result is how one change of a source ended.
type result int

const (
	resultChanged result = iota
	resultUnchanged
	resultRefused
	resultFailed // it is told again later
	resultHeld   // by the fuse
	results
)

// resultOf is the result of what was accepted.
func resultOf(changed bool) result {
	if changed {
		return resultChanged
	}
	return resultUnchanged
}

var resultNames = [results]string{"changed", "unchanged", "refused", "failed", "held"}

// Results are the words for how a change of a source ended.
func Results() []string { return resultNames[:] }

// tally counts changes by how they ended.
type tally [results]int
