package engine

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/reconcile"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/schedule"
	"github.com/pawlsync/pawl/engine/sink"
)

// Options configure an Engine. Only Store is needed; the zero value of
// everything else works.
type Options struct {
	// Store opens the store that holds every resource, and tells it whom to
	// report to. badger.Opener is the durable one.
	Store func(outbox.Observer) (outbox.Store, error)

	// Sinks are the targets at the start; see AddSink, ChangeSink, RemoveSink and
	// ReplaceSink for while the engine is open.
	Sinks []SinkOptions

	// MaxInFlight bounds the calls in flight over all sinks. Defaults to no bound.
	MaxInFlight int

	// PayloadMaxBytes is the largest payload that is accepted. Defaults to 512 KiB.
	PayloadMaxBytes int

	// BatchMax is how many Puts one batch may hold. Defaults to 10,000.
	BatchMax int

	// WatchBuffer is how many changes are kept for watchers that fall behind or
	// come back. Defaults to 16,384.
	WatchBuffer int

	// OrderRetention is how long the source order of a deleted resource is
	// remembered, so that a late Put is still seen as stale. Defaults to 24h.
	OrderRetention time.Duration

	// Prepare is called when every resource in the store is planned and before
	// anything is delivered: what it holds is not touched. Defaults to nothing.
	Prepare func(*Engine) error

	// Logger gets what an operator should know. Defaults to none.
	Logger *slog.Logger

	// Observer is told what happens, for metrics. Defaults to none.
	Observer Observer

	// Tracer follows single changes. Defaults to none, which costs nothing.
	Tracer Tracer

	// Seed makes the jitter of retries reproducible. Defaults to a random one.
	Seed uint64
}

// SinkOptions configure one target. Durations and counts of zero mean the
// default; a negative duration switches the thing off where that makes sense.
type SinkOptions struct {
	Name string
	Sink sink.Sink

	Conflict record.ConflictPolicy // Defaults to source-wins.
	Deletion record.DeletionPolicy // Defaults to delete.
	// Direction says which way resources that say nothing themselves are kept in
	// sync. Defaults to outbound; others need a sink that reports content.
	Direction record.Direction

	MaxInFlight int     // calls at a time, a batch being one; defaults to 64
	Rate        float64 // calls started per second; defaults to no limit
	Burst       int     // calls that may start at once; defaults to Rate, at least 1

	// Timeout ends one call. Defaults to 30s.
	Timeout time.Duration

	// DriftInterval is how often an acknowledged resource is looked at again,
	// jittered. Defaults to 10m; negative: never.
	DriftInterval time.Duration
	// PollInterval is how often the target is asked what changed there, for resources
	// of direction inbound and both: by a poll where the sink can poll, else by a look at
	// each, jittered. Defaults to 1m.
	PollInterval time.Duration
	// ReportInterval is DriftInterval for a resource whose drift is only reported.
	// Defaults to 10m.
	ReportInterval time.Duration
	// SkipStartupCheck leaves out the look at every resource after a start.
	SkipStartupCheck bool
	// StartupRate paces that look, in resources per second. Defaults to 100.
	StartupRate float64

	RetryBase   time.Duration // first pause after a failure, doubled from then on; defaults to 2s
	RetryMax    time.Duration // longest pause; defaults to 5m
	MaxAttempts int           // attempts until a resource is Stalled; defaults to 5
	StallRetry  time.Duration // pause of a stalled resource; defaults to 5m

	BreakerAfter     int           // unanswered calls in a row, on distinct resources, that open the breaker; defaults to 5
	BreakerProbeBase time.Duration // first pause between probes, doubled; defaults to 2s
	BreakerProbeMax  time.Duration // longest; defaults to 1m

	// FightsPerHour is how often drift of one resource is corrected within an
	// hour before it is left alone for StallRetry. Defaults to 5.
	FightsPerHour int

	// Suspended holds all calls until the sink is resumed.
	Suspended bool
}

func or[T int | float64 | time.Duration](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

func (o *Options) setDefaults() {
	o.PayloadMaxBytes = or(o.PayloadMaxBytes, 512<<10)
	o.BatchMax = or(o.BatchMax, 10_000)
	o.WatchBuffer = or(o.WatchBuffer, 16_384)
	o.OrderRetention = or(o.OrderRetention, 24*time.Hour)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Observer == nil {
		o.Observer = nopObserver{}
	}
	for i := range o.Sinks {
		o.Sinks[i].setDefaults()
	}
}

func (s *SinkOptions) setDefaults() {
	if s.Conflict == "" {
		s.Conflict = record.SourceWins
	}
	if s.Deletion == "" {
		s.Deletion = record.DeleteTarget
	}
	s.MaxInFlight = or(s.MaxInFlight, 64)
	s.Timeout = or(s.Timeout, 30*time.Second)
	s.DriftInterval = or(s.DriftInterval, 10*time.Minute)
	s.PollInterval = or(s.PollInterval, time.Minute)
	s.ReportInterval = or(s.ReportInterval, 10*time.Minute)
	s.StartupRate = or(s.StartupRate, 100)
	s.RetryBase = or(s.RetryBase, 2*time.Second)
	s.RetryMax = or(s.RetryMax, 5*time.Minute)
	s.MaxAttempts = or(s.MaxAttempts, 5)
	s.StallRetry = or(s.StallRetry, 5*time.Minute)
	s.BreakerAfter = or(s.BreakerAfter, 5)
	s.BreakerProbeBase = or(s.BreakerProbeBase, 2*time.Second)
	s.BreakerProbeMax = or(s.BreakerProbeMax, time.Minute)
	s.FightsPerHour = or(s.FightsPerHour, 5)
}

func (o *Options) validate() error {
	if o.Store == nil {
		return fmt.Errorf("engine: Options.Store is nil; give one, such as badger.Opener(badger.Options{Dir: …})")
	}
	seen := map[string]bool{}
	for i := range o.Sinks {
		s := &o.Sinks[i]
		if err := s.validate(); err != nil {
			return err
		}
		if seen[s.Name] {
			return fmt.Errorf("engine: two sinks are named %q; a name stands for one target", s.Name)
		}
		seen[s.Name] = true
	}
	for what, v := range map[string]int{"MaxInFlight": o.MaxInFlight, "PayloadMaxBytes": o.PayloadMaxBytes, "BatchMax": o.BatchMax, "WatchBuffer": o.WatchBuffer} {
		if v < 0 {
			return fmt.Errorf("engine: Options.%s is %d; it can't be negative", what, v)
		}
	}
	return nil
}

func (s *SinkOptions) validate() error {
	if err := record.ValidateSink(s.Name); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	if s.Sink == nil {
		return fmt.Errorf("engine: sink %q has no Sink", s.Name)
	}
	if err := s.Conflict.Validate(); err != nil {
		return fmt.Errorf("engine: sink %q: %w", s.Name, err)
	}
	if err := s.Deletion.Validate(); err != nil {
		return fmt.Errorf("engine: sink %q: %w", s.Name, err)
	}
	if err := s.Direction.Validate(); err != nil {
		return fmt.Errorf("engine: sink %q: %w", s.Name, err)
	}
	for what, d := range map[string]time.Duration{
		"PollInterval": s.PollInterval, "Timeout": s.Timeout, "ReportInterval": s.ReportInterval, "RetryBase": s.RetryBase, "RetryMax": s.RetryMax,
		"StallRetry": s.StallRetry, "BreakerProbeBase": s.BreakerProbeBase, "BreakerProbeMax": s.BreakerProbeMax,
	} {
		if d < 0 {
			return fmt.Errorf("engine: sink %q: %s is %s; it can't be negative", s.Name, what, d)
		}
	}
	return nil
}

// rules are what the pure core needs of the options, and of a sink's manifest.
func (s *SinkOptions) rules(o *Options, epoch string, m sink.Manifest) *reconcile.Rules {
	return &reconcile.Rules{
		Conflict: s.Conflict, Deletion: s.Deletion, Direction: s.Direction, Timeout: s.Timeout,
		DriftInterval: s.DriftInterval, PollInterval: s.PollInterval, ReportInterval: s.ReportInterval, ContentMax: o.PayloadMaxBytes,
		Retry:         record.Retry{Base: s.RetryBase, Max: s.RetryMax, MaxAttempts: s.MaxAttempts, Stall: s.StallRetry},
		FightsPerHour: s.FightsPerHour, OrderRetention: o.OrderRetention,
		Epoch: epoch, Manifest: m,
	}
}

func (s *SinkOptions) limits(batchMax int) schedule.Limits {
	return schedule.Limits{
		MaxInFlight: s.MaxInFlight, BatchMax: batchMax, Rate: s.Rate, Burst: s.Burst,
		BreakerAfter: s.BreakerAfter, ProbeBase: s.BreakerProbeBase, ProbeMax: s.BreakerProbeMax,
	}
}
