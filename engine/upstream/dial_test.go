package upstream

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

func TestOnlyTheBaseURLItselfOpensReservedAddresses(t *testing.T) {
	for _, row := range []struct {
		host, addr string
		want       bool
	}{
		{"target.example", "93.184.216.34", true},
		{"target.example", "10.1.2.3", true},
		{"target.example", "192.168.0.1", true},
		{"target.example", "fd12::1", true},
		{"target.example", "2606:2800::1", true},
		{"target.example", "127.0.0.1", false},
		{"target.example", "127.9.9.9", false},
		{"target.example", "::1", false},
		{"target.example", "::ffff:127.0.0.1", false},
		{"target.example", "::127.0.0.1", false},
		{"target.example", "64:ff9b::7f00:1", false},
		{"target.example", "64:ff9b::a9fe:a9fe", false},
		{"target.example", "64:ff9b::5db8:d822", true},
		{"target.example", "2002:7f00:1::1", false},
		{"target.example", "0.0.0.0", false},
		{"target.example", "0.1.2.3", false},
		{"target.example", "::", false},
		{"target.example", "169.254.169.254", false},
		{"target.example", "::ffff:169.254.169.254", false},
		{"target.example", "fe80::1", false},
		{"target.example", "fe80::1%eth0", false},
		{"target.example", "224.0.0.1", false},
		{"target.example", "ff02::1", false},
		{"target.example", "255.255.255.255", false},
		{"target.example", "100.100.100.200", false},
		{"target.example", "::ffff:100.100.100.200", false},
		{"127.0.0.1", "::ffff:127.0.0.1", true},
		{"target.example", "168.63.129.16", false},
		{"target.example", "fd00:ec2::254", false},
		{"localhost", "127.0.0.1", true},
		{"LocalHost.", "::1", true},
		{"localhost", "169.254.169.254", false},
		{"localhost", "0.0.0.0", false},
		{"localhost.example", "127.0.0.1", false},
		{"127.0.0.1", "127.0.0.1", true},
		{"127.0.0.1", "127.0.0.2", false},
		{"127.0.0.1", "::1", false},
		{"::1", "::1", true},
		{"::ffff:127.0.0.1", "127.0.0.1", true},
		{"169.254.169.254", "169.254.169.254", true},
		{"169.254.169.254", "127.0.0.1", false},
		{"fe80::1%eth0", "fe80::1%eth0", true},
		{"fe80::1%eth0", "fe80::1%eth1", false},
	} {
		if got := newAddressRule(row.host).allow(netip.MustParseAddr(row.addr)); got != row.want {
			t.Errorf("base host %s, address %s: allowed %v, want %v", row.host, row.addr, got, row.want)
		}
	}
}

// resolver answers every name with addr; without one, the name does not exist.
func resolver(t testing.TB, addr string) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go answerDNS(t, server, addr)
		return client, nil
	}}
}

// answerDNS serves DNS over a stream: each message has a length of two bytes before it.
func answerDNS(t testing.TB, c net.Conn, addr string) {
	defer c.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		query := make([]byte, int(size[0])<<8|int(size[1]))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(query); err != nil {
			t.Errorf("bad DNS query: %v", err)
			return
		}
		m.Response, m.Authoritative, m.Additionals = true, true, nil
		question := m.Questions[0]
		switch {
		case addr == "":
			m.RCode = dnsmessage.RCodeNameError
		case question.Type == dnsmessage.TypeA:
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: question.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: 1},
				Body:   &dnsmessage.AResource{A: netip.MustParseAddr(addr).As4()},
			}}
		}
		answer, err := m.Pack()
		if err != nil {
			t.Errorf("pack: %v", err)
			return
		}
		if _, err := c.Write(append([]byte{byte(len(answer) >> 8), byte(len(answer))}, answer...)); err != nil {
			return
		}
	}
}

func TestANameThatResolvesToLoopbackIsDenied(t *testing.T) {
	reached := false
	base := serve(t, func(http.ResponseWriter, *http.Request) { reached = true })
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(base, "http://"))
	for _, addr := range []string{"127.0.0.1", "0.0.0.0"} {
		u := openWith(t, "http://rebound.example:"+port, Options{Resolver: resolver(t, addr)})
		f := mustFail(t, u, put("/", "x"), FailDenied, false)
		if !strings.Contains(f.Message, addr) {
			t.Errorf("the message %q does not name the address", f.Message)
		}
	}
	if reached {
		t.Error("the server on loopback was reached")
	}
	mustDo(t, open(t, "http://localhost:"+port), get("/"))
	if !reached {
		t.Error("localhost does not reach loopback")
	}
}

func TestAnUnknownNameIsADNSFailure(t *testing.T) {
	u := openWith(t, "http://missing.example", Options{Resolver: resolver(t, "")})
	mustFail(t, u, put("/", "x"), FailDNS, false)
}

func TestARefusedConnectionIsAConnectFailure(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	mustFail(t, open(t, "http://"+addr), put("/", "x"), FailConnect, false)
}

func TestAProxyInTheEnvironmentIsIgnored(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	// A name, for net/http never uses a proxy for loopback; its address is
	// refused, and by us, not by the proxy.
	u := openWith(t, "http://target.example", Options{Resolver: resolver(t, "127.0.0.1")})
	f := mustFail(t, u, get("/"), FailDenied, false)
	if strings.Contains(f.Message, "proxy") {
		t.Errorf("a proxy was asked: %s", f.Message)
	}
	tr, ok := u.transport.(*transport)
	if !ok || tr.h1.Proxy != nil {
		t.Error("the transport knows a proxy")
	}
}

func TestADeadlineWhileConnectingIsATimeoutThatSentNothing(t *testing.T) {
	stuck := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	u := openWith(t, "http://slow.example", Options{Resolver: stuck})
	r := put("/", "x")
	r.Timeout = 20 * time.Millisecond
	mustFail(t, u, r, FailTimeout, false)
}
