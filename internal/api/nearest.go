package api

import (
	"fmt"
	"slices"
	"strings"
)

// DidYouMean is the hint for a wrong name: the nearest right one, or all of
// them where they are few; "" if there is nothing to say.
func DidYouMean(name string, candidates []string) string {
	const few = 12
	switch n := nearest(name, candidates); {
	case n != "":
		return fmt.Sprintf("did you mean %q?", n)
	case len(candidates) == 0 || len(candidates) > few:
		return ""
	case len(candidates) == 1:
		return "there is only " + candidates[0]
	}
	return "there are " + strings.Join(slices.Sorted(slices.Values(candidates)), ", ")
}

// nearest returns the candidate that takes the fewest letters to change, or ""
// if none is near enough to be what was meant: a third of the name, at least 2.
// Of equally near ones the first in alphabetical order wins.
func nearest(name string, candidates []string) string {
	best, bestDistance := "", max(2, len(name)/3)+1
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		if d := distance(strings.ToLower(name), strings.ToLower(c)); d < bestDistance && d < len(c) {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance counts the bytes to insert, remove or replace that turn a into b.
func distance(a, b string) int {
	const longest = 64 // names are short; a long one is near to nothing
	if len(a) > longest || len(b) > longest {
		return longest
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
