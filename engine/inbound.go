package engine

import (
	"fmt"

	"github.com/pawlsync/pawl/engine/record"
)

// intake are the resources that take in what their target has, by sink and name, for
// polls. Engine.mu guards it. Others take no memory here.
type intake map[string]map[string]struct{}

func (i intake) set(key record.Key, on bool) {
	names := i[key.Sink]
	switch {
	case on && names == nil:
		i[key.Sink] = map[string]struct{}{key.Name: {}}
	case on:
		names[key.Name] = struct{}{}
	case names != nil:
		delete(names, key.Name)
	}
}

func (i intake) has(key record.Key) bool {
	_, ok := i[key.Sink][key.Name]
	return ok
}

// canTakeIn says why d's direction is beyond what f's adapter can do, or nil. Of one
// that is not ready nobody knows yet; its resources will tell (R31).
func (f *fitting) canTakeIn(d *record.Desired) error {
	r := f.rules
	if !r.TakesIn(d) || r.Manifest.NotReady != "" || r.Manifest.ReportsContent && r.Manifest.Observes {
		return nil
	}
	return fmt.Errorf("%w: direction inbound or both needs an adapter that reports what the target has (reports_content in its manifest), and %q does not",
		ErrInvalid, r.Manifest.Name)
}
