// Command null is a plugin that does nothing and says OK at once, for tests and
// benchmarks of the host.
package main

import (
	"context"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

type adapter struct{}

func (adapter) Observe(context.Context, *pawl.Request) (pawl.Observation, error) {
	return pawl.Observation{Exists: true, MatchDesired: pawl.Yes}, nil
}

func (adapter) Apply(context.Context, *pawl.Request) (pawl.Observation, error) {
	return pawl.Observation{}, nil
}

func (adapter) Delete(context.Context, *pawl.Request) error { return nil }

func init() {
	pawl.Register(pawl.Manifest{
		Name: "null", Version: "1",
		ApplyConfirms: true, ApplyIdempotent: true, FindsByKey: true,
	}, adapter{})
}

func main() {}
