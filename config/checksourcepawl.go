package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// checkSenders wants names of senders that tell one from the other: which source a
// sender belongs to says what it may delete, and where it may send to.
func (l *loader) checkSenders(c *Config) {
	type place struct{ pattern, path string }
	var known []place
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		p := c.Sources[name].Pawl
		if p == nil {
			continue
		}
		path := "sources." + name + ".pawl"
		for i, pattern := range p.Senders {
			if strings.Contains(strings.TrimSuffix(pattern, "*"), "*") {
				l.wrongItem(path+".senders", i, shown(pattern)+" has a * that is not at its end", "write edge-* for all that begin with edge-")
				continue
			}
			for _, k := range known {
				if overlap(k.pattern, pattern) {
					l.wrongItem(path+".senders", i, fmt.Sprintf("%s means senders that %s has as well", shown(pattern), k.path), "name each sender once")
				}
			}
			for _, other := range slices.Sorted(maps.Keys(c.Sources)) {
				if c.Sources[other].Pawl == nil && overlap(pattern, other) {
					l.wrongItem(path+".senders", i, fmt.Sprintf("%s means the source %s as well", shown(pattern), other), "what a source and a sender put must be told apart: rename one of them")
				}
			}
			known = append(known, place{pattern, path + ".senders"})
		}
		for i, sink := range p.Sinks {
			if _, ok := c.Sinks[sink]; !ok {
				l.wrongItem(path+".sinks", i, fmt.Sprintf("there is no sink %s", shown(sink)), didYouMean(sink, slices.Sorted(maps.Keys(c.Sinks))))
			}
		}
	}
}

// overlap reports whether two patterns mean a common sender.
func overlap(a, b string) bool {
	x, wildA := strings.CutSuffix(a, "*")
	y, wildB := strings.CutSuffix(b, "*")
	switch {
	case wildA && wildB:
		return strings.HasPrefix(x, y) || strings.HasPrefix(y, x)
	case wildA:
		return strings.HasPrefix(b, x)
	case wildB:
		return strings.HasPrefix(a, y)
	}
	return a == b
}
