package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptrace"
	"strings"
	"sync"
	"syscall"
)

// fail builds a Failure. Text in it is free of credentials, or goes through redact.
func (u *Upstream) fail(kind FailureKind, maybeSent bool, format string, args ...any) *Failure {
	return &Failure{Upstream: u.config.Name, Kind: kind, Message: fmt.Sprintf(format, args...), MaybeSent: maybeSent}
}

// classify turns an error of the round trip or of reading the answer into a
// Failure.
func (u *Upstream) classify(ctx context.Context, err error, maybeSent bool, tokens []token) *Failure {
	kind, message := explain(ctx, err)
	return &Failure{Upstream: u.config.Name, Kind: kind, Message: redact(message, tokens), MaybeSent: maybeSent}
}

// explain sorts err and words it. The context comes first: what else went
// wrong is then a consequence.
func explain(ctx context.Context, err error) (FailureKind, string) {
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return FailTimeout, "no answer in time"
	case ctx.Err() != nil:
		return FailCancelled, "the request was cancelled"
	case errors.Is(err, errAddress):
		return FailDenied, err.Error()
	case isTLS(err):
		return FailTLS, tlsMessage(err)
	case errors.As(err, &dns):
		return FailDNS, dns.Error()
	case errors.As(err, &op) && op.Op == "dial":
		return FailConnect, err.Error()
	case errors.Is(err, context.DeadlineExceeded): // a transport's own deadline
		return FailTimeout, "no answer in time"
	case strings.Contains(err.Error(), "response headers exceeded"), strings.Contains(err.Error(), "response header list larger"):
		// net/http has no value to compare with, for either protocol.
		return FailTooLarge, fmt.Sprintf("the answer's headers exceed %d bytes", maxResponseHeaderBytes)
	}
	return FailProtocol, protocolMessage(err)
}

// isTLS reports whether err comes of the handshake or of the peer's refusal of
// our certificate, which TLS 1.3 reports later.
func isTLS(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error") {
		return true
	}
	var own tlsError
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	return errors.As(err, &own) || errors.As(err, &verify) || errors.As(err, &record) || errors.As(err, &unknown) || errors.As(err, &host)
}

// tlsMessage words a failed handshake, without net/http's words around it.
func tlsMessage(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Error()
	}
	return err.Error()
}

// protocolMessage words a connection that broke. What the target sent is cut
// off: net/http quotes malformed answers, and they may echo the request.
func protocolMessage(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the target reset the connection"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), strings.Contains(err.Error(), "server closed idle connection"):
		return "the target closed the connection before its answer was complete"
	case strings.Contains(err.Error(), "Request.Body was written"): // a hint for programmers
		return "the target refused the HTTP/2 stream or is going away"
	}
	message, _, _ := strings.Cut(err.Error(), `"`)
	return strings.TrimRight(message, ` :`)
}

// redact removes credentials from a message.
func redact(message string, tokens []token) string {
	for _, t := range tokens {
		message = strings.ReplaceAll(message, t.value, "[redacted]")
		message = strings.ReplaceAll(message, t.secret, "[redacted]")
	}
	return message
}

// journey follows one request over the connections that it was given, to know
// whether any of it may have left. net/http calls the hooks.
type journey struct {
	foreign bool // the transport is not ours: nothing is known without its hooks
	shared  bool // connections are HTTP/2 without TLS, which shows nowhere

	mu      sync.Mutex
	asked   bool         // for a connection
	got     bool         // one
	reused  bool         // the last one had served before
	conn    *countedConn // the last one; nil: nothing is known of its writes
	before  int64        // its writes when it was got
	already bool         // something left on an earlier one
	trace   httptrace.ClientTrace
}

func newJourney(foreign, shared bool) *journey {
	j := &journey{foreign: foreign, shared: shared}
	j.trace = httptrace.ClientTrace{GetConn: j.getConn, GotConn: j.gotConn}
	return j
}

func (j *journey) getConn(string) {
	j.mu.Lock()
	j.asked = true
	j.mu.Unlock()
}

func (j *journey) gotConn(info httptrace.GotConnInfo) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.already = j.leftLocked()
	j.got, j.reused, j.conn, j.before = true, info.Reused, nil, 0
	conn := info.Conn
	if t, ok := conn.(*tls.Conn); ok {
		if isH2(t) {
			return // shared by many requests: whose writes they are is not known
		}
		conn = t.NetConn()
	}
	if c, ok := conn.(*countedConn); ok && !j.shared {
		j.conn, j.before = c, c.writes.Load()
	}
}

// leftLocked reports whether anything may have left on any connection.
func (j *journey) leftLocked() bool {
	if j.already || !j.got {
		return j.already
	}
	return j.conn == nil || j.conn.writes.Load() != j.before
}

// maybeSent reports whether the target may have seen the request; false is
// certain. err is what the round trip ended with.
func (j *journey) maybeSent(err error) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.foreign && !j.asked {
		var op *net.OpError
		return !(errors.As(err, &op) && op.Op == "dial")
	}
	return j.leftLocked()
}

// staleConn reports whether the request met only a connection that the target
// had closed, without anything of it leaving: another one may do better.
func (j *journey) staleConn() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.got && j.reused && !j.leftLocked()
}
