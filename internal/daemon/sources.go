package daemon

import (
	"maps"
	"slices"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/internal/source"
)

// sourceGroup is how many resources of a source are put at once.
const sourceGroup = 1000

// openSources makes those sources of the configuration that are wanted, or says all
// that is wrong with them. They do nothing yet. running returns the engine, once a
// source runs.
func openSources(c *config.Config, o Options, running func() *engine.Engine, wanted map[string]bool) ([]source.Spec, config.Errors) {
	var specs []source.Spec
	var wrong config.Errors
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		s := c.Sources[name]
		spec := source.Spec{
			Name: name, Deletion: s.DeletionPolicy,
			Fuse: source.FuseOptions{Window: s.Fuse.Window, Share: s.Fuse.Share, AtLeast: s.Fuse.AtLeast},
		}
		if err := openSource(&spec, c, o, running); err != nil {
			wrong = append(wrong, c.Wrong("sources."+name, err.Error(), ""))
			continue
		}
		specs = append(specs, spec)
	}
	return specs, wrong
}

func allSources(c *config.Config) map[string]bool {
	out := map[string]bool{}
	for name := range c.Sources {
		out[name] = true
	}
	return out
}

// openSource makes one source, of whichever kind it is.
func openSource(spec *source.Spec, c *config.Config, o Options, running func() *engine.Engine) error {
	s := c.Sources[spec.Name]
	switch {
	case s.Dir != nil:
		src, err := openDirSource(s.Dir, o.Logger, spec.Name)
		spec.Kind, spec.Source = "dir", src
		return err
	case s.Kube != nil:
		src, err := openKubeSource(s.Kube, o)
		spec.Kind, spec.Source = "kube", src
		return err
	case s.StateSync != nil:
		src, err := openStateSyncSource(spec.Name, c, o, running)
		spec.Kind, spec.Source = "statesync", src
		return err
	}
	spec.Kind, spec.Senders, spec.Sinks = "pawl", s.Pawl.Senders, s.Pawl.Sinks // exactly one kind is set
	return nil
}
