//go:build wasip1

package pawl

import (
	"runtime/debug"
	"unsafe"
)

// registered is the instance behind the exports: a wasm module is one instance
// by nature.
var registered *instance

func register(m Manifest, a Adapter) {
	// Memory of a guest never shrinks, and of thousands of parked calls most is
	// alive: collect early. Of a small heap collections are cheap anyway.
	debug.SetGCPercent(50)
	if registered != nil {
		panic("pawl: Register was called twice; a plugin has one adapter")
	}
	registered = newInstance(newPlugin(m, a), wasmImports{})
}

//go:wasmexport pawl_abi
func exportABI() int32 { return 1 }

//go:wasmexport pawl_start
func exportStart(op int32, call int64) int32 { return live().start(op, call) }

//go:wasmexport pawl_resume
func exportResume(io int64) int32 { return live().resume(io) }

//go:wasmexport pawl_poll
func exportPoll() int32 { return live().settle(false) }

//go:wasmexport pawl_cancel
func exportCancel(call int64) int32 { return live().cancel(call) }

func live() *instance {
	if registered == nil {
		panic("pawl: the plugin did not call pawl.Register in an init function")
	}
	return registered
}

//go:wasmimport pawl_v1 input_len
func importInputLen() int32

//go:wasmimport pawl_v1 input_read
func importInputRead(ptr unsafe.Pointer)

//go:wasmimport pawl_v1 result
func importResult(call int64, ptr unsafe.Pointer, n int32) int32

//go:wasmimport pawl_v1 io_start
func importIOStart(call int64, kind int32, ptr unsafe.Pointer, n int32) int64

//go:wasmimport pawl_v1 io_cancel
func importIOCancel(io int64)

//go:wasmimport pawl_v1 log
func importLog(call int64, level int32, ptr unsafe.Pointer, n int32)

// wasmImports are the real imports.
type wasmImports struct{}

func (wasmImports) input() []byte {
	n := importInputLen()
	if n <= 0 {
		return nil
	}
	b := make([]byte, n)
	importInputRead(unsafe.Pointer(&b[0]))
	return b
}

// result's answer says that the call has ended already: nothing to do about it.
func (wasmImports) result(call int64, msg []byte) {
	importResult(call, unsafe.Pointer(unsafe.SliceData(msg)), int32(len(msg)))
}

func (wasmImports) ioStart(call int64, kind int32, msg []byte) int64 {
	return importIOStart(call, kind, unsafe.Pointer(unsafe.SliceData(msg)), int32(len(msg)))
}

func (wasmImports) ioCancel(io int64) { importIOCancel(io) }

func (wasmImports) log(call int64, level int32, line string) {
	importLog(call, level, unsafe.Pointer(unsafe.StringData(line)), int32(len(line)))
}
