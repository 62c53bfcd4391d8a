package pawl

import (
	"context"
	"errors"
	"time"
)

// Status says how a call ended. It is an error too, so that
// errors.Is(err, StatusConflict) works on whatever an adapter returns and a
// bare Status can be returned where no message is needed.
type Status uint8

// The statuses. All but StatusUnreachable are the target's own word.
const (
	StatusOK            Status = 1
	StatusNotFound      Status = 2  // of Observe: no such object; of Delete: success
	StatusAlreadyExists Status = 3  // a create met an object
	StatusConflict      Status = 4  // a precondition (etag, resourceVersion, uid) failed
	StatusRejected      Status = 5  // the target refuses this content for good
	StatusObsolete      Status = 6  // the target holds something newer
	StatusInProgress    Status = 7  // the target is deleting the object
	StatusUnauthorized  Status = 8  // the credentials were refused
	StatusRetry         Status = 9  // the target answered that it can't now
	StatusUnreachable   Status = 10 // no answer
)

var statusNames = [...]string{"unspecified", "ok", "not found", "already exists", "conflict", "rejected",
	"obsolete", "in progress", "unauthorized", "retry", "unreachable"}

// Error names the status.
func (s Status) Error() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "unknown status"
}

// Error is an outcome other than OK, with its reason. The functions below make
// the common ones.
type Error struct {
	Status  Status
	Message string // for people: what is wrong and what to do; never payload values
	// RetryAfter is what the target asked to wait; 0: nothing. It is sent in whole milliseconds, rounded up.
	RetryAfter time.Duration
	// WholeTarget: RetryAfter speaks for the target, not only for this object.
	WholeTarget bool
	// Err is the cause, for errors.Is and errors.As; it is not sent.
	Err error
}

// Error returns status and message.
func (e *Error) Error() string {
	if e.Message == "" {
		return e.Status.Error()
	}
	return e.Status.Error() + ": " + e.Message
}

// Is reports whether target is the error's Status.
func (e *Error) Is(target error) bool {
	s, ok := target.(Status)
	return ok && s == e.Status
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// NotFound says that the object does not exist.
func NotFound(message string) error { return &Error{Status: StatusNotFound, Message: message} }

// AlreadyExists says that a create met an object.
func AlreadyExists(message string) error {
	return &Error{Status: StatusAlreadyExists, Message: message}
}

// Conflict says that a precondition failed: the engine observes before it tries again.
func Conflict(message string) error { return &Error{Status: StatusConflict, Message: message} }

// Rejected says that the target refuses this content for good: the resource
// fails until its content changes.
func Rejected(message string) error { return &Error{Status: StatusRejected, Message: message} }

// Obsolete says that the target holds something newer than this generation.
func Obsolete(message string) error { return &Error{Status: StatusObsolete, Message: message} }

// InProgress says that the object is being deleted: the engine looks again until it is gone.
func InProgress(message string) error { return &Error{Status: StatusInProgress, Message: message} }

// Unauthorized says that the upstream's credentials were refused.
func Unauthorized(message string) error { return &Error{Status: StatusUnauthorized, Message: message} }

// Retry says that the target can't now; the engine backs off.
func Retry(message string) error { return &Error{Status: StatusRetry, Message: message} }

// RetryAfter is Retry with the time that the target asked to wait for this object.
func RetryAfter(d time.Duration, message string) error {
	return &Error{Status: StatusRetry, Message: message, RetryAfter: d}
}

// TargetRetryAfter is RetryAfter for the target as a whole: the sink pauses.
func TargetRetryAfter(d time.Duration, message string) error {
	return &Error{Status: StatusRetry, Message: message, RetryAfter: d, WholeTarget: true}
}

// Unreachable says that the target gave no answer.
func Unreachable(message string) error { return &Error{Status: StatusUnreachable, Message: message} }

// FailureKind sorts requests that got no answer.
type FailureKind uint8

// The kinds of failure.
const (
	FailDNS       FailureKind = 1
	FailConnect   FailureKind = 2
	FailTLS       FailureKind = 3
	FailTimeout   FailureKind = 4
	FailDenied    FailureKind = 5 // the host refuses: not granted, bad path, bad header
	FailTooLarge  FailureKind = 6 // the response is larger than the host allows
	FailCancelled FailureKind = 7
	FailProtocol  FailureKind = 8 // reset, truncated, malformed
)

var failureNames = [...]string{"no failure", "name lookup failed", "connection failed", "TLS failed", "timed out",
	"refused by the host", "response too large", "cancelled", "protocol error"}

// Failure is the error of a request that got no answer. Returned as it is from
// an adapter it becomes StatusUnreachable, but for FailDenied (StatusRejected)
// and FailTooLarge (StatusRetry: the target did answer).
type Failure struct {
	Kind      FailureKind
	Upstream  string
	Message   string
	MaybeSent bool // the target may have seen the request
}

// Error names upstream, kind and cause.
func (f *Failure) Error() string {
	kind := "failed"
	if int(f.Kind) < len(failureNames) {
		kind = failureNames[f.Kind]
	}
	s := "upstream \"" + f.Upstream + "\": " + kind
	if f.Message != "" {
		s += ": " + f.Message
	}
	return s
}

// Is makes a Failure match the Status that it becomes, and the errors of a
// context where it stands for one.
func (f *Failure) Is(target error) bool {
	switch target {
	case context.Canceled:
		return f.Kind == FailCancelled
	case context.DeadlineExceeded:
		return f.Kind == FailTimeout
	}
	s, ok := target.(Status)
	return ok && s == f.status()
}

func (f *Failure) status() Status {
	switch f.Kind {
	case FailDenied:
		return StatusRejected
	case FailTooLarge:
		return StatusRetry
	}
	return StatusUnreachable
}

// AsError finds out what an error of an adapter means to the engine. One that
// says nothing about itself is StatusRetry: the engine backs off and shows the
// message. A nil error is nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		if e.Status >= StatusOK && e.Status <= StatusUnreachable {
			return e
		}
		return &Error{Status: StatusRetry, Message: "the adapter returned an invalid status: " + e.Message}
	}
	if f, ok := errors.AsType[*Failure](err); ok {
		return &Error{Status: f.status(), Message: err.Error()}
	}
	if s, ok := errors.AsType[Status](err); ok && s >= StatusOK && s <= StatusUnreachable {
		return &Error{Status: s, Message: messageBeyond(err, s)}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &Error{Status: StatusUnreachable, Message: err.Error()}
	}
	return &Error{Status: StatusRetry, Message: err.Error()}
}

// messageBeyond is what err says apart from naming its status.
func messageBeyond(err error, s Status) string {
	if m := err.Error(); m != s.Error() {
		return m
	}
	return ""
}
