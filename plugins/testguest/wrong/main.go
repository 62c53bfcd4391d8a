// Command wrong is a plugin that does on purpose what an adapter must not do:
// the sink's config names the fault, which has the name of the check of the
// conformance kit that is to find it. Without a fault it is a right adapter, of
// the kit's scripted store.
package main

import (
	"strconv"
	"strings"
	"time"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

// described is the fault of the manifest, which is told before any config is
// known: a test writes its name over the dots in the module's bytes.
var described = "fault-of-the-manifest:" + strings.TrimRight(patched[len("fault-of-the-manifest="):], ".")

// patched is a variable, and used as a whole, so that the compiler keeps it as it is.
var patched = "fault-of-the-manifest=................"

func manifest() pawl.Manifest {
	m := pawl.Manifest{
		Name: "wrong", Version: "1.0.0",
		ConfigSchema: `{"type": "object", "additionalProperties": false, "properties": {
			"fault": {"type": "string"}, "modest": {"type": "boolean"}}}`,
		PayloadSchema: `{"type": "object"}`,
		ApplyConfirms: true, ApplyIdempotent: true, FindsByKey: true, ReportsUID: true, AsFoundComparable: true,
		Undoable: []pawl.Op{pawl.OpApply, pawl.OpDelete}, Lock: true, Mark: true, ReportsContent: true,
		BatchMax: 5, UpstreamKinds: []string{"http"},
	}
	switch strings.TrimPrefix(described, "fault-of-the-manifest:") {
	case "manifest":
		m.Version, m.PayloadSchema = "", "an object"
	case "manifest-stable":
		m.Version = strconv.FormatInt(time.Now().UnixNano(), 36)
	}
	return m
}

func init() { pawl.Register(manifest(), &adapter{}) }

func main() {}
