package ops

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/testcert"
	"github.com/pawlsync/pawl/test/ops/kit"
)

// secured is a daemon with TLS and a unix socket, whose operator is on its machine.
type secured struct {
	*kit.Daemon
	t  *testing.T
	ca *testcert.Issued
}

// newSecured makes a daemon with TLS, with more of server.tls as ", key: value", that
// does not run yet. Its certificate is good for an hour.
func newSecured(t *testing.T, more string) *secured {
	t.Helper()
	s := &secured{Daemon: kit.New(t, kit.NewTarget(t).Config("")), t: t, ca: testcert.Issue(t, "authority", time.Now().Add(24*time.Hour), nil)}
	s.Server = fmt.Sprintf(", socket: pawl.sock, tls: {cert_file: tls.crt, key_file: tls.key%s}", more)
	s.ca.Write(t, s.file("ca.crt"), s.file("ca.key"))
	s.issue("tls", time.Hour)
	s.Become(kit.Caller{Socket: s.file("pawl.sock")})
	return s
}

func (s *secured) file(name string) string { return filepath.Join(s.Dir, name) }

// issue writes NAME.crt and NAME.key, which end after lifetime.
func (s *secured) issue(name string, lifetime time.Duration) *testcert.Issued {
	s.t.Helper()
	issued := testcert.Issue(s.t, name, time.Now().Add(lifetime), s.ca)
	issued.Write(s.t, s.file(name+".crt"), s.file(name+".key"))
	return issued
}

// remote is a caller over TLS, who shows the certificate NAME.crt; "": none.
func (s *secured) remote(name string) *kit.Daemon {
	s.t.Helper()
	c := kit.Caller{CA: s.file("ca.crt")}
	if name != "" {
		c.Cert, c.Key = s.file(name+".crt"), s.file(name+".key")
	}
	return s.As(c)
}

// expiry is when the certificate ends that the metrics show, as they have it.
const expiry = `pawl_tls_certificate_expiry_timestamp_seconds{certificate="server"}`

// inForce waits until the daemon's certificate is that one, or it has ended before the
// daemon looked, and reports which.
func (s *secured) inForce(issued *testcert.Issued) bool {
	s.t.Helper()
	ends := issued.Leaf.NotAfter
	kit.Eventually(s.t, "a certificate is taken up", func(context.Context) error {
		if s.Metrics()[expiry] != float64(ends.Unix()) && time.Now().Before(ends) {
			return errors.New("the one before is in force")
		}
		return nil
	})
	return s.Metrics()[expiry] == float64(ends.Unix())
}

// TestACertificateThatExpiresIsToldBeforeAndReplacedWithoutARestart lets the daemon's
// certificate end while it runs, and puts first a wrong one in its place and then a right
// one.
func TestACertificateThatExpiresIsToldBeforeAndReplacedWithoutARestart(t *testing.T) {
	s := newSecured(t, "")
	s.Start()
	s.Logs("the API's certificate expires soon")
	s.Show("status", "! The API's certificate expires in", "Put a new one in its file")
	if left := time.Until(time.Unix(int64(s.Metric(expiry)), 0)); left <= 0 || left > 14*24*time.Hour { // the alert PawlCertificateExpires
		t.Errorf("the metrics say that the certificate ends in %v", left)
	}
	s.remote("").Show("list")
	pid := s.PID()

	lifetime := 4 * time.Second
	short := s.issue("tls", lifetime)
	for !s.inForce(short) { // the daemon refuses what has ended when it looks
		lifetime *= 2
		short = s.issue("tls", lifetime)
	}
	open := s.remote("").Begin("watch web/seen/")
	s.Reaches("pawl_watchers", 1)
	kit.Eventually(t, "the certificate ends", func(context.Context) error {
		if out, code := s.remote("").Run("list"); code == 0 {
			return fmt.Errorf("callers are let in: %s", out)
		}
		return nil
	})
	s.remote("").Refused("list", "its certificate is valid from", "server.tls.cert_file", "without a restart")
	s.Show("status", "! The API's certificate expired", "callers are cut off")
	s.Logs(`"level":"ERROR"`, "the API's certificate has expired")
	s.Show(sheet(t, s.Daemon, "seen/meanwhile"))
	open.Says("web/seen/meanwhile") // connections that are open go on

	testcert.Issue(t, "other", time.Now().Add(time.Hour), s.ca).Write(t, s.file("tls.crt"), s.file("other.key")) // with the key of the one before
	s.Reaches("pawl_tls_certificate_refused", 1)                                                                 // the alert PawlCertificateRefused
	s.Show("status", "was replaced by one that can't be used", "can't be used together")
	s.Logged(`"level":"ERROR"`, "the files of the API's certificate changed and can't be used")
	s.remote("").Refused("list", "its certificate is valid from")

	renewed := s.issue("tls", 90*24*time.Hour)
	s.inForce(renewed)
	s.Logged("the API's certificate was read again")
	s.remote("").Show("list", "web/seen/meanwhile")
	s.Reaches("pawl_tls_certificate_refused", 0)
	if out := s.Show("status"); strings.Contains(out, "certificate") {
		t.Error("pawl status still tells of the certificate")
	}
	if got := s.serial(); got != renewed.Leaf.SerialNumber.String() {
		t.Errorf("the daemon shows the certificate with the serial number %s, want %s", got, renewed.Leaf.SerialNumber)
	}
	open.GoesOn()
	if s.PID() != pid || s.Alive() != nil {
		t.Error("the daemon was restarted")
	}
}

// serial is the serial number of the certificate that a caller is shown.
func (s *secured) serial() string {
	s.t.Helper()
	conn, err := tls.Dial("tcp", s.Address, &tls.Config{InsecureSkipVerify: true})
	kit.Must(s.t, err)
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// TestACallersCertificateThatEndsIsRefusedAndRenewedWithoutARestart lets the certificate
// of one of two callers end, renews it, and then changes the authority that signs them.
func TestACallersCertificateThatEndsIsRefusedAndRenewedWithoutARestart(t *testing.T) {
	s := newSecured(t, `, client_ca_file: clients.crt, clients: {
  ci: {common_names: [ci], grants: [{scope: write}]},
  shop: {common_names: [shop], grants: [{scope: write}]}}`)
	s.ca.Write(t, s.file("clients.crt"), s.file("clients.key"))
	s.issue("shop", time.Hour)
	s.Start()
	s.Show("log-level debug")
	load := kit.StartLoad(s.remote("shop"), 2, 50)
	load.Busy(100)
	shops := s.remote("shop").Begin("watch web/seen/")
	s.Reaches("pawl_watchers", 1)
	s.remote("").Refused("list", "it asks for a client certificate")

	var cis *kit.Command
	for lifetime := 4 * time.Second; cis == nil; lifetime *= 2 {
		issued := s.issue("ci", lifetime)
		watch := s.remote("ci").Begin("watch web/seen/")
		kit.Eventually(t, "a watch begins", func(context.Context) error {
			if s.Metrics()["pawl_watchers"] == 2 {
				cis = watch
			} else if time.Now().Before(issued.Leaf.NotAfter) {
				return errors.New("it did not begin yet")
			}
			return nil // it did, or the certificate ended too early for this machine
		})
	}
	cis.Fails("has expired since the connection began", "connect again with a certificate")
	s.Reaches("pawl_watchers", 1)
	s.remote("ci").Refused("list", "client certificate", "--cert-file")
	s.Logs("TLS handshake error", "certificate has expired")
	load.Busy(100)

	s.issue("ci", time.Hour) // at the caller's; the daemon needs nothing
	s.remote("ci").Show(sheet(t, s.Daemon, "seen/renewed"))
	shops.Says("web/seen/renewed")

	old := s.ca
	s.ca = testcert.Issue(t, "next", time.Now().Add(24*time.Hour), nil)
	next := s.issue("ci", time.Hour)
	s.remote("ci").Refused("list", "a client certificate that an authority in its server.tls.client_ca_file signed") // ours is of another, and not shown
	both := &testcert.Issued{CertPEM: append(append([]byte{}, old.CertPEM...), s.ca.CertPEM...), KeyPEM: next.KeyPEM}
	reads := s.Metrics()[replaced]
	both.Write(t, s.file("clients.crt"), s.file("clients.key"))
	s.Reaches(replaced, reads+1)
	s.remote("ci").Show("list")
	load.Busy(100) // whose caller has a certificate of the old authority
	shops.GoesOn()

	s.ca.Write(t, s.file("clients.crt"), s.file("clients.key"))
	s.Reaches(replaced, reads+2)
	shops.Fails("its authority no longer counts")
	s.remote("ci").Show("list")
	s.Metric(denied)
	s.Show("status")
	for _, err := range load.End() {
		if !strings.Contains(err.Error(), "its authority no longer counts") {
			t.Error(err)
		}
	}
}

// replaced counts what was taken up of the files of server.tls.
const replaced = `pawl_tls_certificate_replacements_total{result="read"}`
