package conformance

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
)

// Stage is a sink with a target: the scripted store or a real one, behind a gate.
type Stage struct {
	name    string // of the sink
	fixture *Fixture
	config  json.RawMessage
	plugin  *wasmhost.Plugin
	store   *store // nil: the target is a real one
	gate    *gate
	line    *line
	book    *logbook
	sink    *wasmhost.Sink // nil until Open
	unknown []byte         // see wasmhost.SinkConfig.Unknown
	timeout time.Duration  // of calls
}

// stage prepares a sink of that name; Open opens it.
func (k *kit) stage(name string, config json.RawMessage) (*Stage, error) {
	f := k.options.Fixture
	s := &Stage{name: name, fixture: f, config: config, plugin: k.plugin, book: k.book, timeout: k.options.CallTimeout}
	var next http.Handler
	if f.Upstream.URL == "" {
		s.store = newStore(f.Store.Routes)
		next = s.store
	} else {
		target, err := parseTarget(f.Upstream.URL)
		if err != nil {
			return nil, fmt.Errorf("%w: upstream.url: %w", ErrFixture, err)
		}
		next = proxy(target, upstream.Protocol(f.Upstream.Protocol) == upstream.ProtocolH2C)
	}
	var err error
	if s.gate, err = openGate(next, mutates(f.Reads)); err != nil {
		return nil, err
	}
	if s.line, err = openLine(f, s.gate.base); err != nil {
		s.gate.close()
		return nil, err
	}
	return s, nil
}

// Open configures the plugin.
func (s *Stage) Open(ctx context.Context) (err error) {
	s.sink, err = s.openWith(ctx, s.config)
	return err
}

// openWith opens a sink with another config; the caller closes it.
func (s *Stage) openWith(ctx context.Context, config json.RawMessage) (*wasmhost.Sink, error) {
	return s.plugin.Open(ctx, wasmhost.SinkConfig{
		Name: s.name, Config: config, Upstreams: []wasmhost.Upstream{s.line},
		Limits: wasmhost.Limits{CallTimeout: s.timeout, StartTimeout: s.timeout}, Unknown: s.unknown,
	})
}

// Close ends the sink, its upstream and the gate.
func (s *Stage) Close() {
	if s.sink != nil {
		_ = s.sink.Close(context.Background())
	}
	s.line.close()
	s.gate.close()
}

// line is the sink's upstream. It can be cut, so that connecting is refused.
type line struct {
	*upstream.Upstream
	dead *upstream.Upstream
	cut  atomic.Bool
}

// deadURL is an address at which nothing listens: port 1 is reserved for a
// service that nobody runs.
const deadURL = "http://127.0.0.1:1"

func openLine(f *Fixture, base string) (*line, error) {
	c := upstream.Config{Name: f.Upstream.Name, Kind: f.Upstream.Kind, BaseURL: base, Protocol: upstream.Protocol(f.Upstream.Protocol)}
	if f.Upstream.BearerFile != "" {
		c.Credentials.Bearer = upstream.Secret{File: f.Upstream.BearerFile}
	}
	for name, file := range f.Upstream.HeaderFiles {
		c.Credentials.Headers = append(c.Credentials.Headers, upstream.HeaderCredential{Name: name, Secret: upstream.Secret{File: file}})
	}
	var o upstream.Options
	if c.Kind != upstream.KindHTTP {
		o.RoundTripper = &http.Transport{} // that kind's own transport is not the kit's business
	}
	up, err := upstream.Open(c, o)
	if err != nil {
		return nil, err
	}
	c.BaseURL = deadURL
	dead, err := upstream.Open(c, o)
	if err != nil {
		up.Close()
		return nil, err
	}
	return &line{Upstream: up, dead: dead}, nil
}

// Do sends a request, to nowhere while the line is cut.
func (l *line) Do(ctx context.Context, r *upstream.Request) (*upstream.Response, *upstream.Failure) {
	if l.cut.Load() {
		return l.dead.Do(ctx, r)
	}
	return l.Upstream.Do(ctx, r)
}

func (l *line) close() {
	l.Upstream.Close()
	l.dead.Close()
}

func nonce() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// fill puts a resource's key and {n} into a template. In JSON they are written
// as the inside of a string; {key.base64} is for targets that take keys so.
func fill(template, key, n string) string {
	encoded := base64.StdEncoding.EncodeToString([]byte(key))
	if json.Valid([]byte(template)) {
		raw, err := json.Marshal(key)
		if err == nil {
			key = string(raw[1 : len(raw)-1])
		}
	}
	return strings.NewReplacer("{key}", key, "{key.base64}", encoded, "{n}", n).Replace(template)
}

// outside sends a request to the target as somebody else would, past the plugin.
func (s *Stage) outside(ctx context.Context, q *Request, key, n string) error {
	path := strings.NewReplacer("{key}", escapePath(key), "{n}", n).Replace(q.Path)
	r := &upstream.Request{Method: q.Method, Path: path}
	for name, value := range q.Headers {
		r.Header = append(r.Header, upstream.Field{Name: name, Value: value})
	}
	if q.Body != nil {
		r.Body, r.HasBody = []byte(fill(string(q.Body), key, n)), true
	}
	res, failure := s.line.Upstream.Do(ctx, r)
	switch {
	case failure != nil:
		return failure
	case res.Status < 200 || res.Status > 299:
		return fmt.Errorf("the target answered %d to the fixture's %s %s", res.Status, q.Method, path)
	}
	return nil
}

// escapePath escapes a key for a path, each of its segments by itself.
func escapePath(key string) string {
	segments := strings.Split(key, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return strings.Join(segments, "/")
}
