package upstream

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert, a.key, a.pem, _ = issue(t, template, nil)
	return a
}

// issue makes a certificate, signed by a or by itself, and returns it and its
// key as PEM too.
func issue(t testing.TB, template *x509.Certificate, a *authority) (cert *x509.Certificate, key *ecdsa.PrivateKey, certPEM, keyPEM string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent, signer := template, key
	if a != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	if cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	keyPEM = string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}))
	return cert, key, certPEM, keyPEM
}

// leaf issues a certificate for name, which also is a DNS name in it.
func (a *authority) leaf(t testing.TB, name string) (certPEM, keyPEM string) {
	t.Helper()
	_, _, certPEM, keyPEM = issue(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a)
	return certPEM, keyPEM
}

// serveTLS starts a TLS server with a certificate of a; change may ask for more.
func serveTLS(t testing.TB, a *authority, h2 bool, h http.HandlerFunc, change func(*tls.Config)) string {
	t.Helper()
	certPEM, keyPEM := a.leaf(t, "server.example")
	pair, err := tls.X509KeyPair([]byte(certPEM), []byte(keyPEM))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = h2
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	if change != nil {
		change(s.TLS)
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

func TestServersAreTrustedByConfiguredRootsAndName(t *testing.T) {
	a, stranger := newAuthority(t), newAuthority(t)
	base := serveTLS(t, a, true, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Proto", r.Proto) }, nil)
	ca, wrong := writeFile(t, "ca.pem", a.pem), writeFile(t, "ca.pem", stranger.pem)
	for _, row := range []struct {
		name   string
		change func(*Config)
		proto  string // "": a TLS failure
	}{
		{"system's roots", func(c *Config) {}, ""},
		{"another root", func(c *Config) { c.TLS.CAFile = wrong }, ""},
		{"its root", func(c *Config) { c.TLS.CAFile = ca }, "HTTP/2.0"},
		{"another name", func(c *Config) { c.TLS.CAFile = ca; c.TLS.ServerName = "other.example" }, ""},
		{"its name", func(c *Config) { c.TLS.CAFile = ca; c.TLS.ServerName = "server.example" }, "HTTP/2.0"},
		{"HTTP/1.1 only", func(c *Config) { c.TLS.CAFile = ca; c.Protocol = ProtocolHTTP1 }, "HTTP/1.1"},
		{"HTTP/2 only", func(c *Config) { c.TLS.CAFile = ca; c.Protocol = ProtocolHTTP2 }, "HTTP/2.0"},
		{"unverified", func(c *Config) { c.TLS.InsecureSkipVerify = true }, "HTTP/2.0"},
	} {
		t.Run(row.name, func(t *testing.T) {
			u := open(t, base, row.change)
			if row.proto == "" {
				mustFail(t, u, put("/", "x"), FailTLS, false)
				return
			}
			if got := header(mustDo(t, u, put("/", "x")), "Proto"); got != row.proto {
				t.Errorf("spoke %s, want %s", got, row.proto)
			}
		})
	}
}

func TestAServerWithoutTLSOrHTTP2IsATLSFailure(t *testing.T) {
	plain := serve(t, func(http.ResponseWriter, *http.Request) {})
	mustFail(t, open(t, "https"+strings.TrimPrefix(plain, "http")), put("/", "x"), FailTLS, false)

	a := newAuthority(t)
	base := serveTLS(t, a, false, func(http.ResponseWriter, *http.Request) {}, nil)
	ca := writeFile(t, "ca.pem", a.pem)
	mustFail(t, open(t, base, func(c *Config) { c.TLS.CAFile = ca; c.Protocol = ProtocolHTTP2 }), put("/", "x"), FailTLS, false)
	mustDo(t, open(t, base, func(c *Config) { c.TLS.CAFile = ca }), put("/", "x"))

	certPEM, keyPEM := a.leaf(t, "server.example")
	pair, err := tls.X509KeyPair([]byte(certPEM), []byte(keyPEM))
	if err != nil {
		t.Fatal(err)
	}
	noALPN := rawServer(t, func(_ int, c net.Conn) {
		s := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{pair}})
		if r, err := readRequest(bufio.NewReader(s)); err == nil {
			t.Errorf("the server got %s %s in a protocol that was not allowed", r.Method, r.RequestURI)
		}
	})
	u := open(t, "https"+strings.TrimPrefix(noALPN, "http"), func(c *Config) { c.TLS.CAFile = ca; c.Protocol = ProtocolHTTP2 })
	mustFail(t, u, put("/", "x"), FailTLS, false)
}

func TestClientCertificatesAndRootsFollowTheirFiles(t *testing.T) {
	a := newAuthority(t)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	base := serveTLS(t, a, false, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close") // each request takes what the files say
		w.Header().Set("Client", r.TLS.PeerCertificates[0].Subject.CommonName)
	}, func(c *tls.Config) { c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, pool })
	dir := t.TempDir()
	ca, cert, key := filepath.Join(dir, "ca"), filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	install := func(name string) {
		c, k := a.leaf(t, name)
		writeFile(t, cert, c)
		writeFile(t, key, k)
	}
	writeFile(t, ca, a.pem)
	install("first.example")
	u := open(t, base, func(c *Config) { c.TLS = TLS{CAFile: ca, CertFile: cert, KeyFile: key} })
	d := diallerOf(t, u)
	if got := header(mustDo(t, u, get("/")), "Client"); got != "first.example" {
		t.Errorf("the server saw %q", got)
	}
	install("second.example")
	age(d.certs)
	if got := header(mustDo(t, u, get("/")), "Client"); got != "second.example" {
		t.Errorf("after the change the server saw %q", got)
	}
	writeFile(t, key, "half of a key")
	age(d.certs)
	if got := header(mustDo(t, u, get("/")), "Client"); got != "second.example" {
		t.Errorf("with a damaged file the server saw %q", got)
	}
	writeFile(t, ca, newAuthority(t).pem)
	age(d.roots)
	mustFail(t, u, put("/", "x"), FailTLS, false)

	// TLS 1.3 says so after the handshake; whether a request went out by then is chance.
	bare := open(t, base, func(c *Config) { c.TLS.CAFile = writeFile(t, "ca.pem", a.pem) })
	if _, f := bare.Do(t.Context(), put("/", "x")); f == nil || f.Kind != FailTLS {
		t.Errorf("without a certificate: %v", f)
	}
}

// diallerOf gives u a dialler that the test can reach: files are looked at once
// a second, and tests don't wait.
func diallerOf(t testing.TB, u *Upstream) *dialler {
	t.Helper()
	d, err := newDialler(u.config, Options{}.withDefaults(), u.base.Hostname(), &u.maybeH2)
	if err != nil {
		t.Fatal(err)
	}
	u.transport = newTransport(u.config, d)
	return d
}

func TestMissingFilesAreErrorsOfTheirField(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	empty := writeFile(t, "empty", "")
	for field, change := range map[string]func(*Config){
		"TLS.CAFile":   func(c *Config) { c.TLS.CAFile = missing },
		"TLS.CertFile": func(c *Config) { c.TLS.CertFile, c.TLS.KeyFile = empty, empty },
	} {
		c := Config{Name: "target", BaseURL: "https://target.example"}
		change(&c)
		_, err := Open(c, Options{})
		var ce *ConfigError
		if !errors.As(err, &ce) || ce.Field != field {
			t.Errorf("want an error at %s, got %v", field, err)
		}
	}
}

func TestTrailersArriveInEveryProtocol(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Grpc-Status")
		w.Header().Set("Proto", r.Proto)
		w.Header().Set("Te", r.Header.Get("Te"))
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
		w.(http.Flusher).Flush()
		w.Header().Set("Grpc-Status", "0")
		w.Header().Set(http.TrailerPrefix+"Grpc-Message", "fine")
	}
	a := newAuthority(t)
	h2c := httptest.NewUnstartedServer(http.HandlerFunc(handler))
	h2c.Config.Protocols = new(http.Protocols)
	h2c.Config.Protocols.SetUnencryptedHTTP2(true)
	h2c.Start()
	t.Cleanup(h2c.Close)
	ca := writeFile(t, "ca.pem", a.pem)
	for _, row := range []struct {
		base, proto string
		change      func(*Config)
	}{
		{serve(t, handler), "HTTP/1.1", func(*Config) {}},
		{h2c.URL, "HTTP/2.0", func(c *Config) { c.Protocol = ProtocolH2C }},
		{serveTLS(t, a, true, handler, nil), "HTTP/2.0", func(c *Config) { c.TLS.CAFile = ca }},
	} {
		u := open(t, row.base, row.change)
		r := &Request{Method: "POST", Path: "/pkg.Service/Method", Body: []byte("\x00\x00\x00\x00\x01x"), HasBody: true,
			Header: []Field{{"Content-Type", "application/grpc"}, {"TE", "trailers"}, {"Grpc-Timeout", "1S"}}}
		res := mustDo(t, u, r)
		want := []Field{{"Grpc-Message", "fine"}, {"Grpc-Status", "0"}}
		if header(res, "Proto") != row.proto || header(res, "Te") != "trailers" || string(res.Body) != string(r.Body) ||
			len(res.Trailer) != 2 || res.Trailer[0] != want[0] || res.Trailer[1] != want[1] {
			t.Errorf("%s: %+v", row.proto, res)
		}
	}
}

func TestAnHTTP2StreamThatBreaksIsAProtocolFailure(t *testing.T) {
	u := open(t, rawH2C(t, func(f *http2.Framer, h *http2.MetaHeadersFrame) {
		_ = f.WriteRSTStream(h.StreamID, http2.ErrCodeCancel)
	}), func(c *Config) { c.Protocol = ProtocolH2C })
	mustFail(t, u, put("/", "x"), FailProtocol, true)
	mustFail(t, open(t, serve(t, func(http.ResponseWriter, *http.Request) {}), func(c *Config) { c.Protocol = ProtocolH2C }),
		put("/", "x"), FailProtocol, true)
}
