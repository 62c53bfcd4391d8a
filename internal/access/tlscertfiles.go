package access

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"
)

// certificateFileMax bounds what is read of one file, in bytes.
const certificateFileMax = 1 << 20

// certificateSet is what one reading of the files gave.
type certificateSet struct {
	sum         [sha256.Size]byte // of the files
	config      *tls.Config
	leaf        *x509.Certificate
	authorities map[string]bool // the raw certificates of ClientCAFile
	lastCA      time.Time       // when the last of them ends; zero: there are none
	at          time.Time       // when it was read
}

// files reads the two or three files.
func (c *Certificates) files() ([][]byte, error) {
	var out [][]byte
	for _, f := range []struct{ what, path string }{
		{"certificate", c.o.CertFile}, {"private key", c.o.KeyFile}, {"client certificate authorities", c.o.ClientCAFile},
	} {
		if f.path == "" {
			continue
		}
		info, err := os.Stat(f.path)
		if err == nil && info.Size() > certificateFileMax {
			err = fmt.Errorf("%s is larger than 1 MiB", f.path)
		}
		var data []byte
		if err == nil {
			data, err = os.ReadFile(f.path)
		}
		if err != nil {
			return nil, fmt.Errorf("the %s of the API can't be read: %w", f.what, err)
		}
		out = append(out, data)
	}
	return out, nil
}

// sumOf tells one state of the files from another.
func sumOf(files [][]byte) [sha256.Size]byte {
	h := sha256.New()
	for _, f := range files {
		sum := sha256.Sum256(f)
		h.Write(sum[:])
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// parse makes a configuration of what files holds, as files returned it.
func (c *Certificates) parse(files [][]byte) (*certificateSet, error) {
	pair, err := tls.X509KeyPair(files[0], files[1])
	if err != nil {
		return nil, fmt.Errorf("the certificate %s and the key %s can't be used together: %w", c.o.CertFile, c.o.KeyFile, err)
	}
	s := &certificateSet{
		sum: sumOf(files), leaf: pair.Leaf, at: c.o.Now(),
		config: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, Time: c.o.Now},
	}
	if c.o.ClientCAFile == "" {
		return s, nil
	}
	if err := s.takeAuthorities(files[2]); err != nil {
		return nil, fmt.Errorf("%s %w", c.o.ClientCAFile, err)
	}
	s.config.ClientAuth = tls.RequireAndVerifyClientCert
	if c.o.ClientOptional {
		s.config.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return s, nil
}

func (s *certificateSet) takeAuthorities(text []byte) error {
	certs, err := certificatesOf(text)
	if err != nil {
		return err
	}
	s.config.ClientCAs, s.authorities = x509.NewCertPool(), map[string]bool{}
	for _, cert := range certs {
		s.config.ClientCAs.AddCert(cert)
		s.authorities[string(cert.Raw)] = true
		if cert.NotAfter.After(s.lastCA) {
			s.lastCA = cert.NotAfter
		}
	}
	return nil
}

// certificatesOf reads PEM certificates, of which a half-written one is an error.
func certificatesOf(text []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("holds something that is no certificate: %w", err)
		}
		out = append(out, cert)
	}
	switch {
	case len(out) == 0:
		return nil, errors.New("holds no PEM certificate; callers could not be told apart")
	case bytes.Contains(text, []byte("-----BEGIN")):
		return nil, errors.New("ends in the midst of a certificate")
	}
	return out, nil
}
