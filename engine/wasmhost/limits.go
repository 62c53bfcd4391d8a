package wasmhost

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// Limits bound what one sink's plugin may use. The zero value of each field
// means its default. Texts about a limit call it by the name in parentheses.
type Limits struct {
	// CallTimeout (timeout) is how long one call may take, from when the guest is
	// entered for it; waiting for admission does not count. Defaults to 30s.
	CallTimeout time.Duration
	// StartTimeout (start_timeout) bounds configure of an instance. Defaults to 30s.
	StartTimeout time.Duration
	// EntryCPU (entry_cpu) is how much CPU time one entry of the guest may take:
	// from when the host calls it until it returns, a collection of its garbage
	// included. Time that it sleeps in poll_oneoff counts too. Defaults to 2s.
	EntryCPU time.Duration
	// CPUShare (cpu_share) is how much of one processor the sink may use while
	// other sinks of the host want to run as well; see processors. Defaults to 0.25.
	CPUShare float64
	// MaxCalls (max_in_flight) is how many calls may be in flight in one instance,
	// and so in a sink whose plugin parks its calls. Defaults to 5000.
	MaxCalls int
	// MaxInstances (instances_max) is how many instances a plugin that blocks in
	// host I/O may have, one call in each. Defaults to 16.
	MaxInstances int
	// InFlightBytes (in_flight_max_bytes) bounds payloads and responses that wait
	// in the host; one call is always admitted. Requests under way may take twice as
	// much. Defaults to 64 MiB.
	InFlightBytes int64
	// MemoryBytes (memory_max_bytes) is the most that one instance's memory may
	// grow to, rounded down to pages of 64 KiB; at most the host's limit. Defaults
	// to the host's.
	MemoryBytes int64
	// SinkMemoryBytes (memory_total_max_bytes) is the most that the memories of
	// all the sink's instances may take together. Defaults to four times MemoryBytes.
	SinkMemoryBytes int64
	// RecycleBytes (recycle_bytes) is the memory beyond which an instance takes no
	// more calls and is released when those that it has have ended: a guest's
	// memory never shrinks. Defaults to three quarters of MemoryBytes.
	RecycleBytes int64
	// IdleTimeout (idle_timeout) is how long an instance without calls is kept.
	// Defaults to 1m.
	IdleTimeout time.Duration
	// CallIOs (call_ios_max) is how many host I/Os one call may have under way.
	// Defaults to 16.
	CallIOs int
	// SinkIOs (ios_max) is how many host I/Os all calls of the sink may have under
	// way. Defaults to 10000.
	SinkIOs int
	// MessageBytes (message_max_bytes) bounds one message from the guest: a
	// result, an HTTP request. Defaults to 4 MiB.
	MessageBytes int64
	// LogLines (log_lines) is how many log lines per second the guest may write,
	// with bursts of as many. Defaults to 50.
	LogLines int
	// LogBytes (log_bytes) is how many bytes of log per second the guest may
	// write, with bursts of as many. Defaults to 64 KiB.
	LogBytes int64
}

func (l Limits) withDefaults(hostMemory int64) Limits {
	def(&l.CallTimeout, 30*time.Second)
	def(&l.StartTimeout, 30*time.Second)
	def(&l.EntryCPU, 2*time.Second)
	def(&l.CPUShare, 0.25)
	def(&l.MaxCalls, 5000)
	def(&l.MaxInstances, 16)
	def(&l.InFlightBytes, 64<<20)
	def(&l.MemoryBytes, hostMemory)
	def(&l.SinkMemoryBytes, 4*l.MemoryBytes)
	def(&l.RecycleBytes, l.MemoryBytes/4*3)
	def(&l.IdleTimeout, time.Minute)
	def(&l.CallIOs, 16)
	def(&l.SinkIOs, 10_000)
	def(&l.MessageBytes, 4<<20)
	def(&l.LogLines, 50)
	def(&l.LogBytes, 64<<10)
	return l
}

func def[T int | int64 | float64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// validate says which limit makes no sense; l has its defaults.
func (l *Limits) validate(hostMemory int64) error {
	for _, f := range []struct {
		name string
		v    int64
	}{
		{"timeout", int64(l.CallTimeout)}, {"start_timeout", int64(l.StartTimeout)}, {"entry_cpu", int64(l.EntryCPU)},
		{"max_in_flight", int64(l.MaxCalls)}, {"instances_max", int64(l.MaxInstances)},
		{"in_flight_max_bytes", l.InFlightBytes}, {"memory_max_bytes", l.MemoryBytes},
		{"memory_total_max_bytes", l.SinkMemoryBytes}, {"recycle_bytes", l.RecycleBytes},
		{"idle_timeout", int64(l.IdleTimeout)}, {"call_ios_max", int64(l.CallIOs)}, {"ios_max", int64(l.SinkIOs)},
		{"message_max_bytes", l.MessageBytes}, {"log_lines", int64(l.LogLines)}, {"log_bytes", l.LogBytes},
	} {
		if f.v < 0 {
			return fmt.Errorf("the limit %s is negative", f.name)
		}
	}
	switch {
	case !(l.CPUShare > 0):
		return fmt.Errorf("the limit cpu_share is %v; it must be above 0", l.CPUShare)
	case l.MemoryBytes > hostMemory:
		return fmt.Errorf("the limit memory_max_bytes is %d, more than the host's %d", l.MemoryBytes, hostMemory)
	case l.SinkMemoryBytes < l.MemoryBytes:
		return fmt.Errorf("the limit memory_total_max_bytes is %d, less than memory_max_bytes, %d", l.SinkMemoryBytes, l.MemoryBytes)
	}
	return nil
}

// A Limit names one that holds back what a guest asks for, without a fault.
type Limit string

// The limits that are counted and told of when they hold a guest back.
const (
	LimitMemory     Limit = "memory_max_bytes"
	LimitSinkMemory Limit = "memory_total_max_bytes"
	LimitHostMemory Limit = "plugin_memory_max_bytes" // of the host, over all sinks
	LimitCallIOs    Limit = "call_ios_max"
	LimitSinkIOs    Limit = "ios_max"
	LimitMessage    Limit = "message_max_bytes"
	LimitInFlight   Limit = "in_flight_max_bytes" // of requests that wait for an upstream
)

// limitsTold lists every Limit; its place is its place in counters.
var limitsTold = [...]Limit{LimitMemory, LimitSinkMemory, LimitHostMemory, LimitCallIOs, LimitSinkIOs, LimitMessage, LimitInFlight}

// limitCount is how often a limit held a sink's guests back, and when that was
// last told.
type limitCount struct{ n, told atomic.Int64 }

// limitTellEvery is how often the log says so.
const limitTellEvery = time.Minute

// held notes that l held a guest back, in a call for key if that is known.
func (s *Sink) held(l Limit, key string) {
	c := &s.limited[slices.Index(limitsTold[:], l)]
	n, now, last := c.n.Add(1), time.Now(), c.told.Load()
	if now.Sub(time.Unix(0, last)) >= limitTellEvery && c.told.CompareAndSwap(last, now.UnixNano()) {
		s.log.Warn("a limit holds the plugin back; raise it if what the plugin does is meant", "limit", string(l), "key", key, "times", n)
	}
}
