//go:build !linux

package wasmhost

import (
	"os"
	"runtime/debug"
	"time"
)

// limitProcess only asks the collector to keep to the limit; the time is limited
// by the process itself and by the one that started it.
func limitProcess(memoryBytes int64, _ time.Duration) error {
	debug.SetMemoryLimit(memoryBytes / 4 * 3)
	return nil
}

// peakBytes: no limit on memory is enforced here.
func peakBytes(*os.ProcessState) int64 { return 0 }
