package daemon

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/metrics"
	"github.com/pawlsync/pawl/internal/server"
	"github.com/pawlsync/pawl/internal/source"
)

// reloader takes a configuration over while the daemon runs: it opens and checks all
// that can fail (draft.go), puts that in force (switch.go), and lets what was there come
// to its end. One goroutine, the watch, calls it, so that one reload follows the other.
type reloader struct {
	keeper   *keeper
	engine   *engine.Engine
	sources  *source.Manager
	server   *server.Server
	observer *metrics.Observer
	options  Options
	log      *slog.Logger

	read     func() (*config.Config, error)
	inForce  *config.Config // is written under mu; others than the watch read it by current
	rejected string         // what was wrong with the file when it was told last

	mu     sync.Mutex
	status api.ConfigStatus
}

func newReloader(c *config.Config, o Options) *reloader {
	return &reloader{options: o, log: o.Logger, read: o.Reload, inForce: c, status: api.ConfigStatus{File: c.File, LoadedAt: time.Now()}}
}

// Status is what the API shows.
func (r *reloader) Status() api.ConfigStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// reload reads the configuration, and puts it in force unless something is wrong with
// it; of a dry run it says what it would do.
func (r *reloader) reload(ctx context.Context, dryRun bool) api.Reload {
	out := api.Reload{DryRun: dryRun, File: r.inForce.File, At: time.Now(), Changes: []api.ConfigChange{}}
	next, err := r.read()
	if err != nil {
		return r.refuse(ctx, out, err)
	}
	merged := r.inForce.Over(next)
	out.File = next.File
	out.Changes = changesOf(config.Compare(r.inForce, merged), config.Compare(merged, next))
	d, err := openDraft(ctx, r.keeper.targets, r.inForce, merged, r.options, r.keeper.destined, func() *engine.Engine { return r.engine })
	if err != nil {
		return r.refuse(ctx, out, err)
	}
	d.tell(&out)
	if dryRun {
		if err := d.close(); err != nil {
			r.log.Error("what was opened to see what a reload would do could not be closed", "error", err)
		}
		return out
	}
	out.Problems = r.switchTo(ctx, d)
	r.put(merged)
	r.accept(&out)
	return out
}

// refuse leaves everything as it is.
func (r *reloader) refuse(ctx context.Context, out api.Reload, err error) api.Reload {
	out.Result = api.ReloadRefused
	out.Errors = errorsOf(err)
	if out.DryRun || ctx.Err() != nil { // the daemon ends: nothing is wrong with the file
		return out
	}
	r.observer.ReloadDone(out.Result, len(r.Status().Restart))
	text := err.Error()
	if r.rejected != text { // it is read again whenever somebody asks
		r.log.Error("the configuration changed and is refused; the one in force stays, whole", "file", out.File, "error", err)
	}
	r.rejected = text
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.RefusedAt, r.status.Errors = out.At, nil
	for _, e := range out.Errors {
		r.status.Errors = append(r.status.Errors, e.Text)
	}
	return out
}

// accept notes and tells that a configuration is in force.
func (r *reloader) accept(out *api.Reload) {
	var restart []string
	for _, c := range out.Changes {
		if c.Restart {
			restart = append(restart, c.Key)
		}
	}
	r.observer.ReloadDone(out.Result, len(restart))
	r.rejected = ""
	r.mu.Lock()
	told := slices.Equal(r.status.Restart, restart)
	r.status.File, r.status.RefusedAt, r.status.Errors, r.status.Restart = out.File, time.Time{}, nil, restart
	if out.Result == api.ReloadApplied {
		r.status.LoadedAt = out.At
	}
	r.mu.Unlock()
	if out.Result == api.ReloadApplied {
		r.log.Info("the configuration was taken over", "file", out.File, "sinks_added", out.Sinks.Added, "sinks_reopened", out.Sinks.Reopened, "sinks_changed", out.Sinks.Changed,
			"sinks_removed", out.Sinks.Removed, "sources_begun", out.Sources.Begun, "sources_ended", out.Sources.Ended, "took", time.Since(out.At).Round(time.Millisecond))
	}
	if len(restart) > 0 && !told {
		r.log.Warn("the configuration changed in what needs a restart; that stays as it is", "file", out.File, "keys", restart)
	}
	for _, p := range out.Problems {
		r.log.Error("a part of the configuration could not be taken over; the next reload tries it again", "problem", p)
	}
}

// changesOf are the differences that are taken over, and those that are left, by key.
func changesOf(taken, left []config.Difference) []api.ConfigChange {
	out := make([]api.ConfigChange, 0, len(taken)+len(left))
	for i, d := range slices.Concat(taken, left) {
		c := api.ConfigChange{Key: d.Key, Change: "changed", From: d.From, To: d.To, Restart: i >= len(taken)}
		switch {
		case d.Added:
			c.Change = "added"
		case d.Removed:
			c.Change = "removed"
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b api.ConfigChange) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// errorsOf takes apart what is wrong.
func errorsOf(err error) []api.ConfigError {
	wrong, ok := errors.AsType[config.Errors](err)
	if !ok {
		return []api.ConfigError{{Text: err.Error()}}
	}
	out := make([]api.ConfigError, len(wrong))
	for i, e := range wrong {
		out[i] = api.ConfigError{File: e.File, Line: e.Line, Column: e.Column, Key: e.Key, Text: e.Error()}
	}
	return out
}

// tell says what a draft would do.
func (d *draft) tell(out *api.Reload) {
	for _, m := range d.moves {
		name := m.post.name
		switch {
		case m.comes:
			out.Sinks.Added = append(out.Sinks.Added, name)
		case m.reopens:
			out.Sinks.Reopened = append(out.Sinks.Reopened, name)
		default:
			out.Sinks.Changed = append(out.Sinks.Changed, name)
		}
		if m.why != nil {
			out.Sinks.NotReady = append(out.Sinks.NotReady, name)
		}
	}
	out.Sinks.Removed = d.leaving
	out.Sources.Ended = d.ending
	for _, s := range d.beginning {
		out.Sources.Begun = append(out.Sources.Begun, s.Name)
	}
	out.Result = api.ReloadUnchanged
	taken := slices.ContainsFunc(out.Changes, func(c api.ConfigChange) bool { return !c.Restart })
	if taken || len(d.moves)+len(d.leaving)+len(d.ending)+len(d.beginning) > 0 {
		out.Result = api.ReloadApplied
	}
}
