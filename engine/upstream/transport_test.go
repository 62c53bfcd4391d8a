package upstream

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
)

// burst sends n requests at once; the target answers none before it has all.
// It returns how many connections they made.
func burst(t *testing.T, n int, h2 bool) int32 {
	var conns, arrived atomic.Int32
	all := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.TransferEncoding != nil || r.ProtoMajor == 1 && r.Header.Get("Content-Length") != "0" {
			t.Errorf("%s: Content-Length %q, Transfer-Encoding %v", r.Proto, r.Header.Get("Content-Length"), r.TransferEncoding)
		}
		if arrived.Add(1) == int32(n) {
			close(all)
		}
		<-all
	}))
	s.EnableHTTP2 = h2
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateActive { // a handshake alone is none
			conns.Add(1)
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	u := open(t, s.URL, func(c *Config) { c.TLS.InsecureSkipVerify = true })
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if _, f := u.Do(context.Background(), &Request{Method: "POST", Path: "/"}); f != nil {
				t.Error(f)
			}
		})
	}
	wg.Wait()
	return conns.Load()
}

func TestABurstOverHTTP2MakesFewConnections(t *testing.T) {
	if conns := burst(t, 400, true); conns > maxLanes {
		t.Errorf("400 requests made %d connections", conns)
	}
}

func TestABurstToAServerWithoutHTTP2GoesOverHTTP1(t *testing.T) {
	if conns := burst(t, 50, false); conns != 50 {
		t.Errorf("50 requests made %d connections", conns)
	}
}
