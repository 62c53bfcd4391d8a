// Command kube is the plugin that keeps objects in a Kubernetes cluster by
// server-side apply. docs/plugins/kube.md documents config, keys and payloads.
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
		Name:            "kube",
		Version:         "1.0.0",
		ConfigSchema:    configSchema,
		PayloadSchema:   payloadSchema,
		ApplyConfirms:   true,
		ApplyIdempotent: true,
		FindsByKey:      true,
		ReportsUID:      true,
		ReportsContent:  true,
		Mark:            true,
		Undoable:        []pawl.Op{pawl.OpApply}, // what is deleted takes its dependents and its uid along
		UpstreamKinds:   []string{"kubernetes", "http"},
	}
}

func init() { pawl.Register(manifest(), &adapter{}) }

func main() {}
