package wasmhost

import (
	"fmt"
	"time"
)

// Limits bound what one sink's plugin may use. The zero value of each field
// means its default.
type Limits struct {
	// CallTimeout is how long one call may take, from when the guest is entered
	// for it; waiting for admission does not count. Defaults to 30s.
	CallTimeout time.Duration
	// StartTimeout bounds _initialize and configure of an instance. Defaults to 30s.
	StartTimeout time.Duration
	// MaxCalls is how many calls may be in flight in one instance, and so in a
	// sink whose plugin parks its calls. Defaults to 5000.
	MaxCalls int
	// MaxInstances is how many instances a plugin that blocks in host I/O may
	// have, one call in each. Defaults to 16.
	MaxInstances int
	// InFlightBytes bounds payloads and responses that wait in the host; one
	// call is always admitted. Defaults to 64 MiB.
	InFlightBytes int64
	// MemoryBytes is the most that one instance's memory may grow to, rounded
	// down to pages of 64 KiB; at most the host's limit. Defaults to the host's.
	MemoryBytes int64
	// RecycleBytes is the memory beyond which an instance takes no more calls
	// and is released when those that it has have ended: a guest's memory never
	// shrinks. Defaults to three quarters of MemoryBytes.
	RecycleBytes int64
	// IdleTimeout is how long an instance without calls is kept. Defaults to 1m.
	IdleTimeout time.Duration
	// CallIOs is how many host I/Os one call may have under way. Defaults to 16.
	CallIOs int
	// MessageBytes bounds one message from the guest: a result, an HTTP
	// request. Defaults to 4 MiB.
	MessageBytes int64
	// LogLines is how many log lines per second the guest may write, with
	// bursts of as many. Defaults to 50.
	LogLines int
}

func (l Limits) withDefaults(hostMemory int64) Limits {
	def(&l.CallTimeout, 30*time.Second)
	def(&l.StartTimeout, 30*time.Second)
	def(&l.MaxCalls, 5000)
	def(&l.MaxInstances, 16)
	def(&l.InFlightBytes, 64<<20)
	def(&l.MemoryBytes, hostMemory)
	def(&l.RecycleBytes, l.MemoryBytes/4*3)
	def(&l.IdleTimeout, time.Minute)
	def(&l.CallIOs, 16)
	def(&l.MessageBytes, 4<<20)
	def(&l.LogLines, 50)
	return l
}

func def[T int | int64 | time.Duration](v *T, d T) {
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
		{"CallTimeout", int64(l.CallTimeout)}, {"StartTimeout", int64(l.StartTimeout)},
		{"MaxCalls", int64(l.MaxCalls)}, {"MaxInstances", int64(l.MaxInstances)},
		{"InFlightBytes", l.InFlightBytes}, {"MemoryBytes", l.MemoryBytes},
		{"RecycleBytes", l.RecycleBytes}, {"IdleTimeout", int64(l.IdleTimeout)},
		{"CallIOs", int64(l.CallIOs)}, {"MessageBytes", l.MessageBytes}, {"LogLines", int64(l.LogLines)},
	} {
		if f.v < 0 {
			return fmt.Errorf("limit %s is negative", f.name)
		}
	}
	if l.MemoryBytes > hostMemory {
		return fmt.Errorf("limit MemoryBytes is %d, more than the host's %d", l.MemoryBytes, hostMemory)
	}
	return nil
}
