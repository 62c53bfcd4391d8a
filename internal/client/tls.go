package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"syscall"
	"time"
)

// tlsTrouble says in words what went wrong where https did not come about, and what to
// do; "": it was something else.
func tlsTrouble(err error) string {
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return "its certificate is valid from " + invalid.Cert.NotBefore.Format(time.RFC3339) + " to " + invalid.Cert.NotAfter.Format(time.RFC3339) +
			" only; put a new one into the daemon's server.tls.cert_file, which is read without a restart, or set the clock right"
	}
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "nobody whom we trust signed its certificate; name who did with --ca-file or $PAWL_CA_FILE"
	case errors.As(err, new(x509.HostnameError)):
		return "its certificate is for other names; use an address that it names, or have one made for this one"
	case errors.As(err, new(tls.RecordHeaderError)), strings.Contains(err.Error(), "HTTP response to HTTPS client"):
		return "it has no TLS there; write http:// in the address, or set server.tls at the daemon"
	}
	for alert, what := range alerts { // which package tls has no type for
		if strings.Contains(err.Error(), "remote error: tls: "+alert) {
			return what
		}
	}
	// With TLS 1.3 a daemon sees our certificate when we think that the connection is made:
	// it may be gone before its alert is read.
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || strings.Contains(err.Error(), "client conn could not be established") {
		return "it ended the connection, as it does where it " + alerts["certificate required"][len("it "):]
	}
	return ""
}

// alerts are what a daemon says that refuses our certificate.
var alerts = map[string]string{
	"certificate required":          "it asks for a client certificate that an authority in its server.tls.client_ca_file signed; give one with --cert-file and --key-file, or $PAWL_CERT_FILE and $PAWL_KEY_FILE",
	"unknown certificate authority": "it does not trust who signed our client certificate; use one that an authority in the daemon's server.tls.client_ca_file signed",
	"expired certificate":           "our client certificate has expired; renew the one of --cert-file",
	"bad certificate":               "it refuses our client certificate; use one that an authority in the daemon's server.tls.client_ca_file signed, for TLS clients",
}
