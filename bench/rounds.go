package main

import (
	"fmt"
	"slices"
	"time"
)

// sample is what one thing measured in several rounds.
type sample []float64

func (s sample) median() float64 {
	sorted := slices.Sorted(slices.Values(s))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// String is the median, with the least and the most.
func (s sample) String() string {
	return fmt.Sprintf("%.3g (%.3g – %.3g)", s.median(), slices.Min(s), slices.Max(s))
}

// over is s ÷ t, round by round: both were measured in the same mood of the machine.
func (s sample) over(t sample) sample {
	out := make(sample, len(s))
	for i := range s {
		out[i] = s[i] / t[i]
	}
	return out
}

// interleave measures each thing once a round, by turns.
func interleave(rounds int, things ...func() (float64, error)) ([]sample, error) {
	out := make([]sample, len(things))
	for range rounds {
		for i, measure := range things {
			v, err := measure()
			if err != nil {
				return nil, err
			}
			out[i] = append(out[i], v)
		}
	}
	return out, nil
}

// perCall does something again and again for a while, and returns how many
// microseconds of processor time one took, in all threads.
func perCall(during time.Duration, do func() error) (float64, error) {
	began, used, n := time.Now(), cpuTime(), 0
	for time.Since(began) < during {
		if err := do(); err != nil {
			return 0, err
		}
		n++
	}
	return float64((cpuTime() - used).Nanoseconds()) / 1000 / float64(n), nil
}
