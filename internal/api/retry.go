package api

import (
	"time"

	"github.com/pawlsync/pawl/engine/record"
)

// Retry says how one resource is tried again. What is absent is the sink's.
type Retry struct {
	Base        Duration `json:"base,omitempty" doc:"Pause after the first failure, doubled after each further one: 10ms to 1h."`
	Max         Duration `json:"max,omitempty" doc:"Longest such pause: 10ms to 24h, not below base."`
	MaxAttempts int      `json:"maxAttempts,omitempty" doc:"Failures after which it is Stalled: 1 to 1000."`
	Stall       Duration `json:"stall,omitempty" doc:"Pause while it is Stalled: 1s to 24h."`
}

// RetryOf is r as the API says it; nil where all is the sink's.
func RetryOf(r record.Retry) *Retry {
	if r == (record.Retry{}) {
		return nil
	}
	return &Retry{Base: Duration(r.Base), Max: Duration(r.Max), MaxAttempts: r.MaxAttempts, Stall: Duration(r.Stall)}
}

// Record is r as the engine takes it; nil: all is the sink's.
func (r *Retry) Record() record.Retry {
	if r == nil {
		return record.Retry{}
	}
	return record.Retry{Base: time.Duration(r.Base), Max: time.Duration(r.Max), MaxAttempts: r.MaxAttempts, Stall: time.Duration(r.Stall)}
}

func (r *Retry) fields() fields {
	return fields{"base": &r.Base, "max": &r.Max, "maxAttempts": &r.MaxAttempts, "stall": &r.Stall}
}
