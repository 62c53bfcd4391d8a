package outbox

import (
	"slices"

	"github.com/pawlsync/pawl/engine/record"
)

// Numbered returns the status of a settled change whose revision is known now: it,
// and what it says of its own generation, bear that number. Slices are copied.
func Numbered(st record.Status, revision uint64) record.Status {
	st.Generation = revision
	if st.Acked != nil {
		acked := *st.Acked
		acked.Generation = revision
		st.Acked = &acked
	}
	st.Conditions = slices.Clone(st.Conditions)
	for i := range st.Conditions {
		st.Conditions[i].ObservedGeneration = revision
	}
	if n := len(st.History); n > 0 {
		st.History = slices.Clone(st.History)
		st.History[n-1].Generation = revision
	}
	return st
}
