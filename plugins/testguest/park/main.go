// Command park is a plugin whose calls wait as their payload says, for tests of
// the host: "500ms" parks the call at the host, "guest 5ms" waits for a timer
// of the guest. A payload that is no duration is rejected.
package main

import (
	"context"
	"strings"
	"time"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

type adapter struct{}

func wait(ctx context.Context, r *pawl.Request) error {
	text, guest := strings.CutPrefix(string(r.Payload), "guest ")
	d, err := time.ParseDuration(text)
	if err != nil {
		return pawl.Rejected(err.Error())
	}
	if !guest {
		return pawl.Sleep(ctx, d)
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (adapter) Observe(ctx context.Context, r *pawl.Request) (pawl.Observation, error) {
	return pawl.Observation{Exists: true, MatchDesired: pawl.Yes}, wait(ctx, r)
}

func (adapter) Apply(ctx context.Context, r *pawl.Request) (pawl.Observation, error) {
	return pawl.Observation{}, wait(ctx, r)
}

func (adapter) Delete(context.Context, *pawl.Request) error { return nil }

func init() {
	pawl.Register(pawl.Manifest{
		Name: "park", Version: "1",
		ApplyConfirms: true, ApplyIdempotent: true, FindsByKey: true,
	}, adapter{})
}

func main() {}
