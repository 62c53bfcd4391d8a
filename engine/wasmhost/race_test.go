//go:build race

package wasmhost_test

// race: these tests run with the race detector.
const race = true
