package config

import (
	"time"

	"github.com/pawlsync/pawl/engine/record"
)

// Source is one place where desired state comes from: exactly one of Dir, Kube,
// StateSync and Pawl is set.
type Source struct {
	Dir            *SourceDir            `key:"dir" doc:"A directory of YAML and JSON documents."`
	Kube           *SourceKube           `key:"kube" doc:"Objects of a Kubernetes cluster, of any kind."`
	StateSync      *SourceStateSync      `key:"statesync" doc:"The custom resources StateSync of a Kubernetes cluster."`
	Pawl           *SourcePawl           `key:"pawl" doc:"Other pawls that send their resources here, with the plugin pawl."`
	DeletionPolicy record.DeletionPolicy `key:"deletion_policy" oneof:"delete|ack-then-delete|retain" doc:"What becomes of a target's object when the source no longer has its resource, unless the resource says so itself. Empty: as the sink says."`
	Fuse           Fuse                  `key:"fuse" doc:"When deletions are held for somebody to confirm them."`
}

// Fuse bounds how much a source may delete by itself.
type Fuse struct {
	Window  time.Duration `key:"window" default:"1h" min:"1m" max:"168h" doc:"Deletions of the source are counted over this time."`
	Share   float64       `key:"share" default:"0.2" min:"0" max:"1" doc:"Share of the source's largest set within the window that may be deleted in it. What is beyond, and beyond at_least, waits for pawl source confirm. 1: everything."`
	AtLeast int           `key:"at_least" default:"10" min:"0" max:"1000000" unit:"resources" doc:"Deletions within the window that are always allowed."`
}

// SourcePawl is other pawls.
type SourcePawl struct {
	Senders []string `key:"senders" required:"yes" doc:"Names of the pawls that may send; edge-* stands for all that begin so. Each is a source of its own."`
	Sinks   []string `key:"sinks" doc:"The sinks that they may send to. Empty: all."`
}
