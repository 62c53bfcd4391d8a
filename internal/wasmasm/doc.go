// Package wasmasm assembles small WebAssembly modules for tests: well-formed
// ones, and ones that are wrong or hostile on purpose. No program links it.
//
// It has three layers. Code and the functions that make it (code.go) are the
// instructions of a function's body, as bytes. Module (module.go) is a builder
// for everything else; what it can't express on purpose is done to its Sections.
// Guest (guest.go) is the frame of a Pawl plugin around the few instructions by
// which a test's plugin differs from one that behaves.
//
// Nothing is checked: a module is as valid as what was put into it.
package wasmasm
