package server

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
)

// reloading is a value read from files, read again when one of them changes, so
// that tokens and certificates are renewed without a restart.
type reloading[T any] struct {
	paths []string
	read  func() (T, error)
	log   *slog.Logger

	mu    sync.Mutex
	stamp string // of the files that value, or the last failure, came from
	value T
}

func load[T any](log *slog.Logger, read func() (T, error), paths ...string) (*reloading[T], error) {
	f := &reloading[T]{paths: paths, read: read, log: log}
	f.stamp = f.look()
	value, err := read()
	f.value = value
	return f, err
}

// get returns the newest value. Files that can't be read leave it as it was.
func (f *reloading[T]) get() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	stamp := f.look()
	if stamp == f.stamp {
		return f.value
	}
	f.stamp = stamp
	value, err := f.read()
	if err != nil {
		f.log.Error("a file changed and can't be used; what it held before stays in force", "files", f.paths, "error", err)
		return f.value
	}
	f.log.Info("read again", "files", f.paths)
	f.value = value
	return f.value
}

// look tells one state of the files from another without reading them.
func (f *reloading[T]) look() string {
	var b strings.Builder
	for _, p := range f.paths {
		if info, err := os.Stat(p); err == nil {
			fmt.Fprintf(&b, "%d %d;", info.Size(), info.ModTime().UnixNano())
		}
	}
	return b.String()
}

// tokens are the bearer tokens that callers may send, as hashes: equal lengths
// are what makes comparing them take equal time.
type tokens struct {
	file *reloading[[][sha256.Size]byte]
}

func loadTokens(path string, log *slog.Logger) (*tokens, error) {
	file, err := load(log, func() ([][sha256.Size]byte, error) { return readTokens(path) }, path)
	if err != nil {
		return nil, err
	}
	return &tokens{file: file}, nil
}

// CheckTokens says what is wrong with a token file; nil: it can be used.
func CheckTokens(path string) error {
	_, err := readTokens(path)
	return err
}

// readTokens reads one token a line; blank lines and those that start with #
// are none.
func readTokens(path string) ([][sha256.Size]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the token file can't be read: %w", err)
	}
	var out [][sha256.Size]byte
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		if token := bytes.TrimSpace(lines.Bytes()); len(token) > 0 && token[0] != '#' {
			out = append(out, sha256.Sum256(token))
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("the token file %s can't be read: %w", path, err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the token file %s holds no token; write one a line", path)
	}
	return out, nil
}

// match reports whether token is one of them, in a time that does not depend on
// which, or on how much of it is right.
func (t *tokens) match(token string) bool {
	hash, found := sha256.Sum256([]byte(token)), 0
	for _, known := range t.file.get() {
		found |= subtle.ConstantTimeCompare(hash[:], known[:])
	}
	return found == 1
}

// LoadTLS returns the TLS configuration of a server with that certificate (PEM
// files). Where clientCAFile is given, callers must show a certificate that it
// signed. The files are read again when they change.
func LoadTLS(certFile, keyFile, clientCAFile string, log *slog.Logger) (*tls.Config, error) {
	paths := []string{certFile, keyFile}
	if clientCAFile != "" {
		paths = append(paths, clientCAFile)
	}
	file, err := load(log, func() (*tls.Config, error) { return readTLS(certFile, keyFile, clientCAFile) }, paths...)
	if err != nil {
		return nil, err
	}
	config := file.get().Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return file.get(), nil }
	return config, nil
}

func readTLS(certFile, keyFile, clientCAFile string) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("the TLS certificate %s with key %s can't be used: %w", certFile, keyFile, err)
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{cert},
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"h2", "http/1.1"},
	}
	if clientCAFile == "" {
		return config, nil
	}
	pem, err := os.ReadFile(clientCAFile)
	if err != nil {
		return nil, fmt.Errorf("the client certificate authorities can't be read: %w", err)
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New(clientCAFile + " holds no PEM certificate; callers could not be told apart")
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	return config, nil
}
