package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/testcert"
)

// shown is a request over a connection that has verified cert.
func shown(ca, cert *testcert.Issued) *http.Request {
	r := httptest.NewRequest("GET", "/v1/sinks", nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert.Leaf}, VerifiedChains: [][]*x509.Certificate{{cert.Leaf, ca.Leaf}}}
	return r
}

func TestAClientIsFoundByAnyOfItsCertificatesNames(t *testing.T) {
	ca := testcert.Issue(t, "ca", time.Now().Add(time.Hour), nil)
	ci := testcert.Issue(t, "ci", time.Now().Add(time.Hour), ca)
	f := folder{t, t.TempDir()}
	f.put(testcert.Issue(t, "server", time.Now().Add(time.Hour), ca))
	f.write("ca.crt", ca.CertPEM)
	o := f.options()
	o.ClientCAFile = f.path("ca.crt")
	certificates := f.open(o)
	granted := []Grant{{Scope: Write, Sinks: []string{"web"}}}
	for name, c := range map[string]struct {
		client CertificateClient
		found  bool
	}{
		"common name":         {CertificateClient{CommonNames: []string{"x", "ci"}}, true},
		"DNS name":            {CertificateClient{DNSNames: []string{"ci.example"}}, true},
		"URI":                 {CertificateClient{URIs: []string{"spiffe://example/ci"}}, true},
		"email":               {CertificateClient{Emails: []string{"ci@example"}}, true},
		"another common name": {CertificateClient{CommonNames: []string{"c", "CI", "ci.example"}}, false},
		"another kind":        {CertificateClient{DNSNames: []string{"ci"}, URIs: []string{"ci.example"}, Emails: []string{"spiffe://example/ci"}}, false},
	} {
		c.client.Name, c.client.Grants, c.client.Senders = "builds", granted, []string{"edge-1"}
		callers := &CallerCertificates{Certificates: certificates, Clients: []CertificateClient{{Name: "first"}, c.client}}
		id, err := callers.Authenticate(shown(ca, ci))
		if !c.found {
			refusal, ok := errors.AsType[*Refusal](err)
			if !ok || !strings.Contains(refusal.Detail, "common name ci, DNS name ci.example, URI spiffe://example/ci, email ci@example") || !strings.Contains(refusal.Hint, "server.tls.clients") {
				t.Errorf("%s: %v, %v", name, id, err)
			}
			continue
		}
		if err != nil || id.Name != "builds" || id.Kind != "certificate" || !id.Allows(Write, "web", "k") || id.Allows(Read, "db", "k") || !id.MaySend("edge-1") {
			t.Errorf("%s: %+v, %v", name, id, err)
		}
	}
}

func TestWhatACertificateIsWorthWithoutClientsAndWithTokens(t *testing.T) {
	ca := testcert.Issue(t, "ca", time.Now().Add(time.Hour), nil)
	ci, ended := testcert.Issue(t, "ci", time.Now().Add(time.Hour), ca), testcert.Issue(t, "ended", time.Now().Add(-time.Minute), ca)
	f := folder{t, t.TempDir()}
	f.put(testcert.Issue(t, "server", time.Now().Add(time.Hour), ca))
	f.write("ca.crt", ca.CertPEM)
	o := f.options()
	o.ClientCAFile = f.path("ca.crt")
	certificates := f.open(o)
	declared := []CertificateClient{{Name: "ci", CommonNames: []string{"ci"}, Grants: []Grant{{Scope: Read}}}}
	for _, c := range []struct {
		name    string
		clients []CertificateClient
		alone   bool
		token   bool
		cert    *testcert.Issued
		want    string // the identity; "": none, and the next one is asked
		refused bool
	}{
		{name: "alone, nobody declared", alone: true, cert: ci, want: `certificate "ci"`},
		{name: "alone, nobody declared, with a stray token", alone: true, token: true, cert: ci, want: `certificate "ci"`},
		{name: "tokens say who it is", cert: ci},
		{name: "declared", clients: declared, cert: ci, want: `certificate "ci"`},
		{name: "declared, and a token is sent", clients: declared, token: true, cert: ci},
		{name: "ended", alone: true, cert: ended, refused: true},
		{name: "ended, and a token is sent", token: true, cert: ended, refused: true},
	} {
		r := shown(ca, c.cert)
		if c.token {
			r.Header.Set("Authorization", "Bearer x")
		}
		id, err := (&CallerCertificates{Certificates: certificates, Clients: c.clients, Alone: c.alone}).Authenticate(r)
		got := ""
		if id != nil {
			got = id.String()
		}
		if _, refused := errors.AsType[*Refusal](err); got != c.want || refused != c.refused {
			t.Errorf("%s: %s, %v", c.name, got, err)
		}
	}
	if id, err := (&CallerCertificates{Certificates: certificates, Alone: true}).Authenticate(httptest.NewRequest("GET", "/", nil)); id != nil || err != nil {
		t.Errorf("without a certificate: %v, %v", id, err)
	}
}
