// Command spicedb is the plugin that keeps relationships in SpiceDB.
// docs/plugins/spicedb.md documents config and payloads.
package main

import (
	_ "embed"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

//go:embed config.schema.json
var configSchema string

//go:embed payload.schema.json
var payloadSchema string

func manifest() pawl.Manifest {
	return pawl.Manifest{
		Name:            "spicedb",
		Version:         "1.0.0",
		ConfigSchema:    configSchema,
		PayloadSchema:   payloadSchema,
		ApplyConfirms:   true,
		ApplyIdempotent: true,
		FindsByKey:      true,
		BatchMax:        defaultBatch,
		Ops:             []pawl.Op{pawl.OpObserve, pawl.OpApply, pawl.OpDelete, pawl.OpApplyBatch},
		UpstreamKinds:   []string{"http"},
	}
}

func init() { pawl.Register(manifest(), &adapter{}) }

func main() {}
