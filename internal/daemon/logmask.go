package daemon

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// redacted stands where a secret would be logged.
const redacted = "[redacted]"

// secretBytes is how long a secret must be to be looked for in the log: a shorter one
// turns up by chance, and would tear words apart.
const secretBytes = 8

// secrets are those that the daemon knows, so that none is logged. No code logs one on
// purpose: this is for what a library, a file's error or a target's message may quote.
// A nil *secrets knows none.
type secrets struct {
	mu    sync.Mutex
	forms []string // of all secrets, the longest first
	all   atomic.Pointer[strings.Replacer]
}

// learn makes s known, also as it is written in URLs, in JSON and in base64.
func (m *secrets) learn(s string) {
	if m == nil || len(s) < secretBytes {
		return
	}
	quoted, _ := json.Marshal(s) // a string always has one
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forms = append(m.forms, s, url.QueryEscape(s), url.PathEscape(s), strings.Trim(string(quoted), `"`), base64.StdEncoding.EncodeToString([]byte(s)))
	slices.SortFunc(m.forms, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	m.forms = slices.Compact(m.forms)
	pairs := make([]string, 0, 2*len(m.forms))
	for _, form := range m.forms {
		pairs = append(pairs, form, redacted)
	}
	m.all.Store(strings.NewReplacer(pairs...))
}

// What looks like a credential is masked though nobody knows it: a cluster's token, which
// its library reads, or the password of a URL.
var (
	authorization = regexp.MustCompile(`(?i)(authorization["':=\[\s]+(?:(?:bearer|basic|token)\s+)?)[^\s"',\]]+`)
	bearer        = regexp.MustCompile(`(?i)\b(bearer\s+)[A-Za-z0-9+/._~=-]{16,}`)
	userInfo      = regexp.MustCompile(`(://[^/\s:@]*:)[^/\s@]+@`)
)

// mask is s without secrets.
func (m *secrets) mask(s string) string {
	if all := m.all.Load(); all != nil {
		s = all.Replace(s)
	}
	s = authorization.ReplaceAllString(s, "${1}"+redacted)
	s = bearer.ReplaceAllString(s, "${1}"+redacted)
	return userInfo.ReplaceAllString(s, "${1}"+redacted+"@")
}

// telling are the ends of attributes' names that stand for secrets.
var telling = []string{"authorization", "password", "passwd", "secret", "token", "apikey", "cookie", "credential", "credentials", "privatekey"}

// tells reports whether an attribute of that name holds a secret.
func tells(name string) bool {
	name = strings.NewReplacer("-", "", "_", "", " ", "", ".", "").Replace(strings.ToLower(name))
	return slices.ContainsFunc(telling, func(end string) bool { return strings.HasSuffix(name, end) })
}

// attr is a without secrets.
func (m *secrets) attr(a slog.Attr) slog.Attr {
	a.Value = a.Value.Resolve()
	switch kind := a.Value.Kind(); {
	case kind == slog.KindGroup:
		group := slices.Clone(a.Value.Group())
		for i := range group {
			group[i] = m.attr(group[i])
		}
		a.Value = slog.GroupValue(group...)
	case kind != slog.KindString && kind != slog.KindAny: // a number, a time
	case tells(a.Key):
		a.Value = slog.StringValue(redacted)
	case kind == slog.KindString:
		a.Value = slog.StringValue(m.mask(a.Value.String()))
	default:
		a.Value = m.any(a.Value)
	}
	return a
}

// any is v, of whatever type: as text where its text, in either format, has a secret.
func (m *secrets) any(v slog.Value) slog.Value {
	if err, ok := v.Any().(error); ok {
		return slog.StringValue(m.mask(err.Error()))
	}
	asJSON, _ := json.Marshal(v.Any()) // what has no JSON is not logged as JSON
	for _, text := range []string{fmt.Sprintf("%+v", v.Any()), string(asJSON)} {
		if masked := m.mask(text); masked != text {
			return slog.StringValue(masked)
		}
	}
	return v
}

// masked logs without secrets.
type masked struct {
	slog.Handler
	secrets *secrets
}

// Handle implements slog.Handler.
func (h masked) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, h.secrets.mask(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.secrets.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, out)
}

// WithAttrs implements slog.Handler.
func (h masked) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = h.secrets.attr(a)
	}
	return masked{h.Handler.WithAttrs(clean), h.secrets}
}

// WithGroup implements slog.Handler.
func (h masked) WithGroup(name string) slog.Handler {
	return masked{h.Handler.WithGroup(name), h.secrets}
}
