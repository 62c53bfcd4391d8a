package api

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawlsync/pawl/internal/nearest"
)

// DidYouMean is the hint for a wrong name: the nearest right one, or all of
// them where they are few; "" if there is nothing to say.
func DidYouMean(name string, candidates []string) string {
	const few, longest = 12, 64 // bytes; a longer name is near to nothing
	if candidates = slices.Sorted(slices.Values(candidates)); len(name) <= longest {
		if n := nearest.Of(name, candidates); n != "" {
			return fmt.Sprintf("did you mean %q?", n)
		}
	}
	switch {
	case len(candidates) == 0 || len(candidates) > few:
		return ""
	case len(candidates) == 1:
		return "there is only " + candidates[0]
	}
	return "there are " + strings.Join(candidates, ", ")
}
