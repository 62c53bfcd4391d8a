package wasmhost

import (
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// limitProcess bounds this process: what it exceeds ends it. RLIMIT_DATA counts
// what Go's heap really maps; RLIMIT_AS would count what it merely reserves.
func limitProcess(memoryBytes int64, cpu time.Duration) error {
	debug.SetMemoryLimit(memoryBytes / 4 * 3) // collect before the limit strikes
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 10)
	for _, l := range []struct {
		what int
		most uint64
	}{
		{unix.RLIMIT_DATA, uint64(memoryBytes)},
		{unix.RLIMIT_CPU, uint64((cpu + time.Second - 1) / time.Second)},
		{unix.RLIMIT_FSIZE, uint64(memoryBytes)},
		{unix.RLIMIT_CORE, 0},
	} {
		if err := unix.Setrlimit(l.what, &unix.Rlimit{Cur: l.most, Max: l.most}); err != nil {
			return err
		}
	}
	return nil
}

// peakBytes is the most memory that an ended process had.
func peakBytes(p *os.ProcessState) int64 {
	if u, ok := p.SysUsage().(*syscall.Rusage); ok {
		return u.Maxrss << 10
	}
	return 0
}
