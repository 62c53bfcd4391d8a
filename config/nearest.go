package config

import (
	"fmt"
	"strings"
)

// nearest returns the candidate with the smallest edit distance to name, or ""
// if none is near enough to be what was meant: a third of the name's length, at
// least 2. Of equally near ones the first wins.
func nearest(name string, candidates []string) string {
	best, bestDistance := "", max(2, len(name)/3)+1
	for _, c := range candidates {
		if d := distance(strings.ToLower(name), strings.ToLower(c), bestDistance); d < bestDistance && d < len(c) {
			best, bestDistance = c, d
		}
	}
	return best
}

// didYouMean is the hint for a wrong name: the nearest right one, or all of
// them if they are few.
func didYouMean(name string, candidates []string) string {
	if n := nearest(name, candidates); n != "" {
		return fmt.Sprintf("did you mean %s?", n)
	}
	const few = 12
	switch n := len(candidates); {
	case n == 0 || n > few:
		return ""
	case n == 1:
		return "there is only " + candidates[0]
	}
	return "there are " + strings.Join(candidates, ", ")
}

// distance is the number of letters to insert, remove, replace or swap with
// their neighbour that turn a into b (optimal string alignment); anything from
// limit on is returned as limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
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
	return min(row[len(b)], limit)
}
