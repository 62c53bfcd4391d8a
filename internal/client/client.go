// Package client talks to a Pawl daemon over its HTTP API.
//
// Errors read well as they are: what the daemon refused is an *api.Problem
// (api.CodeOf tells the kind), and a daemon that does not answer is an error
// that wraps ErrUnreachable and says how to start one.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/pawlsync/pawl/internal/api"
)

// DefaultAddress is where the daemon listens unless it was told otherwise.
const DefaultAddress = "http://127.0.0.1:7295"

// ErrUnreachable says that nothing answers at the daemon's address.
var ErrUnreachable = errors.New("no daemon answers")

// Options say where the daemon is. The zero value is the local one.
type Options struct {
	// Address is an http or https URL, "host:port", or "unix:///path/of/socket".
	// Defaults to DefaultAddress.
	Address string
	// Token is sent as a bearer token. Defaults to none.
	Token string
	// TLS configures https. Defaults to the system's certificate authorities.
	TLS *tls.Config
}

// Client talks to one daemon. It may be used from many goroutines.
type Client struct {
	base    *url.URL
	address string // as people know it
	token   string
	http    *http.Client
}

// New returns a client. It opens no connection.
func New(o Options) (*Client, error) {
	if o.Address == "" {
		o.Address = DefaultAddress
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	transport := &http.Transport{
		DialContext:         dialer.DialContext,
		TLSClientConfig:     o.TLS,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     time.Minute,
	}
	c := &Client{address: o.Address, token: o.Token, http: &http.Client{Transport: transport}}
	if path, ok := strings.CutPrefix(o.Address, "unix://"); ok {
		if path == "" {
			return nil, fmt.Errorf("the address %q has no path; write unix:///path/of/socket", o.Address)
		}
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		}
		c.base = &url.URL{Scheme: "http", Host: "localhost"}
		return c, nil
	}
	address := o.Address
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("%q is no address of a daemon; write http://host:port, https://host:port or unix:///path/of/socket", o.Address)
	}
	base.Path = strings.TrimSuffix(base.Path, "/")
	c.base = base
	return c, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call sends in as JSON (nil: no body) and reads the answer into out (nil: there is none).
func (c *Client) call(ctx context.Context, method, path string, query url.Values, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := encode(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	response, err := c.send(ctx, method, path, query, body, "application/json")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if out == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // so that the connection is used again
		return nil
	}
	if err := json.NewDecoder(response.Body).Decode(out); err != nil {
		return fmt.Errorf("the answer of the daemon at %s can't be read: %w", c.address, err)
	}
	return nil
}

// send returns the response where it is a success; else the problem as an error.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, body io.Reader, contentType string) (*http.Response, error) {
	u := *c.base
	u.RawPath = u.EscapedPath() + path // which callers have escaped where need be
	if plain, err := url.PathUnescape(path); err == nil {
		path = plain
	}
	u.Path += path
	u.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		request.Header.Set("Content-Type", contentType)
	}
	request.Header.Set("User-Agent", "pawl")
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if response.StatusCode/100 == 2 {
		return response, nil
	}
	defer response.Body.Close()
	return nil, c.refused(response)
}

// refused turns an answer that is no success into an error.
func (c *Client) refused(response *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	var p api.Problem
	if kind == "application/problem+json" && json.Unmarshal(body, &p) == nil && p.Detail != "" {
		if p.Code == api.CodeUnauthorized && p.Hint == api.HintToken {
			p.Hint = "give a token with --token-file or $PAWL_TOKEN"
		}
		return &p
	}
	if bytes.Contains(body, []byte("HTTP request to an HTTPS server")) {
		return fmt.Errorf("the daemon at %s has TLS; write https:// in its address", c.address)
	}
	return fmt.Errorf("%s answered %s, which is no answer of pawl's; is it the daemon's address?", c.address, response.Status)
}

func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var cause *url.Error
	if errors.As(err, &cause) {
		err = cause.Err // without method and URL, which say nothing new
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("%w at %s (%w); is it running? start it with `pawl run`, or name another with --address", ErrUnreachable, c.address, err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w at %s (%w); you need the right to open that socket", ErrUnreachable, c.address, err)
	}
	if what := tlsTrouble(err); what != "" && c.base.Scheme == "https" {
		return fmt.Errorf("%w at %s: %s (%w)", ErrUnreachable, c.address, what, err)
	}
	return fmt.Errorf("%w at %s: %w", ErrUnreachable, c.address, err)
}

// encode is JSON that leaves <, > and & as they are, so that payloads keep
// their bytes as far as JSON in JSON can.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("what is to be sent is not JSON: %w", err)
	}
	return b.Bytes(), nil
}
