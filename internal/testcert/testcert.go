// Package testcert makes certificates for tests.
package testcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"testing"
	"time"
)

// Issued is a certificate with its key, as PEM and for use.
type Issued struct {
	CertPEM, KeyPEM []byte
	tls.Certificate
}

// Issue makes a certificate for 127.0.0.1 and for name, NAME.example, NAME@example and
// spiffe://example/NAME, that ends at notAfter; parent nil: it is an authority that
// signs itself, without addresses.
func Issue(t *testing.T, name string, notAfter time.Time, parent *Issued) *Issued {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name, Organization: []string{"pawl"}},
		NotBefore: notAfter.AddDate(-1, 0, 0), NotAfter: notAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: parent == nil, BasicConstraintsValid: true,
		DNSNames: []string{name + ".example"}, URIs: []*url.URL{{Scheme: "spiffe", Host: "example", Path: "/" + name}}, EmailAddresses: []string{name + "@example"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if parent == nil {
		template.DNSNames, template.IPAddresses, template.URIs, template.EmailAddresses, template.KeyUsage = nil, nil, nil, nil, x509.KeyUsageCertSign
	}
	signer, signerKey := template, any(key)
	if parent != nil {
		signer, signerKey = parent.Leaf, parent.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer, key.Public(), signerKey)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	out := &Issued{
		CertPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		KeyPEM:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}
	if out.Certificate, err = tls.X509KeyPair(out.CertPEM, out.KeyPEM); err != nil {
		t.Fatal(err)
	}
	return out
}

// Write puts certificate and key into files.
func (c *Issued) Write(t *testing.T, certFile, keyFile string) {
	t.Helper()
	if err := errors.Join(os.WriteFile(certFile, c.CertPEM, 0o600), os.WriteFile(keyFile, c.KeyPEM, 0o600)); err != nil {
		t.Fatal(err)
	}
}
