package main

import (
	"context"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/pawlsync/pawl/plugins/spicedb/wire"
	pawl "github.com/pawlsync/pawl/sdk/go"
)

// The methods that are called.
const (
	methodRead   = "/authzed.api.v1.PermissionsService/ReadRelationships"
	methodWrite  = "/authzed.api.v1.PermissionsService/WriteRelationships"
	methodDelete = "/authzed.api.v1.PermissionsService/DeleteRelationships"
)

// frameHead is what precedes a message: a byte that says whether it is compressed, and
// four of its length.
const frameHead = 5

// newFrame is room for a message to be appended to.
func newFrame(capacity int) []byte { return make([]byte, frameHead, frameHead+capacity) }

// client speaks gRPC through the host, which knows HTTP alone.
type client struct{ upstream string }

// call sends one message, which has room for its head, and gives each message of
// the answer to each. timeout in milliseconds is what the server has for it; 0: no end.
func (c *client) call(ctx context.Context, method string, frame []byte, timeout uint32, each func([]byte) error) error {
	n := len(frame) - frameHead
	frame[1], frame[2], frame[3], frame[4] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
	headers := make([]pawl.Header, 0, 3)
	headers = append(headers, pawl.Header{Name: "Content-Type", Value: "application/grpc"}, pawl.Header{Name: "TE", Value: "trailers"})
	if timeout > 0 && timeout < 1e8 { // eight digits are the most; the unit is milliseconds
		headers = append(headers, pawl.Header{Name: "Grpc-Timeout", Value: strconv.Itoa(int(timeout)) + "m"})
	}
	resp, err := pawl.Do(ctx, &pawl.HTTPRequest{Upstream: c.upstream, Method: "POST", Path: method, Headers: headers, Body: frame})
	if err != nil {
		return err
	}
	if err := statusOf(resp); err != nil {
		return err
	}
	for b := resp.Body; len(b) > 0; {
		if len(b) < frameHead {
			return pawl.Retry("the server's answer ends in the middle of a message")
		}
		size := int(b[1])<<24 | int(b[2])<<16 | int(b[3])<<8 | int(b[4])
		if b[0] != 0 || size > len(b)-frameHead {
			return pawl.Retry("the server's answer is compressed, which nobody asked for, or cut off")
		}
		if err := each(b[frameHead : frameHead+size]); err != nil {
			return err
		}
		b = b[frameHead+size:]
	}
	return nil
}

// The codes of gRPC.
const (
	codeOK                 = 0
	codeUnknown            = 2
	codeInvalidArgument    = 3
	codeNotFound           = 5
	codeAlreadyExists      = 6
	codePermissionDenied   = 7
	codeResourceExhausted  = 8
	codeFailedPrecondition = 9
	codeAborted            = 10
	codeUnimplemented      = 12
	codeUnavailable        = 14
	codeUnauthenticated    = 16
)

var codeNames = [...]string{"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL",
	"UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"}

// failure is an answer other than OK.
type failure struct {
	code    int
	message string
	wire.Details
	pushback time.Duration // what the server asks to wait
}

// statusOf is nil of an OK, else a *failure, or what is wrong with an answer
// that is no gRPC. An answer without messages has its status among the headers.
func statusOf(resp *pawl.HTTPResponse) error {
	field := func(name string) string {
		for _, t := range resp.Trailers {
			if strings.EqualFold(t.Name, name) {
				return t.Value
			}
		}
		return resp.Header(name)
	}
	status := field("Grpc-Status")
	if status == "0" {
		return nil
	}
	code, err := strconv.Atoi(status)
	if err != nil || code < 0 || code >= len(codeNames) {
		return notGRPC(resp)
	}
	f := &failure{code: code, message: percentDecoded(field("Grpc-Message"))}
	if b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(field("Grpc-Status-Details-Bin"), "=")); err == nil {
		f.Details = wire.ReadDetails(b)
	}
	f.pushback = time.Duration(f.RetryAfter)
	if ms, err := strconv.ParseUint(field("Grpc-Retry-Pushback-Ms"), 10, 31); err == nil {
		f.pushback = time.Duration(ms) * time.Millisecond
	}
	return f
}

// notGRPC is about an answer by somebody who does not speak gRPC: a proxy, or a
// server that was met over HTTP/1.1.
func notGRPC(resp *pawl.HTTPResponse) error {
	e := &pawl.Error{Status: pawl.StatusRetry, Message: "the target answered " + strconv.Itoa(resp.Status) +
		" and no gRPC status; check the upstream's address and its protocol (h2c, or http2 with TLS)"}
	switch {
	case resp.Status == 401 || resp.Status == 403:
		e.Status = pawl.StatusUnauthorized
	case resp.Status == 429 || resp.Status == 503:
		if s, err := strconv.ParseUint(resp.Header("Retry-After"), 10, 31); err == nil && s > 0 {
			e.RetryAfter, e.WholeTarget = time.Duration(s)*time.Second, true
		}
	}
	return e
}

// Error names code, reason and what the server said.
func (f *failure) Error() string {
	s := "SpiceDB answered " + codeNames[f.code]
	if reason := strings.TrimPrefix(f.Reason, "ERROR_REASON_"); reason != "" && reason != "UNSPECIFIED" {
		s += " (" + reason + ")"
	}
	if f.aboutContext() {
		s += ": the context of a caveat does not suit the caveat's parameters"
		if name := f.parameter(); name != "" {
			s += "; see " + name
		}
		return s
	}
	if f.message != "" {
		s += ": " + excerpt(f.message)
	}
	return s
}

// aboutContext reports whether what the server says repeats values of a caveat's
// context, which may be secret. Of a value that is of the wrong type it speaks without
// a reason, as of an error that it does not know.
func (f *failure) aboutContext() bool {
	switch f.Reason {
	case "ERROR_REASON_CAVEAT_PARAMETER_TYPE_ERROR", "ERROR_REASON_MAX_RELATIONSHIP_CONTEXT_SIZE", "ERROR_REASON_CAVEAT_EVALUATION_ERROR":
		return true
	}
	return f.code == codeUnknown && (strings.HasPrefix(f.message, wrongParameter) || strings.HasPrefix(f.message, unknownParameter))
}

const (
	wrongParameter   = "could not convert context parameter `"
	unknownParameter = "unknown parameter `"
)

// parameter is the name of the caveat's parameter that a failure is about, "" where it is not said.
func (f *failure) parameter() string {
	if name := f.Metadata["parameter_name"]; name != "" {
		return name
	}
	if i := strings.IndexByte(f.message, '`'); i >= 0 && f.code == codeUnknown {
		if name, _, ok := strings.Cut(f.message[i+1:], "`"); ok && len(name) <= 64 {
			return name
		}
	}
	return ""
}

// maxExcerptBytes bounds what of a server's message goes into ours.
const maxExcerptBytes = 400

func excerpt(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if len(s) > maxExcerptBytes {
		s = strings.ToValidUTF8(s[:maxExcerptBytes], "") + "…"
	}
	return s
}

// asError is what a failure means to the engine.
func (f *failure) asError() *pawl.Error {
	e := &pawl.Error{Status: pawl.StatusRetry, Message: f.Error(), Err: f}
	switch f.code {
	case codeUnknown:
		if f.aboutContext() {
			e.Status = pawl.StatusRejected
		}
	case codeInvalidArgument, codeNotFound, codeUnimplemented:
		e.Status = pawl.StatusRejected
		if most := f.Metadata["maximum_updates_allowed"]; most != "" {
			e.Message += "; set update_limit to " + most
		}
	case codeAlreadyExists:
		e.Status = pawl.StatusAlreadyExists
	case codePermissionDenied, codeUnauthenticated:
		e.Status = pawl.StatusUnauthorized
	case codeFailedPrecondition:
		switch f.Reason {
		case "ERROR_REASON_WRITE_OR_DELETE_PRECONDITION_FAILURE":
			e.Status = pawl.StatusConflict
		case "ERROR_REASON_INVALID_CURSOR":
		default:
			e.Status = pawl.StatusRejected
		}
	case codeResourceExhausted, codeUnavailable:
		e.RetryAfter, e.WholeTarget = f.pushback, f.pushback > 0
	}
	return e
}

// unknownSchema reports whether SpiceDB does not know a definition or a relation
// that a request names. Rows of such can't exist: SpiceDB lets none go while it has rows.
func (f *failure) unknownSchema() bool {
	switch f.Reason {
	case "ERROR_REASON_UNKNOWN_DEFINITION", "ERROR_REASON_UNKNOWN_RELATION_OR_PERMISSION":
		return true
	}
	return false
}

// percentDecoded decodes a grpc-message. What is no escape stands for itself.
func percentDecoded(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b = append(b, byte(c))
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}
