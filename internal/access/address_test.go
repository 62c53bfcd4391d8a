package access

import (
	"net/http/httptest"
	"testing"
)

func TestAddressesOfOneNetworkAreOneClient(t *testing.T) {
	for remote, want := range map[string]string{
		"10.0.0.1:80": "10.0.0.1", "[::ffff:10.0.0.1]:80": "10.0.0.1", "[2001:db8:1:2:3::4]:80": "2001:db8:1:2::/64", "[fe80::1%eth0]:80": "fe80::/64", "@": "@",
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = remote
		if got := AddressOf(r); got != want {
			t.Errorf("%s: %s, want %s", remote, got, want)
		}
	}
}
