package daemon

import (
	"context"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/relay"
)

// allowedSender is a sender that changes only what the caller's grants allow. What it
// looks at is its own already.
type allowedSender struct {
	relay.Sender
	id *access.Identity
}

func (s allowedSender) may(key record.Key) error {
	return s.id.Check(access.Write, access.Resource(key.Sink, key.Name))
}

// PutBatch hands on what is allowed; the rest is answered with an *access.Denial.
func (s allowedSender) PutBatch(ctx context.Context, puts []engine.Put) ([]engine.BatchItem, error) {
	out := make([]engine.BatchItem, len(puts))
	allowed, at := make([]engine.Put, 0, len(puts)), make([]int, 0, len(puts))
	for i := range puts {
		if out[i].Err = s.may(puts[i].Key); out[i].Err == nil {
			allowed, at = append(allowed, puts[i]), append(at, i)
		}
	}
	if len(allowed) == 0 {
		return out, nil
	}
	done, err := s.Sender.PutBatch(ctx, allowed)
	if err != nil {
		return nil, err
	}
	for n, i := range at {
		out[i] = done[n]
	}
	return out, nil
}

// Delete deletes where that is allowed.
func (s allowedSender) Delete(ctx context.Context, d engine.Delete) (engine.PutResult, error) {
	if err := s.may(d.Key); err != nil {
		return engine.PutResult{}, err
	}
	return s.Sender.Delete(ctx, d)
}
