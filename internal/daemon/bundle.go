package daemon

import (
	"errors"
	"io"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/pawlsync/pawl/config"
)

// diagnostics are what a debug bundle has of the daemon; they implement
// server.Diagnostics.
type diagnostics struct {
	inForce func() *config.Config
	metrics prometheus.Gatherer
	options Options
}

// Config implements server.Diagnostics.
func (d *diagnostics) Config() ([]byte, error) { return d.inForce().YAML() }

// Log implements server.Diagnostics.
func (d *diagnostics) Log() []byte { return d.options.recent.all() }

// Mask implements server.Diagnostics.
func (d *diagnostics) Mask(text string) string { return d.options.secrets.mask(text) }

// Metrics implements server.Diagnostics, also where metrics.enabled is false. What can't
// be collected is left out.
func (d *diagnostics) Metrics(w io.Writer) error {
	families, err := d.metrics.Gather()
	if len(families) == 0 {
		return err
	}
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(w, family); err != nil {
			return errors.Join(errors.New("the metrics can't be written"), err)
		}
	}
	return nil
}

// current is the configuration in force.
func (r *reloader) current() *config.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inForce
}

// put notes that c is in force.
func (r *reloader) put(c *config.Config) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inForce = c
}
