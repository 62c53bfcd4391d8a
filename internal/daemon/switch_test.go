package daemon

import (
	"context"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/memory"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/internal/metrics"
	"github.com/pawlsync/pawl/internal/sagatemplate"
	"github.com/pawlsync/pawl/internal/server"
)

// newSwitch is a reloader with a sink web at its post, which the engine does not know,
// so that it refuses to change it.
func newSwitch(t *testing.T) *reloader {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{
		Store: func(o outbox.Observer) (outbox.Store, error) {
			return memory.Open(memory.NewDisk(), memory.Options{Observer: o})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close(context.WithoutCancel(t.Context())) })
	s, err := server.New(server.Options{Engine: e, Sagas: struct{ server.Sagas }{}})
	if err != nil {
		t.Fatal(err)
	}
	web := newPost("web", setupOf(withFights(1), "web", nil, nil))
	ts := &targets{
		upstreams: newParts(func(*upstream.Upstream) error { return nil }),
		modules:   newParts(func(*module) error { return nil }),
		posts:     map[string]*post{"web": web},
	}
	r := newReloader(withFights(1), Options{
		Logger: slog.New(slog.DiscardHandler), LogLevel: new(slog.LevelVar),
	})
	r.engine, r.server, r.observer = e, s, metrics.New(prometheus.NewRegistry())
	r.keeper = &keeper{targets: ts, engine: e, log: r.log, ctx: t.Context(), waits: map[*post]*wait{}}
	return r
}

// withFights is a configuration with a sink web that may be overwritten so often.
func withFights(n int) *config.Config {
	web := config.Sink{Plugin: "own"}
	web.FightsPerHour = n
	return &config.Config{Sinks: map[string]config.Sink{"web": web}, Log: config.Log{Level: "info"}}
}

func TestOptionsThatTheEngineRefusesAreTriedAgainByTheNextReload(t *testing.T) {
	r := newSwitch(t)
	next := withFights(7)
	for n := range 3 {
		merged := r.inForce.Over(next)
		d := &draft{was: r.inForce, config: merged, targets: r.keeper.targets, templates: &sagatemplate.Set{}}
		d.plan(r.keeper.destined)
		if len(d.moves) != 1 || d.moves[0].reopens {
			t.Fatalf("reload %d changes %+v, want the options of web alone", n, d.moves)
		}
		if problems := r.switchTo(t.Context(), d); len(problems) != 1 {
			t.Fatalf("reload %d: %q, want that web is not known", n, problems)
		}
		r.put(merged)
	}
	if got := next.Sinks["web"].FightsPerHour; got != 7 {
		t.Errorf("what was read says %d, want 7 as in the file", got)
	}
}
