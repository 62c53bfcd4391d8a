package daemon

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
	"github.com/pawlsync/pawl/internal/testcert"
)

// secured is a daemon with TLS, whose authority signs its callers as well.
type secured struct {
	*running
	t   *testing.T
	dir string
	ca  *testcert.Issued
}

func beginSecured(t *testing.T, server string) *secured {
	t.Helper()
	needPlugins(t)
	_, url := newObjects(t)
	s := &secured{t: t, dir: t.TempDir(), ca: testcert.Issue(t, "ca", time.Now().Add(time.Hour), nil)}
	s.ca.Write(t, s.file("ca.crt"), s.file("ca.key"))
	s.put("first")
	path := write(t, s.dir, url, "")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	secure := fmt.Sprintf(`server: {listen: "127.0.0.1:0", tls: {cert_file: tls.crt, key_file: tls.key%s}}`, server)
	if err := os.WriteFile(path, bytes.Replace(text, []byte(`server: {listen: "127.0.0.1:0"}`), []byte(secure), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	o := options()
	o.LookEvery = 10 * time.Millisecond
	s.running = begin(t, load(t, path), o)
	return s
}

func (s *secured) file(name string) string { return filepath.Join(s.dir, name) }

// put writes a new certificate of the daemon.
func (s *secured) put(name string) {
	s.t.Helper()
	testcert.Issue(s.t, name, time.Now().Add(time.Hour), s.ca).Write(s.t, s.file("tls.crt"), s.file("tls.key"))
}

// as returns a client that shows a certificate of that name; "": none.
func (s *secured) as(name string) *client.Client {
	s.t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AddCert(s.ca.Leaf)
	if name != "" {
		config.Certificates = []tls.Certificate{testcert.Issue(s.t, name, time.Now().Add(time.Hour), s.ca).Certificate}
	}
	c, err := client.New(client.Options{Address: s.ready.Address, TLS: config})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// serves is the name in the certificate that a new connection gets.
func (s *secured) serves() string {
	s.t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(s.ready.Address, "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// until asks for the status until ok.
func (s *secured) until(c *client.Client, ok func(api.DaemonStatus) bool) {
	s.t.Helper()
	for {
		st, err := c.Status(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		if ok(st) {
			return
		}
	}
}

func TestACertificateIsReplacedUnderOpenConnectionsAndABrokenOneIsNot(t *testing.T) {
	s := beginSecured(t, "")
	old := s.as("") // keeps its connection
	var first time.Time
	s.until(old, func(st api.DaemonStatus) bool { first = st.Certificate.ReadAt; return st.Certificate.Problem == "" })

	if err := os.WriteFile(s.file("tls.crt"), []byte("-----BEGIN CERTIFICATE-----\nMIIB"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.until(old, func(st api.DaemonStatus) bool {
		return st.Certificate.Problem != "" && len(st.Headlines) > 0 && strings.Contains(st.Headlines[0], "can't be used")
	})
	if got := s.serves(); got != "first" {
		t.Errorf("after half a certificate, %q is served", got)
	}
	s.put("second")
	s.until(old, func(st api.DaemonStatus) bool {
		return st.Certificate.Problem == "" && st.Certificate.ReadAt.After(first)
	})
	if got := s.serves(); got != "second" {
		t.Errorf("after a good one, %q is served", got)
	}
	if _, err := s.as("").Status(t.Context()); err != nil {
		t.Errorf("a new caller: %v", err)
	}
}

func TestAClientCertificateMayDoWhatItsClientIsGranted(t *testing.T) {
	s := beginSecured(t, `, client_ca_file: ca.crt, clients: {reader: {common_names: [ro], grants: [{scope: read}]}, writer: {uris: ["spiffe://example/rw"], grants: [{scope: write, sinks: [web], prefix: a/}]}}`)
	put := func(name, key string) string {
		_, err := s.as(name).Put(t.Context(), record.Key{Sink: "web", Name: key}, api.PutRequest{Payload: json.RawMessage(`1`)})
		if err == nil {
			return ""
		}
		return err.Error()
	}
	for _, c := range []struct{ name, key, says string }{
		{"rw", "a/1", ""},
		{"rw", "b/1", `certificate "writer" lacks the scope write for sink "web", key "b/1"`},
		{"ro", "a/1", `certificate "reader" lacks the scope write`},
		{"stranger", "a/1", "belongs to none of this daemon's clients"},
		{"", "a/1", "give one with --cert-file"},
	} {
		if got := put(c.name, c.key); c.says == "" && got != "" || !strings.Contains(got, c.says) {
			t.Errorf("%q, %s: %q, want %q", c.name, c.key, got, c.says)
		}
	}
	if _, err := s.as("ro").Status(t.Context()); err != nil {
		t.Errorf("a reader can't read: %v", err)
	}
}

// locked is a log that is written and read at once.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) { l.mu.Lock(); defer l.mu.Unlock(); return l.b.Write(p) }
func (l *locked) String() string              { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

func TestProfilesAreAtTheAdminAddressAloneAndForThisMachine(t *testing.T) {
	needPlugins(t)
	_, url := newObjects(t)
	var log locked
	o := options()
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	d := begin(t, load(t, write(t, t.TempDir(), url, ""), "PAWL_SERVER_ADMIN_ADDRESS=127.0.0.1:0", "PAWL_METRICS_ENABLED=false"), o)
	m := regexp.MustCompile(`admin address" address=(\S+)`).FindStringSubmatch(log.String())
	if m == nil {
		t.Fatalf("the log does not say where it is:\n%s", log.String())
	}
	admin := "http://" + m[1]
	for _, c := range []struct {
		url, host string
		status    int
		says      string
	}{
		{admin + "/debug/pprof/goroutine?debug=1", "", 200, "goroutine profile"},
		{admin + "/debug/pprof/", "", 200, "heap"},
		{admin + "/metrics", "", 200, "pawl_build_info"},
		{admin + "/livez", "", 200, "ok"},
		{admin + "/readyz", "", 200, "ok"},
		{admin + "/v1/sinks", "", 404, ""},
		{admin + "/debug/pprof/heap", "evil.example:80", 403, "this machine alone"},
		{d.ready.Address + "/debug/pprof/", "", 404, ""},
		{d.ready.Address + "/metrics", "", 404, ""},
	} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = c.host
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != c.status || !strings.Contains(string(body), c.says) {
			t.Errorf("%s (%s): %s, want %d and %q", c.url, c.host, response.Status, c.status, c.says)
		}
	}
	for site, status := range map[string]int{"cross-site": 403, "same-site": 403, "same-origin": 200, "none": 200} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", admin+"/debug/pprof/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Sec-Fetch-Site", site)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != status {
			t.Errorf("asked by a browser as %s: %s", site, response.Status)
		}
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := http.Get(admin + "/livez"); err == nil {
		t.Error("the admin address outlives the daemon")
	}
}

func TestASocketForOthersIsOpenToAllAndTheSystemsWordDecides(t *testing.T) {
	needPlugins(t)
	_, url := newObjects(t)
	path := filepath.Join(socketDir(t), "pawl.sock")
	file := write(t, t.TempDir(), url, "")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	open := fmt.Sprintf(`server: {listen: "127.0.0.1:0", socket: %q, socket_clients: {ops: {groups: ["4711"], grants: [{scope: read}]}}}`, path)
	if err := os.WriteFile(file, bytes.Replace(text, []byte(`server: {listen: "127.0.0.1:0"}`), []byte(open), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	begin(t, load(t, file), options())
	info, err := os.Stat(path)
	if err != nil || info.Mode() != fs.ModeSocket|0o666 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	c, err := client.New(client.Options{Address: "unix://" + path})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SuspendSink(t.Context(), "web"); err != nil { // which asks for admin
		t.Errorf("our own user: %v", err)
	}
}

func TestACallerThatIsMistypedIsToldBeforeTheStart(t *testing.T) {
	c := load(t, write(t, t.TempDir(), "http://127.0.0.1:1", ""))
	c.Server.TLS.CertFile, c.Server.TLS.KeyFile = "/none.crt", "/none.key"
	if errs := wrongCallers(c, options()); len(errs) != 1 || errs[0].Key != "server.tls" || !strings.Contains(errs[0].What, "/none.crt") {
		t.Errorf("%v", errs)
	}
}
