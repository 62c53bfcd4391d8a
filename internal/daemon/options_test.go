package daemon

import (
	"reflect"
	"testing"
	"time"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
)

// noZero fails for each field of v that is zero, but for those named: an option
// that the daemon forgets to carry over would be one.
func noZero(t *testing.T, v any, but ...string) {
	t.Helper()
	r := reflect.ValueOf(v)
next:
	for i := range r.NumField() {
		name := r.Type().Field(i).Name
		for _, b := range but {
			if b == name {
				continue next
			}
		}
		if r.Field(i).IsZero() {
			t.Errorf("%s.%s is set by nothing", r.Type(), name)
		}
	}
}

func TestEverySettingOfASinkReachesTheEngine(t *testing.T) {
	s := config.Sink{Plugin: "http", Sensitive: []string{"/a"}, Suspended: true, SinkSettings: config.SinkSettings{
		ConflictPolicy: record.ReportOnly, DeletionPolicy: record.Retain, MaxInFlight: 1, Rate: 2, Burst: 3, Timeout: 4,
		DriftInterval: 5, ReportInterval: 6, Retry: config.Retry{Base: 7, Max: 8, MaxAttempts: 9, Stall: 10},
		Breaker: config.Breaker{After: 11, ProbeBase: 12, ProbeMax: 13}, StartupCheck: false, StartupRate: 14, FightsPerHour: 15, Direction: record.Both, PollInterval: 26,
		Limits: config.SinkLimits{EntryCPU: 16, CPUShare: 0.5, MemoryMaxBytes: 1 << 20, MemoryTotalMaxBytes: 2 << 20, InstancesMax: 17, IdleTimeout: 18,
			StartTimeout: 19, InFlightMaxBytes: 20, MessageMaxBytes: 21, CallIOsMax: 22, IOsMax: 23, LogLines: 24, LogBytes: 25},
	}}
	got := sinkOptions("web", s)
	noZero(t, got, "Sink")
	want := engine.SinkOptions{Name: "web", Conflict: record.ReportOnly, Deletion: record.Retain, MaxInFlight: 1, Rate: 2, Burst: 3, Timeout: 4,
		DriftInterval: 5, ReportInterval: 6, SkipStartupCheck: true, StartupRate: 14, RetryBase: 7, RetryMax: 8, MaxAttempts: 9, StallRetry: 10,
		BreakerAfter: 11, BreakerProbeBase: 12, BreakerProbeMax: 13, FightsPerHour: 15, Direction: record.Both, PollInterval: 26, Suspended: true}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	s.DriftInterval, s.StartupCheck = 0, true
	if got := sinkOptions("web", s); got.DriftInterval >= 0 || got.SkipStartupCheck {
		t.Errorf("drift_interval 0 and startup_check true became %v and skip %v; want off and no skip", got.DriftInterval, got.SkipStartupCheck)
	}
	limits := sinkLimits(&config.Config{}, s)
	noZero(t, limits, "RecycleBytes")
	if limits != (wasmhost.Limits{CallTimeout: 4, MaxCalls: 1, EntryCPU: 16, CPUShare: 0.5, MemoryBytes: 1 << 20, SinkMemoryBytes: 2 << 20, MaxInstances: 17,
		IdleTimeout: 18, StartTimeout: 19, InFlightBytes: 20, MessageBytes: 21, CallIOs: 22, SinkIOs: 23, LogLines: 24, LogBytes: 25}) {
		t.Errorf("limits: %+v", limits)
	}
}

func TestAPluginMaySendWhatItsUpstreamAllows(t *testing.T) {
	c := &config.Config{Upstreams: map[string]config.Upstream{"big": {RequestMaxBytes: 100 << 20}}}
	got := sinkLimits(c, config.Sink{Upstreams: []string{"big"}})
	if got.MessageBytes <= 100<<20 {
		t.Errorf("messages of at most %d bytes can't carry a request of %d", got.MessageBytes, 100<<20)
	}
}

func TestEverySettingOfAnUpstreamReachesIt(t *testing.T) {
	u := config.Upstream{Kind: "http", BaseURL: "https://a", Protocol: "http2",
		TLS:  &config.UpstreamTLS{CAFile: "ca", CertFile: "cert", KeyFile: "key", ServerName: "b", InsecureSkipVerify: true},
		Sign: &config.Sign{StandardWebhooks: &config.StandardWebhooks{Secret: config.Secret{Value: "new"}, PreviousSecret: &config.Secret{Env: "OLD"}}},
		Credentials: &config.Credentials{
			Bearer: &config.Secret{File: "token"},
			Basic:  &config.BasicCredential{Username: "u", Password: config.Secret{Env: "P"}},
			Header: &config.HeaderCredential{Name: "X-Key", Secret: config.Secret{Value: "k"}},
		},
		AllowedMethods: []string{"GET"}, AllowedPathPrefixes: []string{"/v1"}, AllowedHeaders: []string{"X-A"},
		RequestMaxBytes: 1, ResponseMaxBytes: 2, MaxConcurrent: 3, Rate: 4, Timeout: 5, DialTimeout: 6 * time.Second}
	got := upstreamConfig("objects", u)
	noZero(t, got)
	noZero(t, got.TLS)
	noZero(t, got.Credentials)
	if want := (upstream.Webhook{Secrets: []upstream.Secret{{Value: "new"}, {Env: "OLD"}}}); !reflect.DeepEqual(got.Webhook, want) {
		t.Errorf("webhook secrets %+v, want %+v", got.Webhook, want)
	}
	want := upstream.Credentials{Bearer: upstream.Secret{File: "token"}, Basic: upstream.Basic{Username: "u", Password: upstream.Secret{Env: "P"}},
		Headers: []upstream.HeaderCredential{{Name: "X-Key", Secret: upstream.Secret{Value: "k"}}}}
	if !reflect.DeepEqual(got.Credentials, want) {
		t.Errorf("credentials %v, want %v", got.Credentials, want)
	}
	for in, want := range map[string]upstream.Protocol{"auto": upstream.ProtocolAuto, "http1": upstream.ProtocolHTTP1, "http2": upstream.ProtocolHTTP2, "h2c": upstream.ProtocolH2C} {
		if got := upstreamConfig("x", config.Upstream{Protocol: in}).Protocol; got != want {
			t.Errorf("protocol %s became %q, want %q", in, got, want)
		}
	}
}
