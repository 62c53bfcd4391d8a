// Command things is a plugin for services that keep JSON objects behind HTTP:
// PUT, GET and DELETE on a path that is made of the resource's key.
package main

import (
	_ "embed"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

//go:embed config.schema.json
var configSchema string

func init() {
	pawl.Register(pawl.Manifest{
		Name:            "things",
		Version:         "1.0.0",
		ConfigSchema:    configSchema,
		PayloadSchema:   `{"type": "object"}`,
		ApplyConfirms:   true, // a 2xx proves that the target persisted it
		ApplyIdempotent: true, // the same PUT twice is harmless
		FindsByKey:      true, // the path is made of the key: never a second object
		UpstreamKinds:   []string{"http"},
	}, &adapter{})
}

func main() {} // never run: a plugin is a library
