package upstream

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// burst sends n requests at once to a target that answers none before it has
// as many as together. It returns how many connections came to a state.
func burst(t *testing.T, n, together int, state http.ConnState, change func(*httptest.Server)) int32 {
	var conns, arrived atomic.Int32
	all := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.TransferEncoding != nil || r.ProtoMajor == 1 && r.Header.Get("Content-Length") != "0" {
			t.Errorf("%s: Content-Length %q, Transfer-Encoding %v", r.Proto, r.Header.Get("Content-Length"), r.TransferEncoding)
		}
		if arrived.Add(1) == int32(together) {
			close(all)
		}
		<-all
	}))
	s.Config.ConnState = func(_ net.Conn, now http.ConnState) {
		if now == state {
			conns.Add(1)
		}
	}
	change(s)
	s.StartTLS()
	t.Cleanup(s.Close)
	u := open(t, s.URL, func(c *Config) { c.TLS.InsecureSkipVerify = true })
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if _, f := u.Do(context.Background(), &Request{Method: "POST", Path: "/"}); f != nil && !strings.Contains(f.Message, "refused the HTTP/2 stream") {
				t.Error(f) // a stream may be refused before the server's limit is known
			}
		})
	}
	wg.Wait()
	return conns.Load()
}

func TestABurstOverHTTP2MakesFewConnections(t *testing.T) {
	conns := burst(t, 400, 400, http.StateNew, func(s *httptest.Server) { s.EnableHTTP2 = true })
	if conns > maxLanes {
		t.Errorf("400 requests made %d connections", conns)
	}
}

func TestAServerThatAllowsFewStreamsAnswersAll(t *testing.T) {
	burst(t, 400, 10, http.StateNew, func(s *httptest.Server) {
		s.EnableHTTP2 = true
		s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 10}
	})
}

func TestABurstToAServerWithoutHTTP2GoesOverHTTP1(t *testing.T) {
	// Active, for a handshake that only finds out is no connection.
	if conns := burst(t, 50, 50, http.StateActive, func(*httptest.Server) {}); conns != 50 {
		t.Errorf("50 requests made %d connections", conns)
	}
}
