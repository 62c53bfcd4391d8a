//go:build race

// Package race tells tests whether the race detector watches them: what it makes
// ten times slower, or wants ten times the memory for, is shown without it.
package race

// Enabled reports whether this program was built with the race detector.
const Enabled = true
