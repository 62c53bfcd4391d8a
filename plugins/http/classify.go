package main

import (
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

// maxExcerptBytes bounds what of an error's body goes into a message.
const maxExcerptBytes = 200

// classify turns a status other than 2xx into an error; nil is a 2xx.
func (cfg *config) classify(method string, resp *pawl.HTTPResponse, createOnly bool) error {
	s := resp.Status
	if s >= 200 && s <= 299 {
		return nil
	}
	e := &pawl.Error{Status: pawl.StatusRejected, Message: cfg.describe(method, resp)}
	switch {
	case s >= 300 && s <= 399:
		e.Message += "; a redirect is never a confirmation: give the upstream the address that it leads to"
	case s == 404 || s == 410:
		e.Status = pawl.StatusNotFound
	case s == 412 && createOnly:
		e.Status = pawl.StatusAlreadyExists
	case s == 409 || s == 412:
		e.Status = pawl.StatusConflict
	case s == 401 || s == 403:
		e.Status = pawl.StatusUnauthorized
	case s == 408 || s == 425 || s == 429 || s >= 500:
		e.Status = pawl.StatusRetry
		e.RetryAfter = retryAfter(resp, time.Now)
		e.WholeTarget = e.RetryAfter > 0 && (s == 429 || s == 503)
	case s < 200:
		e.Status = pawl.StatusRetry
	}
	return e
}

// describe says which status came, and where the sink's config allows it the
// beginning of what the target said of it: targets repeat values of the payload
// there, and messages are logged and kept.
func (cfg *config) describe(method string, resp *pawl.HTTPResponse) string {
	m := "the target answered " + strconv.Itoa(resp.Status) + " to " + method
	if resp.Status < 400 || len(resp.Body) == 0 {
		return m
	}
	if !cfg.excerpts {
		return m + "; set error_excerpts: true to see what the target said"
	}
	if e := excerpt(resp.Body); e != "" {
		m += ": " + e
	}
	return m
}

// excerpt is the beginning of body on one line, without what can't be printed.
func excerpt(body []byte) string {
	out := make([]byte, 0, maxExcerptBytes)
	space := false
	for len(body) > 0 {
		r, n := utf8.DecodeRune(body)
		body = body[n:]
		if r == utf8.RuneError && n == 1 || !unicode.IsPrint(r) || r == ' ' {
			space = len(out) > 0
			continue
		}
		need := utf8.RuneLen(r)
		if space {
			need++
		}
		if len(out)+need > maxExcerptBytes-len("…") {
			return string(append(out, "…"...))
		}
		if space {
			out = append(out, ' ')
			space = false
		}
		out = utf8.AppendRune(out, r)
	}
	return string(out)
}

// maxRetryAfter bounds what is understood of Retry-After; the engine bounds it further.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads the header of that name: seconds, or a date, which is
// reckoned from the response's own date, so that clocks need not agree.
func retryAfter(resp *pawl.HTTPResponse, now func() time.Time) time.Duration {
	v := resp.Header("Retry-After")
	if v == "" {
		return 0
	}
	if s, err := strconv.ParseUint(v, 10, 64); err == nil {
		return time.Duration(min(s, uint64(maxRetryAfter/time.Second))) * time.Second
	} else if n, ok := err.(*strconv.NumError); ok && n.Err == strconv.ErrRange {
		return maxRetryAfter
	}
	at, err := time.Parse(httpDate, v)
	if err != nil {
		return 0
	}
	from, err := time.Parse(httpDate, resp.Header("Date"))
	if err != nil {
		from = now()
	}
	return max(0, min(at.Sub(from), maxRetryAfter))
}

// httpDate is the one form of a date that servers may send (RFC 9110).
const httpDate = "Mon, 02 Jan 2006 15:04:05 GMT"
