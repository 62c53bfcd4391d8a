package access

import (
	"net/http"
	"net/netip"
)

// AddressOf is the address of r's sender, as far as it tells one sender from another: who
// has an IPv6 address has the 2⁶⁴ around it, too. At a unix socket, all have the same.
func AddressOf(r *http.Request) string {
	address, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	a := address.Addr().Unmap().WithZone("")
	if a.Is6() {
		network, _ := a.Prefix(64) // every address of 128 bits has one
		return network.String()
	}
	return a.String()
}
