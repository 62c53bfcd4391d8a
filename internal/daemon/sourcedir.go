package daemon

import (
	"log/slog"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/internal/source/dir"
)

// openDirSource makes a source of a directory.
func openDirSource(d *config.SourceDir, log *slog.Logger, name string) (*dir.Source, error) {
	o := dir.Options{Path: d.Path, Include: d.Include, Exclude: d.Exclude, Rescan: d.Rescan}
	if log != nil {
		o.Log = log.With("source", name)
	}
	if k := d.Kubernetes; k != nil {
		o.Kubernetes = &dir.Kubernetes{Sink: k.Sink, Key: k.Key}
	}
	return dir.New(o)
}
