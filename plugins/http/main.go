// Command http is the plugin that keeps objects behind an HTTP API: it looks
// with GET, writes with PUT, deletes with DELETE, or whatever its config says.
// README.md documents the config.
package main

import (
	_ "embed"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

//go:embed config.schema.json
var configSchema string

func manifest() pawl.Manifest {
	return pawl.Manifest{
		Name:            "http",
		Version:         "1.0.0",
		ConfigSchema:    configSchema,
		ApplyConfirms:   true,
		ApplyIdempotent: true,
		FindsByKey:      true,
		ReportsContent:  true,
		UpstreamKinds:   []string{"http"},
	}
}

func init() { pawl.Register(manifest(), &adapter{}) }

func main() {}
