package server

import (
	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
)

// resource is r as clients see it. The payload is left to api.Mask.Show.
func resource(r *engine.Resource, history bool) api.Resource {
	d := &r.Desired
	out := api.Resource{
		Sink: r.Key.Sink, Key: r.Key.Name,
		Generation: d.Generation, Tombstone: d.Tombstone, PayloadHash: d.Hash.Hex(),
		Conflict: d.Conflict, Deletion: d.Deletion, Suspend: d.Suspend,
		Direction: d.Direction, Origin: d.Origin, Owner: d.Owner, PutAt: d.PutAt,
		Retry: api.RetryOf(d.Retry), IdempotencyKey: d.IdempotencyKey,
		Status: status(&r.Status, history),
	}
	if d.Order != (record.Order{}) {
		out.Order = &api.Order{Source: d.Order.Source, Epoch: d.Order.Epoch, Number: d.Order.Number}
	}
	return out
}

func status(s *record.Status, history bool) api.Status {
	out := api.Status{
		Generation: s.Generation, Phase: s.Phase, Reason: s.Reason, Message: s.Message, Attempts: s.Attempts,
		NextAt: s.NextAt, FailedAt: s.FailedAt, LookedAt: s.LookedAt, UpdatedAt: s.UpdatedAt,
		DriftPaths: s.DriftPaths, Suspended: s.Suspended, Command: s.Command,
	}
	if a := s.Acked; a != nil {
		out.Acked = &api.Acked{
			Generation: a.Generation, Hash: a.Hash.Hex(), Missing: a.Missing, Ref: a.Ref, UID: a.UID,
			Object: a.Object, Target: a.Target, At: a.At,
		}
	}
	if o := s.Observed; o != nil {
		out.Observed = &api.Observed{Hash: o.Hash.Hex(), Cursor: o.Cursor, At: o.At}
	}
	for _, a := range s.Attempted {
		out.Attempted = append(out.Attempted, api.Attempt{Generation: a.Generation, Hash: a.Hash.Hex(), Delete: a.Delete, Deadline: a.Deadline})
	}
	for _, c := range s.Conditions {
		out.Conditions = append(out.Conditions, api.Condition(c))
	}
	if !history {
		return out
	}
	for _, t := range s.History {
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
