// Package nearest guesses what a misspelt name was meant to be.
package nearest

import "strings"

// Of returns the candidate that is fewest edits away from name, or "" where
// none is near enough to be what was meant: a third of name's length, at least
// 2. Of equally near ones the first wins. Case does not count.
func Of(name string, candidates []string) string {
	best, bestDistance := "", max(2, len(name)/3)+1
	for _, c := range candidates {
		if d := distance(strings.ToLower(name), strings.ToLower(c)); d < bestDistance && d < len(c) {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance counts the letters to insert, remove, replace or swap with their
// neighbour that turn a into b.
func distance(a, b string) int {
	var before []int // the row of i-2
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
