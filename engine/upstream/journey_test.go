package upstream

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
)

// conn returns a connection that takes whatever is written.
func conn(t *testing.T) *countedConn {
	here, there := net.Pipe()
	t.Cleanup(func() { _ = here.Close() })
	go func() { _, _ = io.Copy(io.Discard, there) }()
	return &countedConn{Conn: here}
}

func TestOnlyAConnectionThatIsOnesOwnCanProveThatNothingLeft(t *testing.T) {
	var broken = errors.New("broken")
	write := func(c *countedConn) { _, _ = c.Write([]byte("x")) }

	j, c := newJourney(false, false), conn(t)
	if j.maybeSent(broken) {
		t.Error("without a connection something left")
	}
	write(c) // an earlier request's
	j.gotConn(httptrace.GotConnInfo{Conn: c, Reused: true})
	if j.maybeSent(broken) || !j.staleConn() {
		t.Error("an earlier request's writes are taken for this one's")
	}
	write(c)
	if !j.maybeSent(broken) || j.staleConn() {
		t.Error("a write is overlooked")
	}
	j.gotConn(httptrace.GotConnInfo{Conn: conn(t), Reused: true})
	if !j.maybeSent(broken) || j.staleConn() {
		t.Error("what left on the first connection is forgotten with the second")
	}

	j = newJourney(false, true)
	j.gotConn(httptrace.GotConnInfo{Conn: conn(t), Reused: true})
	if !j.maybeSent(broken) || j.staleConn() {
		t.Error("a shared connection without TLS proves something")
	}

	j = newJourney(true, false)
	j.getConn("target:443")
	if j.maybeSent(broken) {
		t.Error("a foreign transport that got no connection sent something")
	}
	j.gotConn(httptrace.GotConnInfo{Conn: conn(t).Conn, Reused: true})
	if !j.maybeSent(broken) || j.staleConn() {
		t.Error("a foreign connection proves something")
	}
}

func TestATLSConnectionProvesItUnlessItIsShared(t *testing.T) {
	a := newAuthority(t)
	base := serveTLS(t, a, true, func(http.ResponseWriter, *http.Request) {}, nil)
	ca := writeFile(t, "ca.pem", a.pem)
	offers := map[Protocol]string{ProtocolHTTP1: "http/1.1", ProtocolHTTP2: "h2"}
	for protocol, want := range map[Protocol]bool{ProtocolHTTP1: false, ProtocolHTTP2: true} {
		u := open(t, base, func(c *Config) { c.TLS.CAFile = ca; c.Protocol = protocol })
		c, err := diallerOf(t, u).dialTLS(t.Context(), "tcp", strings.TrimPrefix(base, "https://"), offers[protocol])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		j := newJourney(false, false)
		j.gotConn(httptrace.GotConnInfo{Conn: c, Reused: true})
		if j.maybeSent(io.EOF) != want || j.staleConn() == want {
			t.Errorf("%s: maybe sent %v", protocol, !want)
		}
	}
}
