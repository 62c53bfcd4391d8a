package wasmhost

import "maps"

// Plus returns the sum of both, as of sinks that took one another's place.
func (s Stats) Plus(o Stats) Stats {
	s.Instances += o.Instances
	s.InFlight += o.InFlight
	s.Waiting += o.Waiting
	s.MemoryBytes += o.MemoryBytes
	s.HeldBytes += o.HeldBytes
	s.Restarts += o.Restarts
	s.Recycled += o.Recycled
	s.LinesLost += o.LinesLost
	s.IOs += o.IOs
	s.CPU += o.CPU
	s.Throttled += o.Throttled
	s.Faults = sum(s.Faults, o.Faults)
	s.Limited = sum(s.Limited, o.Limited)
	return s
}

func sum[K comparable](a, b map[K]int64) map[K]int64 {
	out := maps.Clone(a)
	if out == nil {
		out = make(map[K]int64, len(b))
	}
	for k, n := range b {
		out[k] += n
	}
	return out
}
