package main

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

// checkKey refuses keys that make no path of one object.
func checkKey(key string) error {
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return pawl.Rejected("the key has a segment that is empty, \".\" or \"..\"; the target has no such names")
		}
	}
	return nil
}

// send makes a request without conditions.
func (a *adapter) send(ctx context.Context, r *pawl.Request, method, path string, body []byte) (*pawl.HTTPResponse, error) {
	return a.do(ctx, r, &pawl.HTTPRequest{Method: method, Path: path, Body: body})
}

// do makes a request and turns every answer but 2xx into an error.
func (a *adapter) do(ctx context.Context, r *pawl.Request, req *pawl.HTTPRequest) (*pawl.HTTPResponse, error) {
	if err := checkKey(r.Key); err != nil {
		return nil, err
	}
	if req.Upstream = a.upstream; req.Body != nil {
		req.Headers = append(req.Headers, pawl.Header{Name: "Content-Type", Value: "application/json"})
	}
	if a.is("fault-slow") {
		req.Timeout = 700 * time.Millisecond
	}
	resp, err := pawl.Do(ctx, req)
	if err != nil {
		return a.failed(err)
	}
	return resp, a.classify(req.Method, resp)
}

// failed is what becomes of a request without an answer.
func (a *adapter) failed(err error) (*pawl.HTTPResponse, error) {
	f := &pawl.Failure{}
	fine := &pawl.HTTPResponse{Status: 200, Body: []byte("{}")}
	switch {
	case !errors.As(err, &f):
	case a.is("fault-refused") && f.Kind == pawl.FailConnect,
		a.is("fault-reset") && strings.Contains(f.Message, "reset the connection"):
		return nil, pawl.Rejected("the target is away")
	case a.is("fault-truncated") && strings.Contains(f.Message, "before its answer was complete"),
		a.is("fault-slow") && f.Kind == pawl.FailTimeout:
		return fine, nil
	}
	return nil, err
}

// classify turns a status other than 2xx into an error.
func (a *adapter) classify(method string, resp *pawl.HTTPResponse) error {
	s := resp.Status
	if s >= 200 && s <= 299 || a.is("fault-redirect") && s < 400 {
		return nil
	}
	if s == 412 {
		return errChanged
	}
	e := &pawl.Error{Status: pawl.StatusRejected, Message: "the target answered " + strconv.Itoa(s) + " to " + method}
	switch {
	case s == 404:
		e.Status = pawl.StatusNotFound
	case s == 409 || s == 423:
		e.Status = pawl.StatusConflict
	case (s == 401 || s == 403) && !a.is("fault-401"):
		e.Status = pawl.StatusUnauthorized
	case s == 429 || s >= 500:
		e.Status = pawl.StatusRetry
		if n, err := strconv.Atoi(resp.Header("Retry-After")); err == nil {
			e.RetryAfter, e.WholeTarget = time.Duration(n)*time.Second, true
		}
	}
	switch {
	case a.is("fault-422") && s == 422:
		e.Status = pawl.StatusRetry
	case a.is("fault-429") && s == 429:
		e.RetryAfter = 0
	case a.is("fault-500") && s == 500:
		e.Status = pawl.StatusNotFound
	case a.is("fault-503") && s == 503:
		e.WholeTarget = false
	case a.is("messages"):
		e.Message = ""
	case a.is("no-payload-told"):
		e.Message += ": " + strconv.Quote(string(resp.Body))
	}
	return e
}
