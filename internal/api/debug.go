package api

import "time"

// BundleDir is the folder that all files of a debug bundle are in.
const BundleDir = "pawl-debug/"

// BundleIndexName is the file of a debug bundle that says what is in it. It is the last.
const BundleIndexName = "index.json"

// BundleIndex says what a debug bundle holds.
type BundleIndex struct {
	MadeAt  time.Time      `json:"madeAt"`
	Version string         `json:"version"` // of the daemon
	Keys    bool           `json:"keys"`    // keys, ids of sagas and texts of errors are shown
	Members []BundleMember `json:"members"`
}

// BundleMember is one file of a bundle.
type BundleMember struct {
	Name  string `json:"name"`
	What  string `json:"what"`
	Bytes int    `json:"bytes"`
	Error string `json:"error,omitempty"` // why it is missing
}
