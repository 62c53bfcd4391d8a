// Package wasmhost runs sink adapters that are WebAssembly plugins. It is the
// only importer of wazero.
//
// The way of a call: a Sink's method (sink.go) hands it to the sink's dispatcher
// (dispatch.go), which admits it by number and bytes and gives it to an
// instance. One goroutine owns an instance (owner.go): it enters the guest to
// start calls, to resume them when their host I/O is complete (io.go), to poll
// and to cancel (entry.go); the guest calls back through the imports
// (imports.go, wasi.go). A call parks while its I/O is under way, so that one
// instance serves thousands. When a guest breaks the contract or traps, its
// instance is discarded (fault.go says what becomes of its calls).
//
// Modules are rewritten by package meter before they are compiled (compile.go, in
// a process apart: compiler.go). So a guest comes to a checkpoint about every
// millisecond of its work (metering.go), where its budget (limits.go) and its
// share of the processors (processors.go) are seen to.
//
// The contract itself is sdk/abi/pawl/plugin/v1/plugin.proto and the package abi.
package wasmhost
