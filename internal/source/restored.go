package source

import (
	"maps"
	"slices"
	"strings"

	"github.com/pawlsync/pawl/engine/record"
)

// A restored store holds an older desired state. A sink of it goes on when every
// source that owns resources there has told all that it wants now (R67). What nobody
// owns, or a source that is not configured, nobody tells: then an operator decides.

// restoredSinks returns the sinks that wait, each with no owners yet.
func (m *Manager) restoredSinks() map[string]map[string]bool {
	out := map[string]map[string]bool{}
	for _, s := range m.engine.Sinks() {
		if s.SuspendReason == record.ReasonRestored {
			out[s.Name] = map[string]bool{}
		}
	}
	return out
}

// tellRestored logs what the sinks of a restored store wait for.
func (m *Manager) tellRestored(restored map[string]map[string]bool) {
	for sink, owners := range restored {
		var by []string
		operator := false
		for _, owner := range slices.Sorted(maps.Keys(owners)) {
			if _, ok := m.configured(owner); ok {
				by = append(by, owner)
			} else {
				operator = true
			}
		}
		if operator {
			m.log.Warn("the store was restored: the sink has resources that no source of the configuration tells, and waits for an operator", "sink", sink, "see", "pawl resume --sink "+sink)
		} else {
			m.log.Warn("the store was restored: the sink goes on when its sources have told what they want now", "sink", sink, "sources", strings.Join(by, ", "))
		}
	}
}

// release lets those sinks go on whose last owner has told everything.
func (m *Manager) release(owner string) {
	m.mu.Lock()
	var ready []string
	for sink, owners := range m.restored {
		if delete(owners, owner); len(owners) == 0 {
			ready = append(ready, sink)
			delete(m.restored, sink)
		}
	}
	m.mu.Unlock()
	for _, sink := range ready {
		released, err := m.engine.ReleaseRestored(sink)
		switch {
		case err != nil:
			m.log.Error("the sink of a restored store can't go on", "sink", sink, "error", err, "see", "pawl resume --sink "+sink)
		case released:
			m.log.Info("every source has told what it wants: the sink of the restored store goes on", "sink", sink)
		}
	}
}
