package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// logged is what one line of the log is that fn writes, without its time.
func logged(m *secrets, asJSON bool, fn func(*slog.Logger)) string {
	var b bytes.Buffer
	var h slog.Handler = slog.NewTextHandler(&b, nil)
	if asJSON {
		h = slog.NewJSONHandler(&b, nil)
	}
	fn(slog.New(masked{h, m}))
	return b.String()
}

// shy is a value that shows itself in its own way.
type shy struct{ Text string }

func (s shy) LogValue() slog.Value { return slog.StringValue("shy " + s.Text) }

func TestAKnownSecretIsLoggedInNoForm(t *testing.T) {
	const secret = `c4n"ary/=?é`
	m := &secrets{}
	m.learn(secret)
	for _, asJSON := range []bool{false, true} {
		for name, fn := range map[string]func(*slog.Logger){
			"message":       func(l *slog.Logger) { l.Info("it is " + secret + ", is it?") },
			"attribute":     func(l *slog.Logger) { l.Info("x", "a", "it is "+secret) },
			"error":         func(l *slog.Logger) { l.Info("x", "error", fmt.Errorf("open: %w", errors.New(secret))) },
			"in a URL":      func(l *slog.Logger) { l.Info("x", "a", "https://h/?q=c4n%22ary%2F%3D%3F%C3%A9") },
			"in base64":     func(l *slog.Logger) { l.Info("x", "a", "YzRuImFyeS89P8Op") },
			"in JSON":       func(l *slog.Logger) { l.Info("x", "a", `{"a":"c4n\"ary/=?é"}`) },
			"group":         func(l *slog.Logger) { l.Info("x", slog.Group("g", slog.Group("h", "a", secret))) },
			"list":          func(l *slog.Logger) { l.Info("x", "a", []string{"b", secret}) },
			"struct":        func(l *slog.Logger) { l.Info("x", "a", struct{ B any }{map[string]string{"c": secret}}) },
			"own way":       func(l *slog.Logger) { l.Info("x", "a", shy{secret}) },
			"with":          func(l *slog.Logger) { l.With("a", secret).Info("x") },
			"with in group": func(l *slog.Logger) { l.WithGroup("g").With("a", secret).Info("x") },
		} {
			line := logged(m, asJSON, fn)
			for _, form := range []string{"ary", "YzRu"} {
				if strings.Contains(line, form) {
					t.Errorf("%s, JSON %v: %s", name, asJSON, line)
				}
			}
			if !strings.Contains(line, redacted) {
				t.Errorf("%s, JSON %v, says nothing of it: %s", name, asJSON, line)
			}
		}
	}
}

func TestWhatLooksLikeACredentialIsNotLogged(t *testing.T) {
	for _, fn := range []func(*slog.Logger){
		func(l *slog.Logger) { l.Info("x", "Authorization", "canary") },
		func(l *slog.Logger) { l.Info("x", "api_key", "canary") },
		func(l *slog.Logger) { l.Info("x", "db-password", "canary") },
		func(l *slog.Logger) { l.Info("x", "refresh.token", []byte("canary")) },
		func(l *slog.Logger) { l.Info(`map[Authorization:[Bearer canary]]`) },
		func(l *slog.Logger) { l.Info("x", "a", `{"authorization": "Basic canary"}`) },
		func(l *slog.Logger) { l.Info("x", "a", "sent Bearer canary-and-more-of-it") },
		func(l *slog.Logger) { l.Info("x", "error", errors.New(`Get "https://me:canary@host/": refused`)) },
	} {
		if line := logged(&secrets{}, true, fn); strings.Contains(line, "canary") || !strings.Contains(line, redacted) {
			t.Error(line)
		}
	}
}

func TestWhatIsNoSecretIsLoggedAsItIs(t *testing.T) {
	m := &secrets{}
	m.learn("short") // shorter than what is looked for
	line := logged(m, false, func(l *slog.Logger) {
		l.Info("short work", "tokens", 3, "basic", "Basic authentication is missing", "url", "http://127.0.0.1:80/a@b", "list", []string{"a"})
	})
	want := `msg="short work" tokens=3 basic="Basic authentication is missing" url=http://127.0.0.1:80/a@b list=[a]` + "\n"
	if !strings.HasSuffix(line, want) {
		t.Errorf("%s\nwant it to end in %s", line, want)
	}
}
