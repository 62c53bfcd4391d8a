package upstream

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// unsafeRequests must reach the target at most once, whatever breaks.
func unsafeRequests() map[string]*Request {
	key := []Field{{"Idempotency-Key", "k"}, {"X-Idempotency-Key", "k"}}
	return map[string]*Request{
		"PUT with body and key":  {Method: "PUT", Path: "/", Body: []byte("x"), HasBody: true, Header: key},
		"PUT empty with key":     {Method: "PUT", Path: "/", HasBody: true, Header: key},
		"POST without body, key": {Method: "POST", Path: "/", Header: key},
		"POST with body":         {Method: "POST", Path: "/", Body: []byte("x"), HasBody: true},
		"DELETE with key":        {Method: "DELETE", Path: "/", Header: key},
		"DELETE":                 {Method: "DELETE", Path: "/"},
		"PATCH with large body":  {Method: "PATCH", Path: "/", Body: bytes.Repeat([]byte("x"), 1<<20), HasBody: true, Header: key},
	}
}

func TestAWrittenRequestIsNotReplayedOverHTTP1(t *testing.T) {
	for name, r := range unsafeRequests() {
		for how, hangUp := range map[string]func(net.Conn){"closed": func(c net.Conn) { _ = c.Close() }, "reset": reset} {
			t.Run(name+", "+how, func(t *testing.T) {
				var seen atomic.Int32
				base := rawServer(t, func(n int, c net.Conn) {
					br := bufio.NewReader(c)
					for i := 0; ; i++ {
						req, err := readRequest(br)
						if err != nil {
							return
						}
						if req.Method != "GET" {
							seen.Add(1)
							hangUp(c)
							return
						}
						_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
					}
				})
				u := open(t, base)
				mustDo(t, u, get("/")) // leaves a connection that the next request reuses
				mustFail(t, u, r, FailProtocol, true)
				if n := seen.Load(); n != 1 {
					t.Errorf("the target saw it %d times", n)
				}
			})
		}
	}
}

func TestASafeRequestIsRepeatedOnAFreshConnection(t *testing.T) {
	base := rawServer(t, func(n int, c net.Conn) {
		br := bufio.NewReader(c)
		for i := 0; i < 2; i++ {
			if _, err := readRequest(br); err != nil || n == 0 && i == 1 {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	u := open(t, base)
	mustDo(t, u, get("/"))
	mustDo(t, u, get("/"))
}

func TestAConnectionThatTookNothingIsNoAttempt(t *testing.T) {
	var seen atomic.Int32
	base := rawServer(t, func(n int, c net.Conn) {
		br := bufio.NewReader(c)
		for {
			if _, err := readRequest(br); err != nil {
				return
			}
			seen.Add(1)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	u := open(t, base)
	tr := u.transport.(*transport).h1
	dial := tr.DialContext
	var first *deafConn
	var once sync.Once
	tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		once.Do(func() {
			first = &deafConn{Conn: c.(*countedConn).Conn}
			c = &countedConn{Conn: first}
		})
		return c, nil
	}
	mustDo(t, u, get("/"))
	first.deaf.Store(true)
	r := put("/", "x")
	r.Header = []Field{{"Idempotency-Key", "k"}}
	mustDo(t, u, r)
	if n := seen.Load(); n != 2 {
		t.Errorf("the target saw %d requests, want 2", n)
	}
}

// deafConn refuses writes once told so, without the reader noticing.
type deafConn struct {
	net.Conn
	deaf atomic.Bool
}

func (c *deafConn) Write(p []byte) (int, error) {
	if c.deaf.Load() {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

func TestAFreshConnectionThatTookNothingIsCertainlyUnsent(t *testing.T) {
	base := rawServer(t, func(_ int, c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	u := open(t, base)
	tr := u.transport.(*transport).h1
	dial := tr.DialContext
	tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		deaf := &deafConn{Conn: c.(*countedConn).Conn}
		deaf.deaf.Store(true)
		return &countedConn{Conn: deaf}, nil
	}
	mustFail(t, u, put("/", "x"), FailProtocol, false)
}

// rawH2C serves HTTP/2 by frames: answer is called for every request's HEADERS.
func rawH2C(t *testing.T, answer func(f *http2.Framer, h *http2.MetaHeadersFrame)) string {
	return rawServer(t, func(_ int, c net.Conn) { serveFrames(c, answer) })
}

// serveFrames serves one connection until it ends.
func serveFrames(c net.Conn, answer func(f *http2.Framer, h *http2.MetaHeadersFrame)) {
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f := http2.NewFramer(c, c)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_ = f.WriteSettings()
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = f.WriteSettingsAck()
			}
		case *http2.PingFrame:
			_ = f.WritePing(true, frame.Data)
		case *http2.MetaHeadersFrame:
			answer(f, frame)
		}
	}
}

func TestAWrittenRequestIsNotReplayedOverHTTP2(t *testing.T) {
	for name, r := range unsafeRequests() {
		for _, code := range []http2.ErrCode{http2.ErrCodeProtocol, http2.ErrCodeRefusedStream, http2.ErrCodeInternal} {
			t.Run(name+", "+code.String(), func(t *testing.T) {
				var seen atomic.Int32
				u := open(t, rawH2C(t, func(f *http2.Framer, h *http2.MetaHeadersFrame) {
					seen.Add(1)
					_ = f.WriteRSTStream(h.StreamID, code)
				}), func(c *Config) { c.Protocol = ProtocolH2C })
				mustFail(t, u, r, FailProtocol, true)
				if n := seen.Load(); n != 1 {
					t.Errorf("the target saw it %d times", n)
				}
			})
		}
	}
}

func TestRequestsWithoutBodySayWhatTheyCan(t *testing.T) {
	var got *http.Request
	u := open(t, serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r }))
	for _, row := range []struct {
		method string
		want   []string
	}{
		{"POST", []string{"0"}}, {"PUT", []string{"0"}}, {"DELETE", nil}, {"GET", nil},
	} {
		mustDo(t, u, &Request{Method: row.method, Path: "/"})
		if cl := got.Header["Content-Length"]; strings.Join(cl, ",") != strings.Join(row.want, ",") || len(got.TransferEncoding) > 0 {
			t.Errorf("%s: Content-Length %v, Transfer-Encoding %v", row.method, cl, got.TransferEncoding)
		}
	}
}
