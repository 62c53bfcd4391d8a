package cli

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/testcert"
)

func TestTheCertificatesOfTheEnvironmentCountUnlessFlagsNameOthers(t *testing.T) {
	dir := t.TempDir()
	soon := time.Now().Add(time.Hour)
	ca, other := testcert.Issue(t, "ca", soon, nil), testcert.Issue(t, "other", soon, nil)
	file := func(name string) string { return filepath.Join(dir, name) }
	ca.Write(t, file("ca.crt"), file("ca.key"))
	other.Write(t, file("other.crt"), file("other.key"))
	testcert.Issue(t, "ci", soon, ca).Write(t, file("ci.crt"), file("ci.key"))
	testcert.Issue(t, "ops", soon, ca).Write(t, file("ops.crt"), file("ops.key"))
	testcert.Issue(t, "old", time.Now().Add(-time.Minute), ca).Write(t, file("old.crt"), file("old.key"))
	testcert.Issue(t, "stranger", soon, other).Write(t, file("stranger.crt"), file("stranger.key"))

	var caller string
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller = r.TLS.PeerCertificates[0].Subject.CommonName
		answer(w, api.SinkList{})
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	clients := x509.NewCertPool()
	clients.AddCert(ca.Leaf)
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{testcert.Issue(t, "server", soon, ca).Certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	srv.StartTLS()
	defer srv.Close()
	pair := func(name string) []string {
		return []string{"--cert-file", file(name + ".crt"), "--key-file", file(name + ".key")}
	}
	for _, c := range []struct {
		name   string
		env    []string
		args   []string
		caller string // who is let in; "": nobody
		says   string
	}{
		{"of the environment", []string{"PAWL_CERT_FILE=" + file("ci.crt"), "PAWL_KEY_FILE=" + file("ci.key")}, nil, "ci", ""},
		{"of flags", []string{"PAWL_CERT_FILE=" + file("ci.crt"), "PAWL_KEY_FILE=" + file("ci.key")}, pair("ops"), "ops", ""},
		{"half of each", []string{"PAWL_KEY_FILE=" + file("ci.key")}, []string{"--cert-file", file("ci.crt")}, "", "go together"},
		{"none", nil, nil, "", "give one with --cert-file and --key-file, or $PAWL_CERT_FILE and $PAWL_KEY_FILE"},
		{"a stranger's", nil, pair("stranger"), "", "server.tls.client_ca_file"},
		{"an old one", nil, pair("old"), "", "has expired"},
		{"the wrong authority", []string{"PAWL_CA_FILE=" + file("other.crt")}, pair("ci"), "", "name who did with --ca-file"},
	} {
		caller = ""
		var out bytes.Buffer
		env := append([]string{"PAWL_ADDRESS=" + srv.URL, "PAWL_CA_FILE=" + file("ca.crt")}, c.env...)
		code := Main(t.Context(), append([]string{"list"}, c.args...), Streams{Out: &out, Err: &out, Env: env}, api.Version{})
		if caller != c.caller || (code == ExitDone) != (c.caller != "") || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: exit code %d, %q was let in: %s", c.name, code, caller, out.String())
		}
	}
}

func TestASchemeThatIsNotTheDaemonsIsNamed(t *testing.T) {
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer secure.Close()
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	for address, says := range map[string]string{
		strings.Replace(plain.URL, "http:", "https:", 1):  "write http:// in the address",
		strings.Replace(secure.URL, "https:", "http:", 1): "write https:// in its address",
	} {
		if _, stderr, code := run(t, address, "", "list"); code == ExitDone || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit code %d, %s", address, code, stderr)
		}
	}
}
