// Package duration writes durations as people do.
package duration

import (
	"strings"
	"time"
)

// Text is d.String without the zeros at its end: 10m, not 10m0s.
func Text(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
