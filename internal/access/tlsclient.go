package access

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// CertificateClient names some client certificates and what their holders may do.
type CertificateClient struct {
	Name string
	// CommonNames are those of a certificate's subject; the others are its subject
	// alternative names. A certificate that has one of all these is meant.
	CommonNames, DNSNames, URIs, Emails []string
	Grants                              []Grant
	Senders                             []string
}

// CallerCertificates tells callers apart by the client certificates that they showed.
type CallerCertificates struct {
	// Certificates are those of the listener, which has verified the callers'.
	Certificates *Certificates
	// Clients are asked in this order. None: every certificate may do everything,
	// where nothing else tells callers apart.
	Clients []CertificateClient
	// Alone: there are no tokens that could tell callers apart.
	Alone bool
}

// Authenticate implements Authenticator. Where a caller sends a token too, that is
// what counts, but not without a certificate that is still good.
func (c *CallerCertificates) Authenticate(r *http.Request) (*Identity, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, nil
	}
	cert := r.TLS.PeerCertificates[0]
	if !c.Certificates.Trusts(r.TLS) {
		return nil, &Refusal{
			Detail: "the client certificate of " + describe(cert) + " has expired since the connection began, or its authority no longer counts",
			Hint:   "connect again with a certificate that an authority in the daemon's server.tls.client_ca_file signed",
		}
	}
	if !c.Alone && (len(c.Clients) == 0 || r.Header.Get("Authorization") != "") {
		return nil, nil
	}
	if len(c.Clients) == 0 {
		return Unrestricted(nameOf(cert), kindCertificate), nil
	}
	for i := range c.Clients {
		if client := &c.Clients[i]; client.has(cert) {
			return &Identity{Name: client.Name, Kind: kindCertificate, Grants: client.Grants, Senders: client.Senders}, nil
		}
	}
	return nil, &Refusal{
		Detail: "the client certificate of " + describe(cert) + " is good, but belongs to none of this daemon's clients",
		Hint:   "add a client that has one of these names below server.tls.clients of the daemon's configuration",
	}
}

const kindCertificate = "certificate"

func (c *CertificateClient) has(cert *x509.Certificate) bool {
	if slices.Contains(c.CommonNames, cert.Subject.CommonName) {
		return true
	}
	for _, n := range cert.DNSNames {
		if slices.Contains(c.DNSNames, n) {
			return true
		}
	}
	for _, u := range cert.URIs {
		if slices.Contains(c.URIs, u.String()) {
			return true
		}
	}
	for _, e := range cert.EmailAddresses {
		if slices.Contains(c.Emails, e) {
			return true
		}
	}
	return false
}

// nameOf is how logs name the holder of a certificate that no client is declared for.
func nameOf(cert *x509.Certificate) string {
	if cn := cert.Subject.CommonName; cn != "" {
		return cn
	}
	return describe(cert)
}

// describe lists the names of a certificate, as the configuration would have them.
func describe(cert *x509.Certificate) string {
	var names []string
	if cn := cert.Subject.CommonName; cn != "" {
		names = append(names, "common name "+cn)
	}
	for _, n := range cert.DNSNames {
		names = append(names, "DNS name "+n)
	}
	for _, u := range cert.URIs {
		names = append(names, "URI "+u.String())
	}
	for _, e := range cert.EmailAddresses {
		names = append(names, "email "+e)
	}
	if len(names) == 0 {
		return "serial number " + cert.SerialNumber.String()
	}
	const most = 4
	if len(names) > most {
		names = append(names[:most], fmt.Sprintf("%d more names", len(names)-most))
	}
	return strings.Join(names, ", ")
}
