package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
)

// recheck is how long a file's content is used before the file is looked at
// again.
const recheck = time.Second

// maxSecretFileBytes bounds what is read of a file with secrets or certificates.
const maxSecretFileBytes = 1 << 20

// watched is a value made of files; it follows them as they change. When new
// content can't be read or makes no sense (a file is being written, a mount is
// away), the last good value stays and the problem is logged: a request that
// the target would still accept is not refused for it.
type watched[T any] struct {
	files []string
	make  func(contents [][]byte) (T, error)
	log   *slog.Logger

	now     atomic.Pointer[T]
	checked atomic.Int64 // when the files were last looked at, in nanoseconds since epoch

	mu    sync.Mutex // held while looking
	epoch time.Time
	infos []fs.FileInfo // of what now was made from
	said  string        // the problem that was logged last
}

// watch makes the first value of files, or says why it can't be made.
func watch[T any](log *slog.Logger, make func([][]byte) (T, error), files ...string) (*watched[T], error) {
	w := &watched[T]{files: files, make: make, log: log, epoch: time.Now()}
	if err := w.load(); err != nil {
		return nil, err
	}
	return w, nil
}

// fixed returns a watched value that never changes.
func fixed[T any](v T) *watched[T] {
	w := &watched[T]{}
	w.now.Store(&v)
	return w
}

// get returns the newest good value.
func (w *watched[T]) get() T {
	if len(w.files) > 0 {
		since := int64(time.Since(w.epoch))
		if since-w.checked.Load() >= int64(recheck) && w.mu.TryLock() {
			w.look()
			w.checked.Store(since)
			w.mu.Unlock()
		}
	}
	return *w.now.Load()
}

// look loads the files again if one of them changed.
func (w *watched[T]) look() {
	changed := false
	for i, name := range w.files {
		info, err := os.Stat(name)
		was := w.infos[i]
		changed = changed || err != nil || !os.SameFile(info, was) || info.Size() != was.Size() || !info.ModTime().Equal(was.ModTime())
	}
	if !changed {
		return
	}
	if err := w.load(); err != nil {
		if said := err.Error(); said != w.said {
			w.said = said
			w.log.Warn("the upstream's file changed and can't be used; the previous content stays", "error", err)
		}
		return
	}
	w.said = ""
}

// load makes a new value. The files are looked at before they are read: a
// change in between shows at the next look.
func (w *watched[T]) load() error {
	infos := make([]fs.FileInfo, len(w.files))
	contents := make([][]byte, len(w.files))
	for i, name := range w.files {
		info, content, err := readSmall(name)
		if err != nil {
			return err
		}
		infos[i], contents[i] = info, content
	}
	v, err := w.make(contents)
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(w.files, ", "), err)
	}
	w.infos = infos
	w.now.Store(&v)
	return nil
}

func readSmall(name string) (fs.FileInfo, []byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if info.IsDir() {
		return nil, nil, fmt.Errorf("%s is a directory", name)
	}
	content, err := io.ReadAll(io.LimitReader(f, maxSecretFileBytes+1))
	if err != nil {
		return nil, nil, err
	}
	if len(content) > maxSecretFileBytes {
		return nil, nil, fmt.Errorf("%s has more than the %d bytes allowed", name, maxSecretFileBytes)
	}
	return info, content, nil
}

// openSecret follows s and turns it into what make makes of its text. Errors
// hold no secret, provided that make's don't.
func openSecret[T any](o Options, s Secret, make func(string) (T, error)) (*watched[T], error) {
	fromText := func(text string) (v T, err error) {
		text = strings.TrimRight(text, "\r\n")
		if text == "" {
			return v, errors.New("the secret is empty")
		}
		if o.Secret != nil {
			o.Secret(text)
		}
		return make(text)
	}
	if s.File != "" {
		return watch(o.Logger, func(c [][]byte) (T, error) { return fromText(string(c[0])) }, s.File)
	}
	text := s.Value
	if s.Env != "" {
		var ok bool
		if text, ok = o.LookupEnv(s.Env); !ok {
			return nil, fmt.Errorf("environment variable %s is not set", s.Env)
		}
	}
	v, err := fromText(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	return fixed(v), nil
}

// minMarkBytes is how long a credential must be to be looked for in answers: a
// shorter one turns up by chance.
const minMarkBytes = 8

// token is a credential as it is sent and as it is known.
type token struct {
	value  string // of the header
	secret string
	marks  [][]byte // what gives it away in an answer
}

func newToken(value, secret string) token {
	t := token{value: value, secret: secret}
	bare := value[strings.LastIndexByte(value, ' ')+1:]
	for _, mark := range []string{secret, bare} {
		if len(mark) >= minMarkBytes && (len(t.marks) == 0 || mark != secret) {
			t.marks = append(t.marks, []byte(mark))
		}
	}
	return t
}

// tokenMaker makes a token whose header value is what format makes of the secret.
func tokenMaker(format func(string) string) func(string) (token, error) {
	return func(secret string) (token, error) {
		value := format(secret)
		if !httpguts.ValidHeaderFieldValue(value) {
			return token{}, errors.New("the secret has a line break or control character within")
		}
		return newToken(value, secret), nil
	}
}

// bearerHeader, basicHeader and plainHeader turn a secret into a header's value.
func bearerHeader(secret string) string { return "Bearer " + secret }

func basicHeader(username string) func(string) string {
	return func(password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password))
	}
}

func plainHeader(secret string) string { return secret }

// credential is a header that the host adds.
type credential struct {
	header string // canonical
	token  *watched[token]
}

// openCredentials follows every header credential of c.
func openCredentials(c Config, o Options) ([]credential, error) {
	var creds []credential
	var errs []error
	add := func(field, header string, s Secret, format func(string) string) {
		t, err := openSecret(o, s, tokenMaker(format))
		if err != nil {
			errs = append(errs, &ConfigError{Upstream: c.Name, Field: field, Problem: "can't be used", Err: err})
			return
		}
		creds = append(creds, credential{header: header, token: t})
	}
	if !c.Credentials.Bearer.IsZero() {
		add("Credentials.Bearer", "Authorization", c.Credentials.Bearer, bearerHeader)
	}
	if b := c.Credentials.Basic; !b.isZero() {
		add("Credentials.Basic.Password", "Authorization", b.Password, basicHeader(b.Username))
	}
	for i, h := range c.Credentials.Headers {
		add(fmt.Sprintf("Credentials.Headers[%d].Secret", i), canonical(h.Name), h.Secret, plainHeader)
	}
	return creds, errors.Join(errs...)
}

// openRoots follows a file of CA certificates; nil: the system's.
func openRoots(c Config, o Options) (*watched[*x509.CertPool], error) {
	if c.TLS.CAFile == "" {
		return fixed[*x509.CertPool](nil), nil
	}
	roots, err := watch(o.Logger, func(contents [][]byte) (*x509.CertPool, error) {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(contents[0]) {
			return nil, errors.New("no PEM certificate found")
		}
		return pool, nil
	}, c.TLS.CAFile)
	if err != nil {
		return nil, &ConfigError{Upstream: c.Name, Field: "TLS.CAFile", Problem: "can't be used", Err: err}
	}
	return roots, nil
}

// openClientCert follows the client's certificate and key; none: nil.
func openClientCert(c Config, o Options) (*watched[[]tls.Certificate], error) {
	if c.TLS.CertFile == "" {
		return fixed[[]tls.Certificate](nil), nil
	}
	cert, err := watch(o.Logger, func(contents [][]byte) ([]tls.Certificate, error) {
		pair, err := tls.X509KeyPair(contents[0], contents[1])
		return []tls.Certificate{pair}, err
	}, c.TLS.CertFile, c.TLS.KeyFile)
	if err != nil {
		return nil, &ConfigError{Upstream: c.Name, Field: "TLS.CertFile", Problem: "and TLS.KeyFile can't be used", Err: err}
	}
	return cert, nil
}

// signingKey reads a Standard Webhooks secret.
func signingKey(text string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(text, "whsec_")
	if !ok {
		return nil, errors.New(`the secret does not start with "whsec_"`)
	}
	key, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(encoded, "="))
	if err != nil {
		return nil, errors.New(`what follows "whsec_" is not base64`) // the cause would quote the secret
	}
	if len(key) < 24 || len(key) > 64 {
		return nil, fmt.Errorf("the secret has %d bytes; the specification asks for 24 to 64", len(key))
	}
	return key, nil
}
