package oci

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// What can be wrong, for errors.Is.
var (
	ErrReference    = errors.New("the reference can't be used")
	ErrNotFound     = errors.New("the registry has no such artifact")
	ErrUnauthorized = errors.New("no credentials that the registry takes")
	ErrNotWasm      = errors.New("not a wasm artifact")
	ErrTooLarge     = errors.New("the artifact is too large")
	ErrMismatch     = errors.New("what came is not what was named")
	ErrCache        = errors.New("the folder of pulled plugins can't be written")
	ErrRegistry     = errors.New("the registry could not be asked")
)

// Error is what went wrong with an artifact. It never holds a credential.
type Error struct {
	Op   string // "push" or "pull"
	Ref  string
	Err  error
	Hint string // what to do next; may be empty
}

func (e *Error) Error() string {
	s := e.Op + " " + e.Ref + ": " + e.Err.Error()
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// sentinels are those that a cause may wrap already.
var sentinels = []error{ErrReference, ErrNotFound, ErrUnauthorized, ErrNotWasm, ErrTooLarge, ErrMismatch, ErrCache}

// explain sorts what the registry's client said.
func explain(op, ref string, err error) error {
	e := &Error{Op: op, Ref: ref, Err: err}
	var kind error
	for _, s := range sentinels {
		if errors.Is(err, s) {
			kind = s
		}
	}
	if kind == nil {
		if kind = kindOf(err); kind != nil {
			e.Err = &sorted{kind, err}
		}
	}
	e.Hint = hintOf(kind, op, ref, err)
	return e
}

// kindOf is nil for what ended because the caller said so.
func kindOf(err error) error {
	response, answered := errors.AsType[*errcode.ErrorResponse](err)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil
	case answered && (response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden),
		errors.Is(err, auth.ErrBasicCredentialNotFound):
		return ErrUnauthorized
	case answered && response.StatusCode == http.StatusNotFound, errors.Is(err, errdef.ErrNotFound):
		return ErrNotFound
	case errors.Is(err, errdef.ErrSizeExceedsLimit):
		return ErrTooLarge
	case errors.Is(err, content.ErrMismatchedDigest), errors.Is(err, content.ErrTrailingData), errors.Is(err, io.ErrUnexpectedEOF),
		strings.Contains(err.Error(), "mismatch"): // the client has no name for the other ones
		return ErrMismatch
	}
	return ErrRegistry
}

func hintOf(kind error, op, ref string, err error) string {
	switch kind {
	case ErrReference:
		if op == "push" {
			return "write HOST/REPOSITORY:TAG; the digest is printed afterwards"
		}
		return "write HOST/REPOSITORY:TAG or HOST/REPOSITORY@sha256:DIGEST"
	case ErrUnauthorized:
		host, _, _ := strings.Cut(ref, "/")
		return "log in with `docker login " + host + "`, or name another config.json by $DOCKER_CONFIG"
	case ErrNotFound:
		if op == "push" {
			return "check that the repository exists and takes pushes"
		}
		return "check repository and tag; some registries say so too where credentials are missing"
	case ErrNotWasm:
		if op == "pull" {
			return "push plugins with `pawl plugin push`, or another tool that writes the media types " + ConfigType + " and " + LayerType
		}
	case ErrMismatch:
		return "do not use it: the registry, or what stands between, changed it; or the pin is wrong"
	case ErrRegistry:
		if strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
			return "it speaks plain HTTP; if that is right, say --plain-http"
		}
		return "check the host's name and that it can be reached"
	}
	return ""
}

// sorted is a cause with its kind; the message names both.
type sorted struct{ kind, cause error }

func (s *sorted) Error() string   { return s.kind.Error() + ": " + s.cause.Error() }
func (s *sorted) Unwrap() []error { return []error{s.kind, s.cause} }
