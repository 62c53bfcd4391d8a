// Command pawl is the plugin that hands resources on to another pawl, which has them
// once it answered. docs/plugins/pawl.md documents its config, docs/relay.md what the
// two say to each other.
package main

import (
	_ "embed"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

//go:embed config.schema.json
var configSchema string

func manifest() pawl.Manifest {
	return pawl.Manifest{
		Name:              "pawl",
		Version:           "1.0.0",
		ConfigSchema:      configSchema,
		ApplyConfirms:     true,
		ApplyIdempotent:   true,
		FindsByKey:        true,
		AsFoundComparable: true,
		BatchMax:          defaultBatch,
		Ops:               []pawl.Op{pawl.OpObserve, pawl.OpApply, pawl.OpDelete, pawl.OpApplyBatch, pawl.OpCompare},
		UpstreamKinds:     []string{"http"},
	}
}

func init() { pawl.Register(manifest(), &adapter{}) }

func main() {}
