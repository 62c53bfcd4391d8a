package api

import (
	"errors"
	"net/http"
)

// Code names a kind of problem. Codes are stable: programs may branch on them.
type Code string

// The codes. docs/api.md has a section on each.
const (
	CodeBadRequest       Code = "bad-request"          // 400: not JSON, or not of the shape that is asked for
	CodeInvalid          Code = "invalid"              // 422: well-formed, but a value is not allowed
	CodeUnauthorized     Code = "unauthorized"         // 401
	CodeForbidden        Code = "forbidden"            // 403: another site's page, or a foreign Host
	CodeMissingScope     Code = "missing-scope"        // 403: the caller is known, and may not do this there
	CodeUndeclaredSender Code = "undeclared-sender"    // 403: of another pawl
	CodeNotFound         Code = "not-found"            // 404: no such resource
	CodeUnknownSink      Code = "unknown-sink"         // 404
	CodeNoRoute          Code = "no-such-route"        // 404
	CodeMethodNotAllowed Code = "method-not-allowed"   // 405
	CodeConflict         Code = "conflict"             // 409: ifGeneration does not match
	CodeOwned            Code = "owned"                // 409: another source owns the resource
	CodeKeyUsed          Code = "idempotency-key-used" // 409: the content changed, and its idempotency key did not
	CodeUnknownSource    Code = "unknown-source"       // 404
	CodeHeldChanged      Code = "held-changed"         // 409: what would be deleted is no longer what was shown
	CodeStale            Code = "stale"                // 409: overtaken by a newer change of its source
	CodeNothingToDo      Code = "nothing-to-do"        // 409: an order that has no object, such as accepting drift where there is none
	CodeHeld             Code = "held"                 // 409: a saga has the resource
	CodeBusy             Code = "busy"                 // 409: a saga's resource has work that waits
	CodeSagaMismatch     Code = "saga-mismatch"        // 409: another saga has that id
	CodeSagaRolledBack   Code = "saga-rolled-back"     // 409: its outcome, with the target's own answer
	CodeUnknownTemplate  Code = "unknown-template"     // 404
	CodeSinkUnavailable  Code = "sink-unavailable"     // 503: no saga may begin at a sink that is suspended or not ready
	CodeWatchExpired     Code = "watch-expired"        // 410: list again
	CodeTooLarge         Code = "too-large"            // 413
	CodeTooManyRequests  Code = "too-many-requests"    // 429: of a client, over server.limits
	CodeInternal         Code = "internal"             // 500
	CodeUnavailable      Code = "unavailable"          // 503: the store can't be read at the moment
	CodeClosed           Code = "closed"               // 503: the daemon is shutting down
	CodeNotReady         Code = "not-ready"            // 503: of /readyz
	CodeNoSpace          Code = "no-space"             // 507: the disk is nearly full
)

// ProblemTypeBase is what a problem's type starts with; its code follows.
const ProblemTypeBase = "https://github.com/pawlsync/pawl/blob/main/docs/api.md#"

// HintToken is the hint of an unauthorized caller that showed nothing. Clients put their
// own way to give a token in its place.
const HintToken = "send Authorization: Bearer <token>"

// Problem is an error of the API: RFC 9457, as application/problem+json.
type Problem struct {
	Type       string  `json:"type" format:"uri" doc:"Where this kind of problem is described."`
	Title      string  `json:"title" doc:"The status in words."`
	Status     int     `json:"status" doc:"The HTTP status."`
	Code       Code    `json:"code" doc:"The kind of problem; stable."`
	Detail     string  `json:"detail" doc:"What is wrong, and where."`
	Hint       string  `json:"hint,omitempty" doc:"What to do about it."`
	Generation *uint64 `json:"generation,omitempty" doc:"The resource's current generation, of conflict and stale; 0: it does not exist."`
	Line       int     `json:"line,omitempty" doc:"Line of the body where it is wrong, from 1."`
	Column     int     `json:"column,omitempty" doc:"Column there, in bytes, from 1."`
	RetryAfter int     `json:"retryAfter,omitempty" doc:"Seconds after which to try again, of too-many-requests; the header Retry-After says the same."`
	Saga       *Saga   `json:"saga,omitempty" doc:"Of saga-rolled-back: the saga, with the answer of the target that refused."`
}

// NewProblem returns a problem of that status and code.
func NewProblem(status int, code Code, detail, hint string) *Problem {
	return &Problem{
		Type: ProblemTypeBase + string(code), Title: http.StatusText(status), Status: status,
		Code: code, Detail: detail, Hint: hint,
	}
}

// Error is detail and hint.
func (p *Problem) Error() string {
	if p.Hint == "" {
		return p.Detail
	}
	return p.Detail + "; " + p.Hint
}

// GetStatus is the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType says that a problem travels as problem+json.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// CodeOf returns the code of the Problem that err is or wraps, else "".
func CodeOf(err error) Code {
	var p *Problem
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}
