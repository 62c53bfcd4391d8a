package server

import (
	"context"
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
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
)

func TestWithoutTokensOnlyThisMachineAndNoOtherSitesPageIsAnswered(t *testing.T) {
	_, _, hs := start(t, Options{})
	host := strings.TrimPrefix(hs.URL, "http://")
	for _, c := range []struct {
		name   string
		header []string
		status int
	}{
		{"a program", nil, 200},
		{"localhost", []string{"Host", "localhost:7295"}, 200},
		{"IPv6 loopback", []string{"Host", "[::1]:7295"}, 200},
		{"IPv6 loopback without a port", []string{"Host", "[::1]"}, 200},
		{"our own page", []string{"Origin", "http://" + host, "Sec-Fetch-Site", "same-origin"}, 200},
		{"the address bar", []string{"Sec-Fetch-Site", "none"}, 200},
		{"a name made to point here", []string{"Host", "evil.example:7295"}, 403},
		{"a name that looks like us", []string{"Host", "localhost.evil.example"}, 403},
		{"another address", []string{"Host", "10.0.0.1:7295"}, 403},
		{"another site's page", []string{"Origin", "https://evil.example"}, 403},
		{"a page without an origin", []string{"Origin", "null"}, 403},
		{"another port's page", []string{"Origin", "http://127.0.0.1:1"}, 403},
		{"another site's form, with a password of the browser's", []string{"Sec-Fetch-Site", "cross-site", "Authorization", "Basic eDp5"}, 403},
		{"a page of another site that was given a token", []string{"Origin", "https://evil.example", "Authorization", "Bearer x"}, 200},
		{"another site's image", []string{"Sec-Fetch-Site", "cross-site"}, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			response, body := ask(t, "GET", hs.URL+"/v1/sinks", "", c.header...)
			if response.StatusCode != c.status {
				t.Fatalf("%s %s, want %d", response.Status, body, c.status)
			}
			if c.status == 403 && problemOf(t, response, body).Code != api.CodeForbidden {
				t.Errorf("got %s", body)
			}
		})
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWithATokenFileEveryRouteButTheProbesAsksForOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	writeFile(t, path, "# two people\nfirst\n\n  second  \n")
	_, _, hs := start(t, Options{Authenticators: tokensOf(t, path), Metrics: http.NotFoundHandler()})
	for _, route := range []string{"/v1/sinks", "/v1/status", "/version", "/openapi.json", "/metrics", "/nothing"} {
		response, body := ask(t, "GET", hs.URL+route, "")
		if p := problemOf(t, response, body); p.Status != 401 || response.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s without a token: %s", route, body)
		}
	}
	for _, route := range []string{"/livez", "/readyz"} {
		if response, _ := ask(t, "GET", hs.URL+route, "", "Host", "10.0.0.1"); response.StatusCode != 200 {
			t.Errorf("%s: %s", route, response.Status)
		}
	}
	for authorization, status := range map[string]int{
		"Bearer first": 200, "bearer second": 200, "Bearer firs": 401, "Bearer first2": 401, "Bearer # two people": 401,
		"Bearer": 403, "Bearer ": 403, "Basic first": 403, "first": 403,
	} {
		// A Host or Origin of whatever kind is all right with a token: no browser adds it by itself.
		response, _ := ask(t, "GET", hs.URL+"/v1/sinks", "", "Authorization", authorization, "Host", "pawl.example", "Origin", "https://console.example")
		if response.StatusCode != status {
			t.Errorf("%q: %s, want %d", authorization, response.Status, status)
		}
	}
}

// tokensOf knows the tokens of a file.
func tokensOf(t *testing.T, path string) []access.Authenticator {
	t.Helper()
	tokens, err := access.OpenTokens(access.TokenOptions{File: path})
	if err != nil {
		t.Fatal(err)
	}
	return []access.Authenticator{tokens}
}

// serve runs s on l until the returned function is called, which returns what
// Serve did.
func serve(t *testing.T, s *Server, l net.Listener) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(cancel)
	return func() error { cancel(); return <-ended }
}

func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestAnAddressThatOthersReachIsRefusedUnlessCallersAreIdentified(t *testing.T) {
	s, _, _ := start(t, Options{})
	l := listen(t, "tcp", "0.0.0.0:0")
	if err := s.Serve(t.Context(), l); err == nil || !strings.Contains(err.Error(), "set a token file") {
		t.Errorf("got %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is left open: %v", err)
	}
	path := filepath.Join(t.TempDir(), "tokens")
	writeFile(t, path, "token")
	s, _, _ = start(t, Options{Authenticators: tokensOf(t, path)})
	if err := serve(t, s, listen(t, "tcp", "0.0.0.0:0"))(); err != nil {
		t.Errorf("with tokens: %v", err)
	}
}

func TestOverAUnixSocketTheHostDoesNotMatter(t *testing.T) {
	s, _, _ := start(t, Options{})
	path := filepath.Join(t.TempDir(), "s")
	stop := serve(t, s, listen(t, "unix", path))
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	defer c.CloseIdleConnections()
	response, err := c.Get("http://pawl/v1/sinks")
	if err != nil || response.StatusCode != 200 {
		t.Fatalf("%v %v", response, err)
	}
	response.Body.Close()
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestAtShutdownWaitsEndAndRequestsUnderWayFinish(t *testing.T) {
	f := newFake()
	s, _, _ := start(t, Options{Engine: f})
	waiting := make(chan struct{})
	f.wait = func(ctx context.Context, _ record.Key, _ uint64) (engine.WaitResult, error) {
		close(waiting)
		<-ctx.Done()
		return engine.WaitResult{}, ctx.Err()
	}
	l := listen(t, "tcp", "127.0.0.1:0")
	stop := serve(t, s, l)
	type result struct {
		response *http.Response
		body     string
	}
	answered := make(chan result, 1)
	go func() {
		response, body := ask(t, "GET", "http://"+l.Addr().String()+"/v1/sinks/web/resource/wait?key=k&timeout=10m", "")
		answered <- result{response, body}
	}()
	<-waiting
	if err := stop(); err != nil {
		t.Error(err)
	}
	r := <-answered
	if p := problemOf(t, r.response, r.body); p.Code != api.CodeClosed || !strings.Contains(p.Detail, "shutting down") {
		t.Errorf("got %s", r.body)
	}
}

// certificate writes a certificate and its key; parent nil: it signs itself.
func certificate(t *testing.T, dir, name string, parent *tls.Certificate) (certFile, keyFile string, cert tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: parent == nil, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	signer, signerKey := template, any(key)
	if parent != nil {
		signer, signerKey = parent.Leaf, parent.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer, &key.PublicKey, signerKey)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	writeFile(t, certFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	writeFile(t, keyFile, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})))
	if cert, err = tls.LoadX509KeyPair(certFile, keyFile); err != nil {
		t.Fatal(err)
	}
	return certFile, keyFile, cert
}

func TestWithAClientAuthorityOnlyItsCertificatesAreAnswered(t *testing.T) {
	dir := t.TempDir()
	caFile, _, ca := certificate(t, dir, "ca", nil)
	certFile, keyFile, _ := certificate(t, dir, "server", &ca)
	_, _, ours := certificate(t, dir, "client", &ca)
	_, _, foreign := certificate(t, dir, "foreign", nil)
	certificates, err := access.OpenCertificates(access.CertificateOptions{CertFile: certFile, KeyFile: keyFile, ClientCAFile: caFile})
	if err != nil {
		t.Fatal(err)
	}
	s, _, _ := start(t, Options{Certificates: certificates, Authenticators: []access.Authenticator{&access.CallerCertificates{Certificates: certificates, Alone: true}}})
	l := listen(t, "tcp", "0.0.0.0:0") // allowed: callers are identified
	defer serve(t, s, l)()
	roots := x509.NewCertPool()
	roots.AddCert(ca.Leaf)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, c := range []struct {
		name  string
		certs []tls.Certificate
		ok    bool
	}{{"ours", []tls.Certificate{ours}, true}, {"a foreign one", []tls.Certificate{foreign}, false}, {"none", nil, false}} {
		client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: c.certs}}}
		response, err := client.Get("https://127.0.0.1:" + port + "/v1/sinks")
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil {
			if response.ProtoMajor != 2 {
				t.Errorf("spoken: %s", response.Proto)
			}
			response.Body.Close()
		}
		client.CloseIdleConnections()
	}
}
