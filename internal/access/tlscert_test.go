package access

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlsync/pawl/internal/bubble"
	"github.com/pawlsync/pawl/internal/testcert"
)

// serving is who a new connection gets as the server.
func serving(t *testing.T, c *Certificates) string {
	t.Helper()
	server, client := net.Pipe()
	go func() { _ = tls.Server(server, c.Config()).Handshake(); server.Close() }()
	defer client.Close()
	conn := tls.Client(client, &tls.Config{InsecureSkipVerify: true})
	if err := conn.Handshake(); err != nil {
		t.Fatal(err)
	}
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
}

func TestAReplacedCertificateIsForNewConnectionsAndOldOnesGoOn(t *testing.T) {
	f := folder{t, t.TempDir()}
	soon := time.Now().Add(time.Hour)
	f.put(testcert.Issue(t, "first", soon, nil))
	c := f.open(f.options())
	l, err := tls.Listen("tcp", "127.0.0.1:0", c.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go io.Copy(conn, conn)
		}
	}()
	old, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()

	f.put(testcert.Issue(t, "second", soon.Add(time.Hour), nil))
	c.Look()
	if got := serving(t, c); got != "second" {
		t.Errorf("a new connection gets %q", got)
	}
	echoed := make([]byte, 4)
	if _, err := old.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(old, echoed); err != nil || string(echoed) != "ping" {
		t.Errorf("the old connection: %q, %v", echoed, err)
	}
	if s := c.Status(); !s.NotAfter.Equal(soon.Add(time.Hour).UTC().Truncate(time.Second)) || s.Read["read"] != 1 || s.Problem != "" {
		t.Errorf("status %+v", s)
	}
}

func TestASecretsVolumeIsFollowedThroughItsLinks(t *testing.T) {
	f := folder{t, t.TempDir()}
	inForce := func(version string, c *testcert.Issued) {
		f.t.Helper()
		if err := os.Mkdir(f.path(version), 0o700); err != nil {
			t.Fatal(err)
		}
		folder{t, f.path(version)}.put(c)
		if err := os.Symlink(version, f.path("..new")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(f.path("..new"), f.path("..data")); err != nil {
			t.Fatal(err)
		}
	}
	soon := time.Now().Add(time.Hour)
	inForce("..1", testcert.Issue(t, "first", soon, nil))
	for _, name := range []string{"tls.crt", "tls.key"} {
		if err := os.Symlink("..data/"+name, f.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	c := f.open(f.options())
	inForce("..2", testcert.Issue(t, "second", soon, nil))
	c.Look()
	if got := serving(t, c); got != "second" {
		t.Errorf("after the link was moved, %q is served", got)
	}
}

func TestAReplacementThatCantBeUsedKeepsTheOneInForceAndIsTold(t *testing.T) {
	soon := time.Now().Add(time.Hour)
	first, second, expired := testcert.Issue(t, "first", soon, nil), testcert.Issue(t, "second", soon, nil), testcert.Issue(t, "expired", time.Now().Add(-time.Minute), nil)
	later := testcert.Issue(t, "later", time.Now().AddDate(2, 0, 0), nil)
	for name, broken := range map[string]struct {
		replace func(f folder)
		says    string
	}{
		"half-written":   {func(f folder) { f.write("tls.crt", second.CertPEM[:200]) }, "can't be used together"},
		"of another key": {func(f folder) { f.write("tls.crt", second.CertPEM) }, "can't be used together"},
		"empty":          {func(f folder) { f.write("tls.key", nil) }, "can't be used together"},
		"expired":        {func(f folder) { f.put(expired) }, "expired at"},
		"not yet valid":  {func(f folder) { f.put(later) }, "is the clock right?"},
		"gone":           {func(f folder) { os.Remove(f.path("tls.crt")) }, "can't be read"},
		"too large":      {func(f folder) { f.write("tls.crt", bytes.Repeat([]byte("x"), certificateFileMax+1)) }, "larger than 1 MiB"},
		"no authorities": {func(f folder) { f.write("ca.crt", []byte("none")) }, "holds no PEM certificate"},
		"half an authority": {func(f folder) {
			f.write("ca.crt", append(append([]byte{}, first.CertPEM...), second.CertPEM[:100]...))
		}, "in the midst of a certificate"},
		"expired authorities": {func(f folder) { f.write("ca.crt", expired.CertPEM) }, "every authority"},
	} {
		t.Run(name, func(t *testing.T) {
			f := folder{t, t.TempDir()}
			f.put(first)
			f.write("ca.crt", first.CertPEM)
			var log bytes.Buffer
			o := f.options()
			o.ClientCAFile, o.ClientOptional, o.Logger = f.path("ca.crt"), true, slog.New(slog.NewTextHandler(&log, nil))
			c := f.open(o)
			broken.replace(f)
			c.Look()
			if c.Status().Problem != "" {
				t.Error("one look was enough, and the other file may be on its way")
			}
			c.Look()
			c.Look()
			s := c.Status()
			if !strings.Contains(s.Problem, broken.says) || s.Read["refused"] != 1 {
				t.Errorf("status %+v, want %q", s, broken.says)
			}
			if n := strings.Count(log.String(), "can't be used; the certificate in force stays"); n != 1 {
				t.Errorf("the log says it %d times:\n%s", n, log.String())
			}
			if got := serving(t, c); got != "first" {
				t.Errorf("%q is served", got)
			}
			f.put(second)
			f.write("ca.crt", second.CertPEM)
			c.Look()
			if s := c.Status(); s.Problem != "" || s.Read["read"] != 1 {
				t.Errorf("after a good one came: %+v", s)
			}
			if got := serving(t, c); got != "second" {
				t.Errorf("after a good one came, %q is served", got)
			}
		})
	}
}

func TestTheOldFilesPutBackEndTheComplaint(t *testing.T) {
	f := folder{t, t.TempDir()}
	first := testcert.Issue(t, "first", time.Now().Add(time.Hour), nil)
	f.put(first)
	c := f.open(f.options())
	f.write("tls.key", nil)
	c.Look()
	c.Look()
	if c.Status().Problem == "" {
		t.Fatal("nothing is told of an empty key")
	}
	f.put(first)
	c.Look()
	if s := c.Status(); s.Problem != "" || s.Read["read"] != 0 {
		t.Errorf("status %+v", s)
	}
}

func TestAnExpiredCertificateStartsNeverthelessAndIsTold(t *testing.T) {
	f := folder{t, t.TempDir()}
	f.put(testcert.Issue(t, "old", time.Now().Add(-time.Hour), nil))
	var log bytes.Buffer
	o := f.options()
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	f.open(o)
	if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "renew it") {
		t.Errorf("the log:\n%s", log.String())
	}
}

func TestTheEndIsForetoldOnceADay(t *testing.T) {
	f := folder{t, t.TempDir()}
	now := time.Now()
	f.put(testcert.Issue(t, "first", now.Add(20*24*time.Hour), nil))
	var log bytes.Buffer
	o := f.options()
	o.Logger, o.Now = slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now }
	c := f.open(o)
	for _, at := range []struct {
		hours, told int
	}{{0, 0}, {7 * 24, 1}, {1, 1}, {24, 2}, {12*24 - 2, 3}} {
		now = now.Add(time.Duration(at.hours) * time.Hour)
		c.Look()
		if n := strings.Count(log.String(), "expires soon"); n != at.told {
			t.Errorf("told %d times, want %d:\n%s", n, at.told, log.String())
		}
	}
	for _, told := range []int{1, 1, 1, 2} { // 1, 11, 21 and 31 hours after its end
		now = now.Add(2 * time.Hour)
		c.Look()
		if n := strings.Count(log.String(), "level=ERROR msg=\"the API's certificate has expired"); n != told {
			t.Errorf("its end was told %d times, want %d:\n%s", n, told, log.String())
		}
		now = now.Add(8 * time.Hour)
	}
}

func TestACallerOfAnAuthorityThatLeftOrThatExpiredIsTrustedNoMore(t *testing.T) {
	f := folder{t, t.TempDir()}
	now := time.Now()
	ca, other := testcert.Issue(t, "ca", now.AddDate(0, 1, 0), nil), testcert.Issue(t, "other", now.AddDate(0, 1, 0), nil)
	f.put(testcert.Issue(t, "server", now.AddDate(0, 1, 0), nil))
	f.write("ca.crt", append(append([]byte{}, ca.CertPEM...), other.CertPEM...))
	o := f.options()
	o.ClientCAFile, o.Now = f.path("ca.crt"), func() time.Time { return now }
	c := f.open(o)
	caller := testcert.Issue(t, "caller", now.Add(time.Hour), ca)
	state := &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{caller.Leaf, ca.Leaf}}}
	if !c.Trusts(state) {
		t.Error("a good caller is refused")
	}
	if c.Trusts(&tls.ConnectionState{}) {
		t.Error("a caller without a certificate is trusted")
	}
	now = now.Add(2 * time.Hour)
	if c.Trusts(state) {
		t.Error("a certificate that ended is good for ever on an open connection")
	}
	now = now.Add(-2 * time.Hour)
	f.write("ca.crt", other.CertPEM)
	c.Look()
	if c.Trusts(state) {
		t.Error("an authority that left still vouches")
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	f := folder{t, t.TempDir()}
	f.put(testcert.Issue(t, "server", time.Now().Add(time.Hour), nil))
	c := f.open(f.options())
	for version, ok := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		server, client := net.Pipe()
		go func() { _ = tls.Server(server, c.Config()).Handshake(); server.Close() }()
		err := tls.Client(client, &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version}).Handshake()
		if (err == nil) != ok {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		client.Close()
	}
}

func TestRunLooksUntilItIsEnded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := folder{t, t.TempDir()}
		f.put(testcert.Issue(t, "first", time.Now().Add(time.Hour), nil))
		c := f.open(f.options())
		f.put(testcert.Issue(t, "second", time.Now().Add(time.Hour), nil))
		ctx, cancel := context.WithCancel(t.Context())
		go c.Run(ctx, 2*time.Second)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if got := serving(t, c); got != "second" {
			t.Errorf("%q is served", got)
		}
		cancel()
		synctest.Wait()
		f.put(testcert.Issue(t, "third", time.Now().Add(time.Hour), nil))
		time.Sleep(3 * time.Second)
		if got := serving(t, c); got != "second" {
			t.Errorf("after its end %q is served", got)
		}
	})
}

func TestFilesThatCantBeUsedAtTheStartSayWhich(t *testing.T) {
	f := folder{t, t.TempDir()}
	f.put(testcert.Issue(t, "server", time.Now().Add(time.Hour), nil))
	f.write("empty", nil)
	for _, tc := range []struct {
		cert, key, ca, says string
	}{
		{"empty", "tls.key", "", "empty"},
		{"tls.crt", "missing", "", "missing"},
		{"tls.crt", "tls.key", "empty", "holds no PEM certificate"},
		{"tls.crt", "tls.key", "missing", "authorities of the API can't be read"},
	} {
		o := CertificateOptions{CertFile: f.path(tc.cert), KeyFile: f.path(tc.key)}
		if tc.ca != "" {
			o.ClientCAFile = f.path(tc.ca)
		}
		if _, err := OpenCertificates(o); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%v, want one that says %q", err, tc.says)
		}
	}
}
