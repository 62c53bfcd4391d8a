// Package abi encodes and decodes the messages of plugin ABI version 1, as the
// host sees them. The schema and the rules for every codec are in
// sdk/abi/pawl/plugin/v1/plugin.proto; golden vectors in sdk/abi/vectors pin
// this package and the SDKs to the same bytes.
//
// Appending never fails. Decoding takes bytes that a hostile plugin wrote: it
// returns an error that wraps ErrMalformed, never panics, and allocates in
// proportion to its input at most. Decoded values hold no part of the input.
package abi

import (
	"errors"
	"fmt"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/upstream"
)

// Version is what a plugin's pawl_abi returns.
const Version = 1

// ErrMalformed is what every decoding error wraps.
var ErrMalformed = errors.New("malformed message")

// Op says what a call is about.
type Op uint8

// The ops.
const (
	OpDescribe   Op = 1
	OpConfigure  Op = 2
	OpObserve    Op = 3
	OpApply      Op = 4
	OpDelete     Op = 5
	OpApplyBatch Op = 6
	OpPoll       Op = 7
	OpUnlock     Op = 8
	OpRestore    Op = 9
	OpCompare    Op = 10
)

var opNames = [...]string{"none", "describe", "configure", "observe", "apply", "delete", "apply_batch", "poll", "unlock", "restore", "compare"}

// String returns the op as logs and manifests name it.
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("op %d", uint8(o))
}

// IOKind is the kind of a host I/O.
type IOKind uint32

// The kinds of host I/O.
const (
	IOHTTP  IOKind = 1
	IOSleep IOKind = 2
)

// MaxAdapterState is how many bytes of adapter state an observation may carry.
const MaxAdapterState = 64 << 10

// MaxPairs is how many headers a request, and how many entries the meta of an
// observation, may have: two bytes of a message can be a pair that takes forty here.
const MaxPairs = 1000

// OverlapKeyPrefix is the overlap rule by which two items must not share a
// batch when the key of one is a prefix of the other's.
const OverlapKeyPrefix = "key-prefix"

// Manifest is what a plugin says of itself.
type Manifest struct {
	Name              string
	Version           string
	Ops               []Op
	ConfigSchema      string // JSON Schema
	PayloadSchema     string // JSON Schema; "": opaque bytes
	ApplyConfirms     bool
	ApplyIdempotent   bool
	FindsByKey        bool
	ReportsUID        bool
	AsFoundComparable bool
	Undoable          []Op   // which of apply and delete restore undoes
	Lock              bool   // takes a saga's locks with its write
	Mark              bool   // marks what a saga writes, and tells by Observation.Ours
	BatchMax          int    // items of one apply_batch; 0: no batches
	Overlap           string // "" or OverlapKeyPrefix
	UpstreamKinds     []string
	ReportsContent    bool // Observation.Content is the object in the form of a payload
}

// Has reports whether the plugin implements op.
func (m *Manifest) Has(op Op) bool {
	for _, o := range m.Ops {
		if o == op {
			return true
		}
	}
	return false
}

// UpstreamRef is what a plugin may know of an upstream: no credential.
type UpstreamRef struct{ Name, Kind, BaseURL string }

// Configure is the input of the first call that every instance gets.
type Configure struct {
	Sink      string
	Config    []byte // a JSON object
	Upstreams []UpstreamRef
}

// Result is one decoded answer.
type Result struct {
	sink.Result
	Target string // of configure
}

// HTTPRequest is a decoded request of a plugin to one of its upstreams.
type HTTPRequest struct {
	Upstream string
	upstream.Request
}
