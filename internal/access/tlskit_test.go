package access

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pawlsync/pawl/internal/testcert"
)

// folder holds the three files of Certificates.
type folder struct {
	t   *testing.T
	dir string
}

func (f folder) path(name string) string { return filepath.Join(f.dir, name) }

func (f folder) write(name string, content []byte) {
	f.t.Helper()
	if err := os.WriteFile(f.path(name), content, 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// put writes a certificate and its key.
func (f folder) put(c *testcert.Issued) {
	f.t.Helper()
	f.write("tls.crt", c.CertPEM)
	f.write("tls.key", c.KeyPEM)
}

func (f folder) options() CertificateOptions {
	return CertificateOptions{CertFile: f.path("tls.crt"), KeyFile: f.path("tls.key")}
}

func (f folder) open(o CertificateOptions) *Certificates {
	f.t.Helper()
	c, err := OpenCertificates(o)
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}
