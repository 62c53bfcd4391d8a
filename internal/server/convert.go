package server

import (
	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
)

// resource is r as clients see it. The payload is left to api.Mask.Show.
func (s *Server) resource(r *engine.Resource, history bool) api.Resource {
	d := &r.Desired
	out := api.Resource{
		Sink: r.Key.Sink, Key: r.Key.Name,
		Generation: d.Generation, Tombstone: d.Tombstone, PayloadHash: s.hash(r.Key, d.Hash),
		Conflict: d.Conflict, Deletion: d.Deletion, Suspend: d.Suspend,
		Direction: d.Direction, Origin: d.Origin, Owner: d.Owner, PutAt: d.PutAt,
		Retry: api.RetryOf(d.Retry), IdempotencyKey: d.IdempotencyKey,
		Status: s.status(r.Key, &r.Status, history),
	}
	if d.Order != (record.Order{}) {
		out.Order = &api.Order{Source: d.Order.Source, Epoch: d.Order.Epoch, Number: d.Order.Number}
	}
	return out
}

func (s *Server) status(key record.Key, st *record.Status, history bool) api.Status {
	out := api.Status{
		Generation: st.Generation, Phase: st.Phase, Reason: st.Reason, Message: st.Message, Attempts: st.Attempts,
		NextAt: st.NextAt, FailedAt: st.FailedAt, LookedAt: st.LookedAt, UpdatedAt: st.UpdatedAt,
		DriftPaths: st.DriftPaths, Suspended: st.Suspended, Command: st.Command,
	}
	if a := st.Acked; a != nil {
		out.Acked = &api.Acked{
			Generation: a.Generation, Hash: s.hash(key, a.Hash), Missing: a.Missing, Ref: a.Ref, UID: a.UID,
			Object: a.Object, Target: a.Target, At: a.At,
		}
	}
	if o := st.Observed; o != nil {
		out.Observed = &api.Observed{Hash: s.hash(key, o.Hash), Cursor: o.Cursor, At: o.At}
	}
	for _, a := range st.Attempted {
		out.Attempted = append(out.Attempted, api.Attempt{Generation: a.Generation, Hash: s.hash(key, a.Hash), Delete: a.Delete, Deadline: a.Deadline})
	}
	for _, c := range st.Conditions {
		out.Conditions = append(out.Conditions, api.Condition(c))
	}
	if !history {
		return out
	}
	for _, t := range st.History {
		out.History = append(out.History, api.Transition{
			At: t.At, Phase: t.Phase, Reason: t.Reason, Message: t.Message,
			Generation: t.Generation, TookSeconds: t.Took.Seconds(),
		})
	}
	return out
}

func (s *Server) sinkStatus(st *engine.SinkStatus) api.Sink {
	out := api.Sink{
		Totals: s.o.Totals.Of(st.Name),
		Name:   st.Name, Configured: st.Configured, Plugin: st.Plugin, Digest: st.Digest, Target: st.Target, Direction: st.Direction, NotReady: st.NotReady,
		Suspended: st.Suspended, SuspendReason: st.SuspendReason,
		Counts: st.Counts, InFlight: st.InFlight,
		Waiting: api.Waiting{Fresh: st.Waiting[0], Retry: st.Waiting[1], Check: st.Waiting[2]},
		Breaker: st.Breaker.String(), NextProbe: st.NextProbe, PausedUntil: st.PausedUntil,
		OldestUnacked: st.OldestUnacked,
		LastError:     st.LastError, LastErrorAt: st.LastErrorAt,
	}
	if st.LastError != "" {
		out.LastErrorStatus = st.LastErrorStatus.String()
	}
	return out
}

func putResult(r engine.PutResult) api.PutResult { return api.PutResult(r) }

// put is what p asks of the engine.
func put(key record.Key, p *api.PutRequest) engine.Put {
	out := engine.Put{
		Key: key, Payload: p.Bytes(), Conflict: p.Conflict, Deletion: p.Deletion,
		Suspend: p.Suspend, Direction: p.Direction, Owner: p.Owner, TakeOver: p.TakeOver, IfGeneration: p.IfGeneration,
		Retry: p.Retry.Record(), IdempotencyKey: p.IdempotencyKey,
	}
	if o := p.Order; o != nil {
		out.Order = record.Order{Source: o.Source, Epoch: o.Epoch, Number: o.Number}
		out.OrderPartial = o.Partial
	}
	return out
}
