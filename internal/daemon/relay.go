package daemon

import (
	"context"

	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/relay"
	"github.com/pawlsync/pawl/internal/server"
)

// receiver takes in what other pawls send, from those senders that a source of kind pawl
// declares at that time.
func (d *daemon) receiver(observer relay.Observer) server.Relay {
	return relay.New(relay.Options{
		Engine: d.engine, BatchMax: d.config.Limits.BatchMax, Observer: observer, Logger: d.options.Logger,
		Sender: func(ctx context.Context, name string) (relay.Sender, error) {
			if err := access.From(ctx).CheckSender(name); err != nil {
				return nil, err
			}
			s, err := d.sources.Sender(ctx, name)
			if err != nil {
				return nil, err // not a nil *Sender in an interface
			}
			s.Heard()
			return allowedSender{s, access.From(ctx)}, nil
		},
	})
}
