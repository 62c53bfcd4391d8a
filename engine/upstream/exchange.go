package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
)

const (
	// maxRedirects are followed for one request.
	maxRedirects = 5
	// maxStaleConns is how many closed connections a request may meet before
	// it fails; none of them costs the target anything.
	maxStaleConns = 5
	// maxResponseHeaderBytes bounds the headers of an answer.
	maxResponseHeaderBytes = 256 << 10
	// firstReadBytes is what an answer gets before any of it came: a promise
	// of megabytes alone costs no memory.
	firstReadBytes = 64 << 10
)

// call is one admitted request.
type call struct {
	method string
	where  target
	header http.Header // the plugin's, then the host's too
	body   []byte
	tokens []token // the credentials that were sent
	sent   bool    // an earlier hop left
}

func tooLong(n int, most int64) error {
	return fmt.Errorf("the body has %d bytes, more than the %d that the upstream allows", n, most)
}

// exchange sends c, follows the redirects that may be followed, and reads the
// answer.
func (u *Upstream) exchange(ctx context.Context, c *call) (*Response, *Failure) {
	u.dress(c)
	for hops := 0; ; hops++ {
		res, failure := u.send(ctx, c)
		if failure != nil {
			return nil, failure
		}
		if next, ok := u.redirect(c, res); ok && hops < maxRedirects {
			discard(res)
			c.where, c.sent = next, true
			continue
		}
		defer res.Body.Close()
		return u.receive(ctx, c, res)
	}
}

// dress adds what is the host's: signature, credentials, user agent.
func (u *Upstream) dress(c *call) {
	if u.signer != nil {
		u.signer.sign(c.header, c.header.Get("Idempotency-Key"), c.body)
	}
	disarm(c.header)
	if len(c.header["User-Agent"]) == 0 {
		c.header["User-Agent"] = []string{u.userAgent}
	}
	for _, k := range u.credentials {
		t := k.token.get()
		c.header[k.header] = []string{t.value}
		c.tokens = append(c.tokens, t)
	}
}

// send makes the round trip. A connection that was closed before anything of
// the request left, or that turned out to be for HTTP/1.1, is no attempt at
// all: another one is taken.
func (u *Upstream) send(ctx context.Context, c *call) (*http.Response, *Failure) {
	for stale := 0; ; stale++ {
		j := newJourney(u.foreign, u.config.Protocol == ProtocolH2C)
		res, err := u.transport.RoundTrip(u.request(httptrace.WithClientTrace(ctx, &j.trace), c))
		if err == nil {
			return res, nil
		}
		if isFull(err) && ctx.Err() == nil {
			continue
		}
		again := j.staleConn() || errors.Is(err, errNotH2) && !u.maybeH2.Load()
		if again && stale < maxStaleConns && ctx.Err() == nil {
			continue
		}
		return nil, u.classify(ctx, err, c.sent || j.maybeSent(err), c.tokens)
	}
}

// isFull reports whether a connection of HTTP/2 had no stream left. net/http
// would then take another one, but can't rewind a body without GetBody, though
// it read nothing of it; since ours has none, this error means nothing else.
func isFull(err error) bool {
	return strings.Contains(err.Error(), "cannot rewind body after connection loss")
}

// request builds the request for net/http so that it finds no ground to
// replay it: no GetBody, ever; without a body, see emptyBody.
func (u *Upstream) request(ctx context.Context, c *call) *http.Request {
	req := &http.Request{
		Method: c.method,
		URL:    &url.URL{Scheme: u.base.Scheme, Host: u.base.Host, Path: c.where.decoded, RawPath: c.where.raw, RawQuery: c.where.query},
		Proto:  "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: c.header,
		Host:   u.base.Host,
	}
	switch {
	case len(c.body) > 0:
		req.Body = io.NopCloser(bytes.NewReader(c.body))
		req.ContentLength = int64(len(c.body))
	case u.maybeH2.Load() && !isSafe(c.method):
		req.Body = emptyBody{}
	}
	return req.WithContext(ctx)
}

// isSafe reports whether a method changes nothing at the target (RFC 9110, 9.2.1).
func isSafe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// emptyBody is a body without bytes that net/http does not know to be empty.
// Over HTTP/2 it would send a request without a body again when its stream is
// reset with PROTOCOL_ERROR, processed or not. Over HTTP/1.1 the disarmed
// headers suffice, and a known empty body gives "Content-Length: 0".
type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }
func (emptyBody) Close() error             { return nil }

// redirect returns where res leads, if it is a redirect that may be followed.
func (u *Upstream) redirect(c *call, res *http.Response) (target, bool) {
	switch res.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return target{}, false
	}
	location := res.Header["Location"]
	if c.method != http.MethodGet && c.method != http.MethodHead || len(c.body) > 0 || len(location) != 1 {
		return target{}, false
	}
	next, err := url.Parse(location[0])
	if err != nil {
		return target{}, false
	}
	here := &url.URL{Scheme: u.base.Scheme, Host: u.base.Host, Path: c.where.decoded, RawPath: c.where.raw}
	next = here.ResolveReference(next)
	if next.Scheme != u.base.Scheme || !sameHost(next, u.base) || next.User != nil || next.Opaque != "" {
		return target{}, false
	}
	to, ok := u.place.enter(next)
	return to, ok && u.allows(c.method, to) == nil
}

// sameHost reports whether two URLs of one scheme name the same host and port.
func sameHost(a, b *url.URL) bool {
	return strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	switch p := u.Port(); {
	case p != "":
		return p
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// discard drops an answer that nobody reads. A short rest is read, so that the
// connection can be used again.
func discard(res *http.Response) {
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10)
	_ = res.Body.Close()
}

// receive reads the answer.
func (u *Upstream) receive(ctx context.Context, c *call, res *http.Response) (*Response, *Failure) {
	if res.StatusCode == http.StatusSwitchingProtocols {
		return nil, u.fail(FailProtocol, true, "the target switched protocols, which nobody asked for")
	}
	most := u.config.ResponseMaxBytes
	length := res.ContentLength
	if c.method == http.MethodHead {
		length = 0 // it speaks of the body that a GET would have
	}
	if length > most {
		return nil, u.fail(FailTooLarge, true, "the answer has %d bytes, more than the %d that the upstream allows", length, most)
	}
	body, err := readBody(res.Body, length, most)
	if errors.Is(err, errTooLarge) {
		return nil, u.fail(FailTooLarge, true, "the answer has more than the %d bytes that the upstream allows", most)
	}
	if err != nil {
		return nil, u.classify(ctx, err, true, c.tokens)
	}
	out := &Response{Status: res.StatusCode, Header: fieldsOf(res.Header), Body: body, Trailer: fieldsOf(res.Trailer)}
	if out.echoes(c.tokens) {
		return nil, u.fail(FailDenied, true, "the answer repeats the upstream's credential and is withheld from the plugin; don't grant paths that echo requests")
	}
	return out, nil
}

var errTooLarge = errors.New("the answer is too large")

// readBody reads r to its end, where trailers come. length is what was
// announced, or -1; most is the limit.
func readBody(r io.Reader, length, most int64) ([]byte, error) {
	if length == 0 {
		return nil, expectEnd(r)
	}
	size := int64(512)
	if length > 0 {
		size = min(length, firstReadBytes)
	}
	buf := make([]byte, 0, size)
	for {
		if int64(len(buf)) == length {
			return buf, expectEnd(r)
		}
		if len(buf) == cap(buf) {
			next := min(2*int64(cap(buf)), most+1)
			if length > 0 {
				next = min(next, length)
			}
			buf = slices.Grow(buf, int(next)-len(buf))
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > most:
			return nil, errTooLarge
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return nil, err
		}
	}
}

// expectEnd reads the end of a body of which nothing is left.
func expectEnd(r io.Reader) error {
	if r == http.NoBody {
		return nil
	}
	n, err := io.ReadFull(r, make([]byte, 1))
	switch {
	case n > 0:
		return errors.New("the answer is longer than it announced")
	case err == io.EOF:
		return nil
	}
	return err
}

// echoes reports whether a credential that was sent stands in the answer, word
// for word. A target that encodes what it echoes is not caught by it.
func (r *Response) echoes(tokens []token) bool {
	for _, t := range tokens {
		for _, mark := range t.marks {
			if bytes.Contains(r.Body, mark) {
				return true
			}
			for _, fields := range [...][]Field{r.Header, r.Trailer} {
				if slices.ContainsFunc(fields, func(f Field) bool { return strings.Contains(f.Value, string(mark)) }) {
					return true
				}
			}
		}
	}
	return false
}
