package daemon

import (
	"context"
	"errors"
	"io"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/badger"
	"github.com/pawlsync/pawl/internal/api"
)

// storeOptions also reads the key of a sealed store, so that it can fail.
func storeOptions(c *config.Config, o Options) (badger.Options, error) {
	out := badger.Options{Dir: c.Store.Path, ReserveBytes: int64(c.Store.ReserveBytes), AcceptLoss: o.AcceptLoss, Logger: o.Logger}
	if file := c.Store.EncryptionKeyFile; file != "" {
		key, err := badger.ReadKey(file)
		if err != nil {
			return out, err
		}
		out.Key = key
	}
	return out, nil
}

// openStore opens the store that the configuration names, and keeps it for the API.
func (d *daemon) openStore(observer outbox.Observer) (outbox.Store, error) {
	opts, err := storeOptions(d.config, d.options)
	if err != nil {
		return nil, err
	}
	opts.Observer = observer
	s, err := badger.Open(opts)
	if err != nil {
		return nil, err
	}
	d.store = s
	return s, nil
}

// storeCare is the store as the API looks after it.
type storeCare struct{ *badger.Store }

// Backup implements server.Store.
func (s storeCare) Backup(ctx context.Context, w io.Writer, since api.StoreSince) error {
	_, err := s.Store.Backup(ctx, w, badger.Since(since))
	return misfit(err)
}

// misfit says of what does not fit that it is the caller's to mend.
func misfit(err error) error {
	if errors.Is(err, badger.ErrBackup) {
		return api.NewProblem(409, api.CodeConflict, err.Error(), "")
	}
	return err
}

// Export implements server.Store.
func (s storeCare) Export(ctx context.Context, w io.Writer, status bool) error {
	_, err := s.Store.Export(ctx, w, badger.ExportOptions{Status: status})
	return err
}

// Details implements server.Store.
func (s storeCare) Details(ctx context.Context) (api.StoreDetails, error) {
	f, err := s.Figures(ctx)
	if err != nil {
		return api.StoreDetails{}, err
	}
	return StoreDetails(&f), nil
}

// StoreDetails is f as the API says it.
func StoreDetails(f *badger.Figures) api.StoreDetails {
	out := api.StoreDetails{
		Directory: f.Directory, Format: f.Format, Epoch: f.Epoch, Revision: f.Revision, Lossy: f.Lossy, Restored: f.Restored, BackedUp: f.BackedUp, Key: f.Key,
		Resources: f.Resources(), Tombstones: f.Tombstones, Statuses: f.Statuses, Sinks: []api.StoreSink{},
		Disk:      api.StoreDisk{Tables: f.Tables, ValueLog: f.ValueLog, Logs: f.Logs, Journal: f.Journal, Aside: f.Aside},
		FreeBytes: f.Free, ReserveBytes: f.Reserve, GarbageBytes: f.Garbage,
	}
	for _, s := range f.Sinks {
		out.Sinks = append(out.Sinks, api.StoreSink(s))
	}
	return out
}
