package manifest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/nearest"
)

var retryFields = []string{"base", "max", "maxAttempts", "stall"}

// retry reads {base: 1s, max: 1m, maxAttempts: 3, stall: 1h}.
func (b *builder) retry(f field) (r record.Retry) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(f.value, &members); err != nil || members == nil {
		b.fail(f.line, "write retry: {base: 1s, maxAttempts: 3}", "retry must be an object, but it is %s", kindOf(f.value))
		return r
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		within := field{name: "retry." + name, line: f.line, value: members[name]}
		switch name {
		case "base":
			r.Base = b.span(within)
		case "max":
			r.Max = b.span(within)
		case "stall":
			r.Stall = b.span(within)
		case "maxAttempts":
			if err := json.Unmarshal(within.value, &r.MaxAttempts); err != nil {
				b.fail(f.line, "", "%s must be a whole number", within.name)
			}
		default:
			hint := "there are " + strings.Join(retryFields, ", ")
			if n := nearest.Of(name, retryFields); n != "" {
				hint = "did you mean " + n + "?"
			}
			b.fail(f.line, hint, "retry has an unknown field %q", name)
		}
	}
	if err := r.Validate(); err != nil {
		b.fail(f.line, "", "%v", err)
	}
	return r
}

// span reads a duration.
func (b *builder) span(f field) time.Duration {
	var text string
	err := json.Unmarshal(f.value, &text)
	d, wrong := time.ParseDuration(text)
	if err != nil || wrong != nil {
		b.fail(f.line, "write it as 30s or 2m", "%s must be a duration", f.name)
	}
	return d
}
