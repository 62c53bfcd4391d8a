package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// errAddress is what the dialler says of an address that it refuses.
var errAddress = errors.New("the address is not allowed")

// errNotH2 is what the dialler says of a server without HTTP/2.
var errNotH2 = errors.New("the server does not offer HTTP/2, which is all that this upstream may speak")

// tlsError is a handshake that failed, or a server without the protocol that
// was asked for.
type tlsError struct{ error }

func (e tlsError) Unwrap() error { return e.error }

// addressRule decides which addresses may be dialled once names are resolved,
// so that no DNS answer leads where the base URL itself does not.
type addressRule struct {
	named    netip.Addr // the base URL's own IP literal, or zero
	loopback bool       // the base URL says "localhost"
}

func newAddressRule(host string) addressRule {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addressRule{named: addr.Unmap()}
	}
	return addressRule{loopback: strings.EqualFold(strings.TrimSuffix(host, "."), "localhost")}
}

// AddressControl returns a net.Dialer's ControlContext that refuses what
// Config.BaseURL's doc says of reserved addresses, for a transport that dials
// for itself. host is the base URL's.
func AddressControl(host string) func(context.Context, string, string, syscall.RawConn) error {
	return newAddressRule(host).control
}

// reserved are address ranges that no target is at, besides those that
// netip.Addr knows itself, and the metadata services of clouds that are not
// link-local.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),          // this network
	netip.MustParsePrefix("240.0.0.0/4"),        // reserved, broadcast
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba Cloud
	netip.MustParsePrefix("192.0.0.192/32"),     // Oracle Cloud
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure
	netip.MustParsePrefix("fd00:ec2::254/128"),  // AWS
	netip.MustParsePrefix("fd20:ce::254/128"),   // Google Cloud
}

// allow reports whether addr may be dialled.
func (r addressRule) allow(addr netip.Addr) bool {
	addr = addr.Unmap()
	if addr == r.named || r.loopback && addr.IsLoopback() {
		return true
	}
	plain := addr.WithZone("")
	if !plain.IsValid() || plain.IsLoopback() || plain.IsUnspecified() || plain.IsMulticast() || plain.IsLinkLocalUnicast() {
		return false
	}
	for _, p := range reserved {
		if p.Contains(plain) {
			return false
		}
	}
	if inner, ok := embedded(plain); ok {
		return r.allow(inner)
	}
	return true
}

// embedded returns the IPv4 address that a translating or tunnelling IPv6
// address stands for: NAT64, 6to4, and the deprecated IPv4-compatible form.
func embedded(addr netip.Addr) (netip.Addr, bool) {
	if !addr.Is6() {
		return netip.Addr{}, false
	}
	b := addr.As16()
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(addr), netip.MustParsePrefix("::/96").Contains(addr):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case netip.MustParsePrefix("2002::/16").Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return netip.Addr{}, false
}

// control is called with every address right before it is connected to.
func (r addressRule) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil || !r.allow(ap.Addr()) {
		return fmt.Errorf("%w: %s is reserved, and the base URL does not name it", errAddress, address)
	}
	return nil
}

// countedConn knows how many writes it has begun, but for those that wrote
// nothing: what tells a request that certainly never left from one that may have.
type countedConn struct {
	net.Conn
	writes atomic.Int64
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.writes.Add(1) // before: whoever looks meanwhile must see it
	n, err := c.Conn.Write(p)
	if n == 0 && err != nil {
		c.writes.Add(-1)
	}
	return n, err
}

// dialler opens connections, within the address rule.
type dialler struct {
	net        net.Dialer
	timeout    time.Duration // of the handshake
	protocol   Protocol
	serverName string
	insecure   bool
	roots      *watched[*x509.CertPool]
	certs      *watched[[]tls.Certificate]
	maybeH2    *atomic.Bool // cleared when the server turns out not to offer HTTP/2
}

func (d *dialler) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.net.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &countedConn{Conn: conn}, nil
}

// dialH1 opens a TLS connection for HTTP/1.1.
func (d *dialler) dialH1(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.dialTLS(ctx, network, address, "http/1.1")
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// dialH2 opens a TLS connection for HTTP/2, or fails with errNotH2.
func (d *dialler) dialH2(ctx context.Context, network, address string) (net.Conn, error) {
	offer := []string{"h2"}
	if d.protocol == ProtocolAuto {
		if !d.maybeH2.Load() {
			return nil, tlsError{errNotH2} // another connection has found out
		}
		offer = append(offer, "http/1.1") // some servers refuse the handshake otherwise
	}
	conn, err := d.dialTLS(ctx, network, address, offer...)
	if err != nil {
		return nil, err
	}
	if !isH2(conn) {
		d.maybeH2.Store(d.protocol != ProtocolAuto)
		_ = conn.Close()
		return nil, tlsError{errNotH2}
	}
	return conn, nil
}

// dialTLS opens a TLS connection with what the files say now.
func (d *dialler) dialTLS(ctx context.Context, network, address string, protocols ...string) (*tls.Conn, error) {
	raw, err := d.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, &tls.Config{
		ServerName:         d.serverName,
		InsecureSkipVerify: d.insecure, // #nosec G402: the operator's explicit choice
		RootCAs:            d.roots.get(),
		Certificates:       d.certs.get(),
		NextProtos:         protocols,
		MinVersion:         tls.VersionTLS12,
	})
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, tlsError{err}
	}
	return conn, nil
}

func isH2(conn *tls.Conn) bool { return conn.ConnectionState().NegotiatedProtocol == "h2" }
