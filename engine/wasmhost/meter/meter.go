// Package meter rewrites a WebAssembly module so that its host can bound what
// it costs: compiled code can't be interrupted from outside, so it has to ask.
//
// The rewritten module counts units of work, about one per instruction, before
// it does them, in a global that neither its code nor its exports can name. In
// every loop, in every recursion, and after much straight work it looks whether
// the count fell below zero, and calls the host if so. Instructions whose work
// depends on an operand (memory.fill and the like) are charged by it. Calls that
// may be part of a recursion count the stack that they take. A module that isn't
// understood in full is refused, as are indices outside of its own index spaces:
// they could become valid by what is added.
//
// What the module computes is the same as before. Custom sections are left out.
package meter

// The imports of a rewritten module: functions of the module Module.
const (
	Module = "pawl_meter"
	// Refill is called when fuel is below zero, and again until it no longer is;
	// its result (i64, above zero) is added to the fuel. The host need not return
	// from it: it may trap.
	Refill = "refill"
	// TooDeep is called when calls nest too deep. It must not return; if it does,
	// the module traps. After a trap the instance must not be used again.
	TooDeep = "too_deep"
)

// Rewrite returns the metered module. It is a pure function of its arguments.
//
// # Errors
//
// An *Error says where the module is damaged, makes use of what the rewriter
// doesn't know (exceptions, threads, tail calls, garbage collection, memory of 64 bits,
// more than one memory, a start section), or exceeds a limit. Types on the stack are
// not checked: whoever compiles the result does that.
func Rewrite(wasm []byte, l Limits) ([]byte, error) {
	l, err := l.withDefaults()
	if err != nil {
		return nil, err
	}
	m := &module{wasm: wasm, limits: l}
	if err := m.split(); err != nil {
		return nil, err
	}
	return m.rewrite()
}
