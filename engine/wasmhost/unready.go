package wasmhost

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost/abi"
)

// sinkManifest is what the engine is told of a sink whose plugin says m and whose
// target is called target.
func (p *Plugin) sinkManifest(m *abi.Manifest, target string) sink.Manifest {
	out := sink.Manifest{
		Name: m.Name, Version: m.Version, Digest: hex.EncodeToString(p.digest[:]), Target: target,
		Observes: m.Has(abi.OpObserve), Deletes: m.Has(abi.OpDelete),
		ApplyConfirms: m.ApplyConfirms, ApplyIdempotent: m.ApplyIdempotent,
		ReportsUID: m.ReportsUID, AsFoundComparable: m.AsFoundComparable,
		Polls: m.Has(abi.OpPoll), Compares: m.Has(abi.OpCompare), ReportsContent: m.ReportsContent,
		BatchMax: m.BatchMax,
		Marks:    m.Mark, Locks: m.Lock,
		RestoresApply:  slices.Contains(m.Undoable, abi.OpApply),
		RestoresDelete: slices.Contains(m.Undoable, abi.OpDelete),
	}
	if m.Overlap == abi.OverlapKeyPrefix {
		out.Overlap = func(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }
	}
	return out
}

// Unready returns what stands in for a sink that Open could not make yet, because
// of why: its manifest is what the plugin says of itself, and says that it is not
// ready. Give it to the engine, try Open again, and then replace it by what Open
// returned; see engine.ReplaceSink.
func (p *Plugin) Unready(why error) sink.Sink {
	m := p.sinkManifest(&p.manifest, "")
	if e := (*Error)(nil); errors.As(why, &e) {
		why = e.Err // the rest says what the sink's readers know
	}
	m.NotReady = cut(firstLine(why), maxMessage)
	return unready{m}
}

// unready answers calls that an engine does not make.
type unready struct{ manifest sink.Manifest }

var (
	_ sink.Participant = unready{}
	_ sink.Poller      = unready{}
	_ sink.Comparer    = unready{}
)

func (u unready) Manifest() sink.Manifest { return u.manifest }

func (u unready) answer() sink.Result {
	return sink.Result{Status: sink.Unreachable, Message: "not ready: " + u.manifest.NotReady, NotSent: true}
}

func (u unready) Observe(context.Context, *sink.Request) sink.Result { return u.answer() }
func (u unready) Apply(context.Context, *sink.Request) sink.Result   { return u.answer() }
func (u unready) Delete(context.Context, *sink.Request) sink.Result  { return u.answer() }
func (u unready) Restore(context.Context, *sink.Request) sink.Result { return u.answer() }
func (u unready) Unlock(context.Context, *sink.Request) sink.Result  { return u.answer() }
func (u unready) Poll(context.Context, string) (sink.Changes, sink.Result) {
	return sink.Changes{}, u.answer()
}

func (u unready) Compare(context.Context, *sink.Comparison) (sink.Difference, sink.Result) {
	return sink.Difference{}, u.answer()
}

func (u unready) Close(context.Context) error { return nil }
