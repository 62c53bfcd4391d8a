package access

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"
	"unicode/utf8"

	"github.com/pawlsync/pawl/engine/record"
)

// A token file has one token a line: a JSON object, which is a Token. Lines that are
// empty or begin with # are none. A line that is neither is a token as it is sent,
// which may do everything: the file of an earlier pawl.

// Bounds of a token file.
const (
	tokenFileMaxBytes = 16 << 20
	tokenNameMax      = 64
)

// Token is one token of a file. What is sent is not in it, but its hash.
type Token struct {
	// Name is unique in the file.
	Name string `json:"name"`
	// Hash is the SHA-256 of what is sent. That needs no salt and no slow function: a
	// token that NewToken made has 256 random bits, which nobody can try out.
	Hash TokenHash `json:"hash"`
	// Grants are what its bearer may do.
	Grants []TokenGrant `json:"grants"`
	// Senders are the names under which its bearer may send as another pawl.
	Senders []string `json:"senders,omitempty"`
	// Created is when it was made, for people.
	Created time.Time `json:"created,omitzero"`
	// Expires is when it ends; zero: never.
	Expires time.Time `json:"expires,omitzero"`

	// Plain: the line is the token itself, and not its hash.
	Plain bool `json:"-"`
}

// TokenGrant is a Grant in the file.
type TokenGrant struct {
	Scope  Scope    `json:"scope"`
	Sinks  []string `json:"sinks,omitempty"`
	Prefix string   `json:"prefix,omitempty"`
}

// TokenHash is "sha256:" and 64 hexadecimal digits, as text.
type TokenHash [sha256.Size]byte

const hashPrefix = "sha256:"

// MarshalText writes a hash.
func (h TokenHash) MarshalText() ([]byte, error) {
	return append([]byte(hashPrefix), hex.EncodeToString(h[:])...), nil
}

// UnmarshalText reads a hash.
func (h *TokenHash) UnmarshalText(text []byte) error {
	digits, ok := bytes.CutPrefix(text, []byte(hashPrefix))
	if !ok || len(digits) != 2*len(h) {
		return errors.New("a hash is sha256: and 64 hexadecimal digits")
	}
	if _, err := hex.Decode(h[:], digits); err != nil {
		return errors.New("a hash is sha256: and 64 hexadecimal digits")
	}
	return nil
}

// NewToken returns a token that nobody can guess, and its hash. The beginning is for
// those who look for secrets in places where none should be.
func NewToken() (token string, hash TokenHash) {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // which never fails
	token = "pawl_" + base64.RawURLEncoding.EncodeToString(secret[:])
	return token, HashToken(token)
}

// HashToken is what the file has of a token.
func HashToken(token string) TokenHash { return sha256.Sum256([]byte(token)) }

// ParseTokens reads a token file.
//
// # Errors
//
// What is wrong, with its line. A token in plain text is never repeated.
func ParseTokens(data []byte) ([]Token, error) {
	if len(data) > tokenFileMaxBytes {
		return nil, fmt.Errorf("it has %d bytes; %d are the most", len(data), tokenFileMaxBytes)
	}
	var out []Token
	names := map[string]int{}
	hashes := map[TokenHash]int{}
	number := 0
	for line := range bytes.Lines(data) {
		number++
		t, err := parseLine(bytes.TrimSpace(line), number)
		if err == nil && t != nil {
			err = cmp.Or(unique(names, t.Name, number, "name"), unique(hashes, t.Hash, number, "token"))
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if t != nil {
			out = append(out, *t)
		}
	}
	return out, nil
}

func unique[T comparable](seen map[T]int, v T, line int, what string) error {
	if first := seen[v]; first != 0 {
		return fmt.Errorf("it has the %s of line %d", what, first)
	}
	seen[v] = line
	return nil
}

// bare is what a token may consist of where it is not hashed (RFC 6750, b64token).
var bare = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

// parseLine reads one line; nil: there is no token on it.
func parseLine(line []byte, number int) (*Token, error) {
	switch {
	case len(line) == 0 || line[0] == '#':
		return nil, nil
	case !utf8.Valid(line):
		return nil, errors.New("it is not UTF-8")
	case line[0] == '{':
		return parseToken(line)
	case !bare.Match(line):
		return nil, errors.New("it is neither an object, {…}, nor a token as it is sent, nor a comment, #…")
	}
	return &Token{
		Name: fmt.Sprintf("line-%d", number), Hash: HashToken(string(line)), Plain: true,
		Grants: []TokenGrant{{Scope: Admin}}, Senders: []string{AnySender},
	}, nil
}

func parseToken(line []byte) (*Token, error) {
	var t Token
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return nil, fmt.Errorf("it is no token: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows after the token; write one a line")
	}
	return &t, t.Validate()
}

var tokenName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]*$`)

// Validate says what is wrong with a token; nil: nothing.
func (t *Token) Validate() error {
	switch {
	case t.Name == "":
		return errors.New("the token has no name")
	case len(t.Name) > tokenNameMax || !tokenName.MatchString(t.Name):
		return fmt.Errorf("the name %.80q is not allowed: it begins with a letter or digit, goes on with those and . _ @ -, and has at most %d of them", t.Name, tokenNameMax)
	case t.Hash == TokenHash{}:
		return errors.New("the token has no hash")
	case len(t.Grants) == 0:
		return errors.New("the token has no grants, so that it could do nothing")
	}
	for _, g := range t.Grants {
		if err := g.validate(); err != nil {
			return err
		}
	}
	for _, s := range t.Senders {
		if s == "" || len(s) >= record.MaxKeyBytes {
			return fmt.Errorf("a sender has a name, of less than %d bytes", record.MaxKeyBytes)
		}
	}
	return nil
}

func (g *TokenGrant) validate() error {
	if _, err := ParseScope(string(g.Scope)); err != nil {
		return err
	}
	for _, s := range g.Sinks {
		if s == "" || len(s) > record.MaxKeyBytes {
			return errors.New("a sink has a name; to grant all of them, leave sinks out")
		}
	}
	if len(g.Prefix) > record.MaxKeyBytes {
		return fmt.Errorf("the prefix has %d bytes, and no key more than %d", len(g.Prefix), record.MaxKeyBytes)
	}
	return nil
}

// line is t as the file has it, with its end.
func (t *Token) line() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(t) // made of strings and times
	return b.Bytes()
}

const kindToken = "token"

// identity is who sends t.
func (t *Token) identity() *Identity {
	id := &Identity{Name: t.Name, Kind: kindToken, Senders: t.Senders, Grants: make([]Grant, len(t.Grants))}
	for i, g := range t.Grants {
		id.Grants[i] = Grant(g)
	}
	return id
}
