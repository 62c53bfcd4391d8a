package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"strconv"
	"time"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

// adapter serves one sink.
type adapter struct {
	cfg *config
}

// Configure reads the sink's config.
func (a *adapter) Configure(_ context.Context, c pawl.Config) (pawl.Configured, error) {
	cfg, err := readConfig(c)
	if err != nil {
		return pawl.Configured{}, err
	}
	a.cfg = cfg
	return pawl.Configured{Target: cfg.target(), Manifest: cfg.manifest()}, nil
}

// Observe asks what the other pawl holds.
func (a *adapter) Observe(ctx context.Context, r *pawl.Request) (pawl.Observation, error) {
	res, err := a.ask(ctx, "/v1/relay/look", r, &item{kind: look, key: r.Key, number: r.Generation, hash: r.ContentHash})
	if err != nil {
		return pawl.Observation{}, err
	}
	switch res.outcome {
	case missing:
		return pawl.Observation{}, nil
	case differs:
		o := seen(r, &res)
		o.MatchDesired, o.MatchAttempted = pawl.No, pawl.No
		for i := range r.Attempted {
			if bytes.Equal(r.Attempted[i].ContentHash, res.hash) {
				o.MatchAttempted = pawl.Yes
			}
		}
		return o, nil
	}
	if err := res.asError(); err != nil {
		return pawl.Observation{}, err
	}
	return seen(r, &res), nil
}

// seen is what a result says of a resource that is there.
func seen(r *pawl.Request, res *result) pawl.Observation {
	hash := res.hash
	if hash == nil {
		hash = r.ContentHash // it was just put
	}
	return pawl.Observation{Exists: true, Ref: res.ref, AsFound: hex.EncodeToString(hash), MatchDesired: pawl.Yes}
}

// Apply sends one resource.
func (a *adapter) Apply(ctx context.Context, r *pawl.Request) (pawl.Observation, error) {
	if r.Mode == pawl.CreateOnly {
		return pawl.Observation{}, pawl.Rejected("another pawl takes what it is sent: it can't be told to create only")
	}
	res, err := a.ask(ctx, "/v1/relay", r, putOf(r))
	if err == nil {
		err = res.asError()
	}
	if err != nil {
		return pawl.Observation{}, err
	}
	return seen(r, &res), nil
}

func putOf(r *pawl.Request) *item {
	return &item{kind: put, key: r.Key, number: r.Generation, payload: r.Payload}
}

// Delete has the other pawl delete.
func (a *adapter) Delete(ctx context.Context, r *pawl.Request) error {
	res, err := a.ask(ctx, "/v1/relay", r, &item{kind: remove, key: r.Key, number: r.Generation})
	if err == nil {
		err = res.asError()
	}
	return err
}

// ask sends one item.
func (a *adapter) ask(ctx context.Context, path string, r *pawl.Request, it *item) (res result, err error) {
	rest, err := a.say(ctx, path, r.Epoch, it.size()+maxHead, func(b []byte) []byte { return appendItem(b, it) })
	if err != nil {
		return res, err
	}
	msg, _, err := next(rest)
	if err == nil {
		res, err = readResult(msg)
	}
	if err != nil {
		return res, pawl.Retry(err.Error())
	}
	return res, nil
}

// asError is what a result means to the engine; nil: acknowledged. A deletion that is
// held, and a resource that is not processed yet, burn no attempt: they are asked for
// again when the receiver says.
func (r *result) asError() error {
	wait := time.Duration(r.millis) * time.Millisecond
	switch r.outcome {
	case done:
		return nil
	case waiting, later, held:
		return pawl.RetryAfter(wait, r.message)
	case failing:
		return pawl.Retry(r.message)
	case obsolete:
		return pawl.Obsolete(r.message)
	case refused:
		return pawl.Rejected(r.message)
	}
	return pawl.Retry("the other pawl answers in a way that this one does not know: outcome " + strconv.Itoa(int(r.outcome)))
}
