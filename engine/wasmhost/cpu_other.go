//go:build !linux

package wasmhost

import "time"

var cpuEpoch = time.Now()

// threadCPU stands in for the CPU time of a thread by the time that passes.
func threadCPU() time.Duration { return time.Since(cpuEpoch) }
