package wasmhost

import (
	"errors"
	"fmt"
	"strings"
)

// Sentinels for errors.Is.
var (
	// ErrInvalid: the module is no plugin of this ABI, or its manifest is wrong.
	ErrInvalid = errors.New("invalid plugin")
	// ErrConfig: the plugin refused the sink's configuration.
	ErrConfig = errors.New("configuration refused")
	// ErrUnready: configure met a target that does not answer, or not now.
	ErrUnready = errors.New("target not ready")
	// ErrFault: the plugin broke the contract or trapped.
	ErrFault = errors.New("plugin fault")
	// ErrCacheDir: the folder of the compile cache can't be trusted or used.
	ErrCacheDir = errors.New("compile cache folder")
)

// Error is what New, Load and Open return.
type Error struct {
	Op     string // "new", "load", "open"
	Plugin string
	Sink   string // "" where none is involved
	Err    error  // wraps a sentinel of this package
	Hint   string // what to do about it, or ""
}

// Error names the operation, plugin, sink, cause and remedy.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("wasmhost: " + e.Op)
	if e.Plugin != "" {
		fmt.Fprintf(&b, " plugin %q", e.Plugin)
	}
	if e.Sink != "" {
		fmt.Fprintf(&b, " for sink %q", e.Sink)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// FaultKind sorts faults, for metrics.
type FaultKind string

// The kinds of fault. All but FaultDeadline cost the plugin its instance.
const (
	FaultTrap      FaultKind = "trap"      // unreachable, out of bounds, stack exhausted, …
	FaultExit      FaultKind = "exit"      // proc_exit
	FaultContract  FaultKind = "contract"  // unknown id, bad pointer, wrong return value
	FaultMalformed FaultKind = "malformed" // a message that does not decode
	FaultStuck     FaultKind = "stuck"     // holds calls, waits for nothing
	FaultStart     FaultKind = "start"     // an instance did not start: _initialize or configure
	FaultDeadline  FaultKind = "deadline"  // one call ran out of time with no host I/O pending
	FaultBudget    FaultKind = "budget"    // an entry took more CPU time than it may
	FaultDepth     FaultKind = "depth"     // calls nested too deep
)

// kindClosed is no fault: the entry was ended because the sink closes.
const kindClosed FaultKind = "closed"

// faultKinds lists every kind; a kind's place in it is its place in counters.
var faultKinds = [...]FaultKind{FaultTrap, FaultExit, FaultContract, FaultMalformed, FaultStuck, FaultStart, FaultDeadline, FaultBudget, FaultDepth}

// Fault is the error of a plugin that broke the contract or trapped. Its text
// is also the Message of the sink.Result that a call ends with.
type Fault struct {
	Plugin string
	Sink   string
	Key    string // of the call that was entered, or ""
	Kind   FaultKind
	Err    error
}

// Error names plugin, sink, key, kind and cause; it never holds payload.
func (f *Fault) Error() string {
	where := fmt.Sprintf("plugin %q", f.Plugin)
	if f.Sink != "" {
		where += fmt.Sprintf(", sink %q", f.Sink)
	}
	if f.Key != "" {
		where += fmt.Sprintf(", key %q", f.Key)
	}
	return fmt.Sprintf("%s: %s fault: %v", where, f.Kind, f.Err)
}

// Unwrap lets errors.Is find ErrFault and the cause.
func (f *Fault) Unwrap() []error { return []error{ErrFault, f.Err} }

// breach is what an import panics with when the guest breaks the contract.
// wazero unwinds the guest and returns it as the entry's error.
type breach struct {
	kind FaultKind
	err  error
}

func (b *breach) Error() string { return b.err.Error() }
func (b *breach) Unwrap() error { return b.err }

// violate ends the current entry with a fault. Only imports call it.
func violate(kind FaultKind, format string, args ...any) {
	panic(&breach{kind, fmt.Errorf(format, args...)})
}

// kindOf turns the error of an entry into a fault's kind and a one-line cause:
// wazero's own text goes on with a stack of the guest.
func kindOf(err error) (FaultKind, error) {
	if b := (*breach)(nil); errors.As(err, &b) {
		return b.kind, b.err
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	cause := strings.TrimPrefix(line, "wasm error: ")
	if cause == "unreachable" { // which of a target would mean something else
		cause = "it stopped itself (instruction unreachable), as after a panic or an abort; its log lines before this say why"
	}
	return FaultTrap, errors.New(cause)
}
