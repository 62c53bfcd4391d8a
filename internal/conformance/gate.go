package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Exchange is one HTTP request that reached the target's gate.
type Exchange struct {
	Method string `json:"method"`
	Path   string `json:"path"`            // and query, as they were sent
	Status int    `json:"status"`          // 0: it got no answer
	Fault  string `json:"fault,omitempty"` // what the kit did to it
	Error  string `json:"error,omitempty"` // why a real target gave no answer

	RequestHeader http.Header `json:"-"`
	RequestBody   []byte      `json:"-"`
	ResponseBody  []byte      `json:"-"`
}

// String shows the exchange in a line, without bodies.
func (e Exchange) String() string {
	s := e.Method + " " + e.Path + " → "
	if e.Status == 0 {
		s += "no answer"
	} else {
		s += strconv.Itoa(e.Status)
	}
	if e.Fault != "" {
		s += " (" + e.Fault + ")"
	}
	if e.Error != "" {
		s += " (the target: " + e.Error + ")"
	}
	return s
}

// fault breaks the exchanges that come while it is set. serve may pass the
// request on, or not.
type fault struct {
	name  string
	only  func(r *http.Request) bool // nil: all
	serve func(w http.ResponseWriter, r *http.Request, next http.Handler)
}

// gate is an HTTP server on loopback in front of the target.
type gate struct {
	next     http.Handler
	server   *http.Server
	base     string
	isWrite  func(r *http.Request) bool
	mu       sync.Mutex
	fault    *fault
	recorded []Exchange
	writes   int
}

// maxKept is how many exchanges a gate remembers.
const maxKept = 1000

// openGate starts a gate in front of next.
func openGate(next http.Handler, isWrite func(r *http.Request) bool) (*gate, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("the kit's target needs a port on loopback: %w", err)
	}
	g := &gate{next: next, base: "http://" + l.Addr().String(), isWrite: isWrite}
	g.server = &http.Server{Handler: g, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0), Protocols: new(http.Protocols)}
	g.server.Protocols.SetHTTP1(true)
	g.server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = g.server.Serve(l) }() // ends with close
	return g, nil
}

func (g *gate) close() { _ = g.server.Close() }

// proxy passes requests on to a real target, with what the upstream added; by
// HTTP/2 without TLS where h2c is set.
func proxy(target *url.URL, h2c bool) http.Handler {
	transport := &http.Transport{} // no proxy from the environment
	if h2c {
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetUnencryptedHTTP2(true)
	}
	return &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: transport,
		ErrorLog:  log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if a, ok := w.(*answerWriter); ok && !errors.Is(err, context.Canceled) {
				a.failure = err.Error()
			}
			panic(http.ErrAbortHandler)
		},
	}
}

// set makes f break all exchanges from now on; nil ends that.
func (g *gate) set(f *fault) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fault = f
}

// last returns the last n exchanges, oldest first.
func (g *gate) last(n int) []Exchange {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]Exchange(nil), g.recorded[max(0, len(g.recorded)-n):]...)
}

// writeCount is how many requests came that change the target.
func (g *gate) writeCount() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.writes
}

// ServeHTTP records the exchange and lets the fault have it, where one is set.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	f := g.fault
	if g.isWrite(r) {
		g.writes++
	}
	g.mu.Unlock()
	if f != nil && f.only != nil && !f.only(r) {
		f = nil
	}
	e := Exchange{Method: r.Method, Path: r.URL.RequestURI(), RequestHeader: r.Header.Clone()}
	body := &tee{ReadCloser: r.Body}
	r.Body = body
	rec := &answerWriter{ResponseWriter: w}
	defer func() {
		e.Status, e.Error, e.RequestBody, e.ResponseBody = rec.status, rec.failure, body.beginning(), rec.body.Bytes()
		g.keep(e)
	}()
	if f == nil {
		g.next.ServeHTTP(rec, r)
		return
	}
	e.Fault = f.name
	f.serve(rec, r, g.next)
}

func (g *gate) keep(e Exchange) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.recorded) >= maxKept {
		g.recorded = append(g.recorded[:0], g.recorded[maxKept/2:]...)
	}
	g.recorded = append(g.recorded, e)
}

// maxSeenBytes is how much of a body an exchange keeps.
const maxSeenBytes = 4 << 10

// tee keeps the beginning of what is read: a transport may go on reading when the
// exchange has its answer already.
type tee struct {
	io.ReadCloser
	mu   sync.Mutex
	seen bytes.Buffer
}

func (t *tee) beginning() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.seen.Bytes())
}

func (t *tee) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen.Write(p[:min(n, maxSeenBytes-t.seen.Len())])
	return n, err
}

// answerWriter keeps the status and the beginning of the body.
type answerWriter struct {
	http.ResponseWriter
	status  int
	body    bytes.Buffer
	failure string // why a real target gave no answer
}

func (w *answerWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *answerWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.body.Write(p[:min(len(p), maxSeenBytes-w.body.Len())])
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController find the connection.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// recorder takes an answer that is not to reach the client as it is.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func capture(next http.Handler, r *http.Request) *recorder {
	rec := &recorder{header: http.Header{}, status: http.StatusOK}
	next.ServeHTTP(rec, r)
	return rec
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }

// reset ends the connection so that the client sees no answer.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// status answers with a status, headers in pairs, and a body.
func status(code int, body string, header ...string) *fault {
	name := strconv.Itoa(code)
	return &fault{name: "the kit answers " + name, serve: func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.Copy(io.Discard, r.Body)
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}}
}

// resetBefore cuts the connection before the body is read.
func resetBefore() *fault {
	return &fault{name: "the kit cuts the connection", serve: func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { reset(w) }}
}

// resetAfter does what is asked, then cuts the connection instead of answering.
func resetAfter() *fault {
	return &fault{name: "the kit passes it on and cuts the connection", serve: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		capture(next, r)
		reset(w)
	}}
}

// truncated answers 200, but cuts the answer off within its body.
func truncated() *fault {
	return &fault{name: "the kit cuts off its answer", serve: func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"text":"and what`)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}}
}

// hold keeps requests without an answer until it is released or their client
// has gone; arrived gets a value for each.
type hold struct {
	arrived  chan struct{}
	released chan struct{}
	once     sync.Once
}

func newHold() *hold {
	return &hold{arrived: make(chan struct{}, 1000), released: make(chan struct{})}
}

func (h *hold) release() { h.once.Do(func() { close(h.released) }) }

func (h *hold) fault() *fault {
	return &fault{name: "the kit holds it", serve: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		// What is not read keeps net/http from noticing that the client has gone.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		h.arrived <- struct{}{}
		select {
		case <-h.released:
			next.ServeHTTP(w, r)
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}}
}

// mutates is how a gate tells writes at a real target, which it can't look into:
// by the method, but for the POSTs that the fixture calls reads.
func mutates(reads []string) func(r *http.Request) bool {
	return func(r *http.Request) bool {
		switch r.Method {
		case http.MethodPut, http.MethodPatch, http.MethodDelete:
			return true
		case http.MethodPost:
			for _, prefix := range reads {
				if strings.HasPrefix(r.URL.Path, prefix) {
					return false
				}
			}
			return true
		}
		return false
	}
}

// parseTarget reads the address of a real target.
func parseTarget(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("needs a URL such as http://127.0.0.1:8080/base")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("holds user information, a query or a fragment; give credentials as files in the fixture")
	}
	return u, nil
}
