// Package upstream is the only door between a plugin and the network: base
// addresses, credentials, TLS, allow-lists and limits are the host's, and a
// plugin names an upstream that was granted to it, never an address.
package upstream

import (
	"fmt"
	"time"
)

// Field is one header or trailer line.
type Field struct{ Name, Value string }

// Request is what a plugin asks for.
type Request struct {
	Method  string
	Path    string // path and query, starts with "/"; appended to the base URL, never resolved against it
	Header  []Field
	Body    []byte
	HasBody bool          // tells an empty body from none
	Timeout time.Duration // 0: the context's deadline alone
}

// Response is the target's answer, whole.
type Response struct {
	Status  int
	Header  []Field
	Body    []byte
	Trailer []Field
}

// FailureKind sorts requests that got no answer. The numbers are those of the ABI.
type FailureKind uint8

// The kinds of failure.
const (
	FailDNS       FailureKind = 1
	FailConnect   FailureKind = 2
	FailTLS       FailureKind = 3
	FailTimeout   FailureKind = 4
	FailDenied    FailureKind = 5
	FailTooLarge  FailureKind = 6
	FailCancelled FailureKind = 7
	FailProtocol  FailureKind = 8
)

var failureNames = [...]string{"none", "dns", "connect", "tls", "timeout", "denied", "too large", "cancelled", "protocol"}

// String names the kind.
func (k FailureKind) String() string {
	if int(k) < len(failureNames) {
		return failureNames[k]
	}
	return "unknown"
}

// Failure says why a request has no answer.
type Failure struct {
	Upstream  string
	Kind      FailureKind
	Message   string // never holds a credential
	MaybeSent bool   // the target may have seen the request
}

// Error names upstream, kind and cause.
func (f *Failure) Error() string {
	return fmt.Sprintf("upstream %q: %s: %s", f.Upstream, f.Kind, f.Message)
}
