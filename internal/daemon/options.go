package daemon

import (
	"cmp"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/saga"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/engine/wasmhost/meter"
	"github.com/pawlsync/pawl/internal/kube"
	"github.com/pawlsync/pawl/internal/sagatemplate"
	"github.com/pawlsync/pawl/internal/server"
)

func engineOptions(c *config.Config, o Options, t *targets, sagas *saga.Manager, observer engine.Observer) engine.Options {
	out := engine.Options{
		MaxInFlight:     c.Limits.MaxInFlight,
		PayloadMaxBytes: int(c.Limits.PayloadMaxBytes),
		BatchMax:        c.Limits.BatchMax,
		OrderRetention:  c.Limits.OrderRetention,
		Logger:          o.Logger,
		Observer:        observer,
		Tracer:          o.tracing.engine(),
		Prepare:         sagas.Prepare,
	}
	for _, p := range t.all() {
		so := sinkOptions(p.name, c.Sinks[p.name])
		so.Sink = p.inEngine()
		out.Sinks = append(out.Sinks, so)
	}
	return out
}

func sinkOptions(name string, s config.Sink) engine.SinkOptions {
	return engine.SinkOptions{
		Name:             name,
		Conflict:         s.ConflictPolicy,
		Deletion:         s.DeletionPolicy,
		Direction:        s.Direction,
		PollInterval:     s.PollInterval,
		MaxInFlight:      s.MaxInFlight,
		Rate:             s.Rate,
		Burst:            s.Burst,
		Timeout:          s.Timeout,
		DriftInterval:    orOff(s.DriftInterval),
		ReportInterval:   s.ReportInterval,
		SkipStartupCheck: !s.StartupCheck,
		StartupRate:      s.StartupRate,
		RetryBase:        s.Retry.Base,
		RetryMax:         s.Retry.Max,
		MaxAttempts:      s.Retry.MaxAttempts,
		StallRetry:       s.Retry.Stall,
		BreakerAfter:     s.Breaker.After,
		BreakerProbeBase: s.Breaker.ProbeBase,
		BreakerProbeMax:  s.Breaker.ProbeMax,
		FightsPerHour:    s.FightsPerHour,
		Suspended:        s.Suspended,
	}
}

// orOff turns 0, the configuration's "off", into the engine's.
func orOff(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// hostOptions are what plugins are compiled and run with.
func hostOptions(c *config.Config, o Options) wasmhost.Options {
	return wasmhost.Options{
		CacheDir: c.Wasm.CacheDir, MemoryBytes: largestMemory(c), TotalMemoryBytes: max(int64(c.Limits.PluginMemory), largestMemory(c)),
		Module: meter.Limits{Depth: int(c.Wasm.StackMax), TableElements: c.Wasm.TableMax},
		Compiler: wasmhost.Compiler{
			Command: o.CompileCommand, MemoryBytes: int64(c.Wasm.CompileMemory), CPU: c.Wasm.CompileCPU, Timeout: c.Wasm.CompileTimeout,
		},
		Logger: o.Logger,
	}
}

// sinkLimits bound what a sink's plugin may use.
func sinkLimits(c *config.Config, s config.Sink) wasmhost.Limits {
	l := s.Limits
	return wasmhost.Limits{
		CallTimeout:     s.Timeout,
		StartTimeout:    l.StartTimeout,
		EntryCPU:        l.EntryCPU,
		CPUShare:        l.CPUShare,
		MaxCalls:        s.MaxInFlight,
		MaxInstances:    l.InstancesMax,
		InFlightBytes:   int64(l.InFlightMaxBytes),
		MemoryBytes:     int64(l.MemoryMaxBytes),
		SinkMemoryBytes: int64(l.MemoryTotalMaxBytes),
		IdleTimeout:     l.IdleTimeout,
		CallIOs:         l.CallIOsMax,
		SinkIOs:         l.IOsMax,
		MessageBytes:    cmp.Or(int64(l.MessageMaxBytes), largestMessage(c, s)),
		LogLines:        l.LogLines,
		LogBytes:        int64(l.LogBytes),
	}
}

// largestMessage is what a request to the sink's upstreams may take.
func largestMessage(c *config.Config, s config.Sink) int64 {
	const envelope = 1 << 20 // a message's other fields: headers, adapter state
	message := int64(4 << 20)
	for _, name := range s.Upstreams {
		message = max(message, int64(c.Upstreams[name].RequestMaxBytes)+envelope)
	}
	return message
}

// largestMemory is what the host allows any instance: the largest of what sinks
// allow theirs, and what one that is added later has where nothing is said.
func largestMemory(c *config.Config) int64 {
	n := c.Defaults.Limits.MemoryMaxBytes
	for _, s := range c.Sinks {
		n = max(n, s.Limits.MemoryMaxBytes)
	}
	return int64(n)
}

func upstreamConfig(name string, u config.Upstream) upstream.Config {
	out := upstream.Config{
		Name: name, Kind: u.Kind, BaseURL: u.BaseURL, Protocol: upstream.Protocol(u.Protocol),
		AllowedMethods: u.AllowedMethods, AllowedPathPrefixes: u.AllowedPathPrefixes, AllowedHeaders: u.AllowedHeaders,
		RequestMaxBytes: int64(u.RequestMaxBytes), ResponseMaxBytes: int64(u.ResponseMaxBytes),
		MaxConcurrent: u.MaxConcurrent, RatePerSecond: u.Rate, Timeout: u.Timeout, DialTimeout: u.DialTimeout,
	}
	if u.Protocol == "auto" {
		out.Protocol = upstream.ProtocolAuto
	}
	if t := u.TLS; t != nil {
		out.TLS = upstream.TLS{CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile, ServerName: t.ServerName, InsecureSkipVerify: t.InsecureSkipVerify}
	}
	if cr := u.Credentials; cr != nil {
		out.Credentials = credentials(cr)
	}
	if u.Sign != nil && u.Sign.StandardWebhooks != nil {
		w := u.Sign.StandardWebhooks
		out.Webhook.Secrets = []upstream.Secret{secret(w.Secret)}
		if w.PreviousSecret != nil {
			out.Webhook.Secrets = append(out.Webhook.Secrets, secret(*w.PreviousSecret))
		}
	}
	return out
}

func kubeOptions(u config.Upstream, o Options) kube.Options {
	out := kube.Options{DialTimeout: u.DialTimeout, Logger: o.Logger}
	if k := u.Kubernetes; k != nil {
		out.Kubeconfig, out.Context = k.Kubeconfig, k.Context
	}
	return out
}

func credentials(c *config.Credentials) upstream.Credentials {
	var out upstream.Credentials
	if c.Bearer != nil {
		out.Bearer = secret(*c.Bearer)
	}
	if c.Basic != nil {
		out.Basic = upstream.Basic{Username: c.Basic.Username, Password: secret(c.Basic.Password)}
	}
	if c.Header != nil {
		out.Headers = []upstream.HeaderCredential{{Name: c.Header.Name, Secret: secret(c.Header.Secret)}}
	}
	return out
}

func secret(s config.Secret) upstream.Secret {
	return upstream.Secret{File: s.File, Env: s.Env, Value: s.Value.Reveal()}
}

// serverOptions also loads the API's certificate and reads the templates, so that it
// can fail.
func serverOptions(c *config.Config, o Options, e server.Engine, sagas server.Sagas, g prometheus.Gatherer) (server.Options, error) {
	out := server.Options{
		Engine: e, Sagas: sagas, Version: o.Version, Logger: o.Logger, LogLevel: o.LogLevel, Metrics: metricsHandler(c, g),
		PayloadMaxBytes: int(c.Limits.PayloadMaxBytes), BatchMax: c.Limits.BatchMax,
		RequestMaxBytes: int64(c.Server.MaxRequestBytes), Limits: clientLimits(c),
		ShutdownGrace: c.Server.ShutdownGrace,
		Sensitive:     sensitive(c),
	}
	var err error
	if out.Templates, err = sagatemplate.New(c); err != nil {
		return out, err
	}
	if out.Authenticators, err = authenticators(c, o); err != nil {
		return out, err
	}
	return out, addCallers(&out, c, o)
}

// sensitive has the JSON pointers of payload values that are hidden, by sink, of all sinks.
func sensitive(c *config.Config) map[string][]string {
	out := map[string][]string{}
	for name, s := range c.Sinks {
		out[name] = s.Sensitive
	}
	return out
}
