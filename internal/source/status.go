package source

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawlsync/pawl/engine/record"
)

// Status is how one source does.
type Status struct {
	Name string
	Kind string // "": it is not configured
	// Group is the pawl source that a sender belongs to; "" for all others.
	Group      string
	Configured bool
	// Senders: it is a pawl source itself, which owns nothing: its senders do. Declares
	// are their names and patterns.
	Senders   bool
	Declares  []string
	Dir       *DirSettings          // of kind dir
	Deletion  record.DeletionPolicy // of what it lacks, where a resource has none; empty: the sink's
	Starting  bool                  // what it owns is not read yet, or it has not told all since the start
	Up        bool                  // it runs and tells no trouble
	Trouble   string
	TroubleAt time.Time // since when; zero: none

	FullAt    time.Time // when the newest full set was through; zero: none since the start
	FullItems int
	ContactAt time.Time // when a sender last sent or asked something; zero: not since the start
	// Unswept, where set, is what keeps anything from being deleted that a full set
	// lacks: the place of something of which not even the key can be read.
	Unswept   string
	Resources int // that it owns
	Kept      int // things that could not be read or were refused
	Problems  []Problem

	Held      int
	HeldAt    time.Time
	HeldWhy   string
	Blown     bool // nothing is deleted until somebody confirms
	Fuse      FuseOptions
	Deleted   int // within the fuse's window
	Allowed   int // within it, in all
	LargestOf int // the largest number of resources within it
}

// List returns every source, known sender, and owner of resources that is not
// configured, by name; without Problems.
func (m *Manager) List(ctx context.Context) ([]Status, error) {
	if err := m.countStrangers(ctx); err != nil {
		return nil, err
	}
	out := m.Figures()
	m.mu.Lock()
	for name, n := range m.strangers {
		out = append(out, Status{Name: name, Resources: n})
	}
	m.mu.Unlock()
	slices.SortFunc(out, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Figures returns every source and known sender, by name; without Problems. It reads
// nothing from the store.
func (m *Manager) Figures() []Status {
	var out []Status
	for _, in := range m.all() {
		out = append(out, in.status(0))
	}
	for _, g := range m.declared.Load().groups {
		out = append(out, groupStatus(&g))
	}
	slices.SortFunc(out, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Status returns one source, with its first problems, at most so many.
//
// # Errors
//
// ErrUnknown; the engine's.
func (m *Manager) Status(ctx context.Context, name string, problems int) (Status, error) {
	if in, err := m.find(name); err == nil {
		return in.status(problems), nil
	}
	for _, g := range m.declared.Load().groups {
		if g.Name == name {
			return groupStatus(&g), nil
		}
	}
	if err := m.countStrangers(ctx); err != nil {
		return Status{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if n, ok := m.strangers[name]; ok {
		return Status{Name: name, Resources: n}, nil
	}
	return Status{}, fmt.Errorf("%w: %q", ErrUnknown, name)
}

func groupStatus(g *Spec) Status {
	return Status{Name: g.Name, Kind: g.Kind, Configured: true, Senders: true, Declares: g.Senders, Deletion: g.Deletion, Up: true, Fuse: g.Fuse}
}

func (in *inlet) status(limit int) Status {
	in.mu.Lock()
	defer in.mu.Unlock()
	s := Status{
		Name: in.spec.Name, Kind: in.spec.Kind, Group: in.group, Configured: true,
		Dir: dirSettings(in.spec.Source), Deletion: in.spec.Deletion,
		FullAt: in.fullAt, FullItems: in.fullItems, Resources: in.owned.n, Kept: len(in.problems), Problems: in.problems.sorted(limit),
		Held: len(in.held), HeldAt: in.heldAt, HeldWhy: in.heldWhy, Blown: in.fuse.Blown(), Fuse: in.spec.Fuse,
	}
	s.Deleted, s.Allowed, s.LargestOf = in.fuse.Window(time.Now())
	if err := in.troubled(); err != nil {
		s.Trouble, s.TroubleAt = err.Error(), in.troubleAt
	}
	sender := in.spec.Source == nil
	s.ContactAt = in.contactAt
	s.Starting = in.fullAt.IsZero()
	if sender {
		s.Starting = in.contactAt.IsZero()
	}
	s.Unswept = in.unswept()
	s.Up = (in.running || sender) && s.Trouble == ""
	return s
}

// unswept is the first place that kept the newest full set from being swept; "": it
// was. in.mu is held.
func (in *inlet) unswept() string {
	if !in.blind {
		return ""
	}
	for _, p := range in.problems.sorted(len(in.problems)) {
		if p.Key == (record.Key{}) {
			return cmp.Or(p.Place, "what it can't read")
		}
	}
	return "" // what was wrong is right by now, and the next full set is swept
}

// Rescan asks a source for a full set.
//
// # Errors
//
// ErrUnknown, ErrDeclares, ErrNotConfigured; ErrNotRunning where it can't be asked: senders tell by themselves.
func (m *Manager) Rescan(name string) error {
	in, err := m.find(name)
	if err != nil {
		return err
	}
	if in.spec.Source == nil {
		return fmt.Errorf("%w: %q is another pawl, which tells all by itself", ErrNotRunning, name)
	}
	in.mu.Lock()
	running := in.running
	in.mu.Unlock()
	if !running {
		return fmt.Errorf("%w: %q is begun again by itself, with a full set", ErrNotRunning, name)
	}
	in.spec.Source.Rescan()
	return nil
}

// strangersAge is how old the count of what unconfigured sources own may be: counting
// reads every record.
const strangersAge = time.Minute

// countStrangers counts anew what sources own that are not configured, unless nobody
// of that kind was there, or it was done of late.
func (m *Manager) countStrangers(ctx context.Context) error {
	m.mu.Lock()
	fresh := !m.countedAt.IsZero() && (len(m.strangers) == 0 || time.Since(m.countedAt) < strangersAge)
	m.mu.Unlock()
	if fresh {
		return nil
	}
	strangers := map[string]int{}
	err := m.engine.Owners(ctx, func(_ record.Key, owner string) bool {
		strangers[owner]++
		return true
	})
	if err != nil {
		return err
	}
	delete(strangers, "")
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(strangers, func(name string, _ int) bool {
		_, configured := m.configured(name)
		return configured
	})
	m.strangers, m.countedAt = strangers, time.Now()
	return nil
}
