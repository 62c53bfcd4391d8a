package access

import (
	"crypto/subtle"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// TokenOptions say where the tokens are.
type TokenOptions struct {
	// File is the token file.
	File string
	// Logger gets what an operator should know. Defaults to none.
	Logger *slog.Logger
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
}

// Tokens knows the bearers of the tokens of a file, which it reads again when it
// changes. A change that can't be used leaves the tokens as they were, and is told in
// the log and by Trouble.
type Tokens struct {
	o TokenOptions

	mu      sync.Mutex
	seen    fs.FileInfo // the file that was looked at last; nil: there was none
	known   []knownToken
	trouble error
}

type knownToken struct {
	hash     TokenHash
	identity *Identity
	expires  time.Time
}

// OpenTokens reads the file.
//
// # Errors
//
// A file that can't be read, or holds no token.
func OpenTokens(o TokenOptions) (*Tokens, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	t := &Tokens{o: o, seen: lookAt(o.File)}
	var err error
	t.known, err = t.read()
	return t, err
}

// CheckTokenFile says what is wrong with a token file; nil: it can be used.
func CheckTokenFile(path string) error {
	_, err := readTokenFile(path)
	return err
}

// readTokenFile returns the tokens of a file, of which there is at least one.
func readTokenFile(path string) ([]Token, error) {
	data, err := readBounded(path)
	if err != nil {
		return nil, fmt.Errorf("the token file can't be read: %w", err)
	}
	list, err := ParseTokens(data)
	if err != nil {
		return nil, fmt.Errorf("the token file %s can't be used: %w", path, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("the token file %s holds no token; pawl token new makes one", path)
	}
	return list, nil
}

// readBounded reads a token file. A pipe would keep every caller waiting, and an endless
// file fill the memory.
func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", path)
	case info.Size() > tokenFileMaxBytes:
		return nil, fmt.Errorf("%s has %d bytes; %d are the most", path, info.Size(), tokenFileMaxBytes)
	}
	return os.ReadFile(path)
}

// Authenticate implements Authenticator. A token that is not of this file is none
// that it knows.
func (t *Tokens) Authenticate(r *http.Request) (*Identity, error) {
	token, ok := Bearer(r)
	if !ok {
		return nil, nil
	}
	found := t.find(HashToken(token))
	switch {
	case found == nil:
		return nil, nil
	case !found.expires.IsZero() && !t.o.Now().Before(found.expires):
		return nil, &Refusal{
			Detail: fmt.Sprintf("%s expired at %s", found.identity, found.expires.UTC().Format(time.RFC3339)),
			Hint:   "ask whoever runs this daemon for a new one (pawl token new)",
		}
	}
	return found.identity, nil
}

// Bearer returns the bearer token that r shows.
func Bearer(r *http.Request) (token string, ok bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	return token, token != "" && strings.EqualFold(scheme, "Bearer")
}

// find looks at every token, in a time that tells neither which one it is nor how
// much of it is right.
func (t *Tokens) find(hash TokenHash) *knownToken {
	known, at := t.newest(), -1
	for i := range known {
		at = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(hash[:], known[i].hash[:]), i, at)
	}
	if at < 0 {
		return nil
	}
	return &known[at]
}

// Trouble is what keeps the file from being used as it is now; nil: it is in force.
func (t *Tokens) Trouble() error {
	t.newest()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.trouble
}

// newest are the tokens of the file, as it was when it could be used last.
func (t *Tokens) newest() []knownToken {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := lookAt(t.o.File)
	if isSame(now, t.seen) {
		return t.known
	}
	t.seen = now
	known, err := t.read()
	if t.trouble = err; err != nil {
		t.o.Logger.Error("the token file changed and can't be used; the tokens that it held before stay in force", "error", err)
		return t.known
	}
	t.o.Logger.Info("the token file was read again", "file", t.o.File, "tokens", len(known))
	t.known = known
	return known
}

func (t *Tokens) read() ([]knownToken, error) {
	list, err := readTokenFile(t.o.File)
	plain := 0
	known := make([]knownToken, len(list))
	for i := range list {
		known[i] = knownToken{list[i].Hash, list[i].identity(), list[i].Expires}
		if list[i].Plain {
			plain++
		}
	}
	if plain > 0 {
		t.o.Logger.Warn("the token file has tokens in plain text, which may do everything and whose users can't be told apart; `pawl token convert` hashes and names them",
			"file", t.o.File, "tokens", plain)
	}
	return known, err
}

// lookAt is what the system says of a file; nil: it is not there, and reading it says
// why.
func lookAt(path string) fs.FileInfo {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return info
}

// isSame tells one state of a file from another without reading it. Size and time do
// not do: tokens are lines of one length, and those who put files in place by renaming
// may give all of them one time.
func isSame(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
