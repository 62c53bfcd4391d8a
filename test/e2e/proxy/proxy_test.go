package proxy

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

func TestEachModeBreaksWhatItSays(t *testing.T) {
	var arrived atomic.Int64
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived.Add(1)
		_, _ = io.WriteString(w, "fine")
	}))
	s.Config.Protocols = protocols
	s.Start()
	defer s.Close()
	p, err := New(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.Delay = 50 * time.Millisecond
	for _, c := range []struct {
		mode     Mode
		arrives  int64
		answered bool
	}{{Pass, 1, true}, {Refuse, 0, false}, {Reset, 0, false}, {DropAnswer, 1, false}, {Delay, 1, true}, {Pass, 1, true}} {
		p.Set(c.mode)
		tr := &http.Transport{Protocols: protocols}
		began, before := time.Now(), arrived.Load()
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.Address, nil)
		res, err := tr.RoundTrip(req)
		if err == nil {
			_, err = io.ReadAll(res.Body)
			res.Body.Close()
		}
		if (err == nil) != c.answered || arrived.Load()-before != c.arrives {
			t.Errorf("mode %d: %v; %d arrived", c.mode, err, arrived.Load()-before)
		}
		if c.mode == Delay && time.Since(began) < p.Delay {
			t.Error("the answer was not delayed")
		}
		tr.CloseIdleConnections()
	}
}

func TestAChangeOfModeCutsWhatIsOpen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p, err := New(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c, err := net.Dial("tcp", p.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	p.Set(Refuse)
	if _, err := c.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("the client sees %v, want a reset", err)
	}
}
