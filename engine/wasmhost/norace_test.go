//go:build !race

package wasmhost_test

const race = false
