package upstream

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/bubble"
)

// age makes w look at its files at the next use.
func age[T any](w *watched[T]) { w.checked.Store(-int64(recheck)) }

func TestCredentialsAreSentAndFollowTheirFiles(t *testing.T) {
	var got http.Header
	base := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	file := writeFile(t, "token", "first\r\n\n")
	env := Options{LookupEnv: func(name string) (string, bool) { return "from " + name, name == "TOKEN" }}
	for _, row := range []struct {
		change       func(*Config)
		header, want string
	}{
		{func(c *Config) { c.Credentials.Bearer = Secret{File: file} }, "Authorization", "Bearer first"},
		{func(c *Config) { c.Credentials.Bearer = Secret{Env: "TOKEN"} }, "Authorization", "Bearer from TOKEN"},
		{func(c *Config) { c.Credentials.Basic = Basic{"user", Secret{Value: "pa:ss\n"}} }, "Authorization", "Basic dXNlcjpwYTpzcw=="},
		{func(c *Config) { c.Credentials.Headers = []HeaderCredential{{"x-api-key", Secret{File: file}}} }, "X-Api-Key", "first"},
	} {
		mustDo(t, openWith(t, base, env, row.change), get("/"))
		if v := got.Get(row.header); v != row.want {
			t.Errorf("the target got %s: %q, want %q", row.header, v, row.want)
		}
	}
	u := open(t, base, func(c *Config) { c.Credentials.Bearer = Secret{File: file} })
	mustDo(t, u, get("/"))
	writeFile(t, file, "second")
	age(u.credentials[0].token)
	mustDo(t, u, get("/"))
	if v := got.Get("Authorization"); v != "Bearer second" {
		t.Errorf("after the change the target got %q", v)
	}
}

func TestUnusableSecretsAreErrorsWithoutTheirText(t *testing.T) {
	for name, s := range map[string]Secret{
		"missing file": {File: filepath.Join(t.TempDir(), "missing")},
		"directory":    {File: t.TempDir()},
		"empty file":   {File: writeFile(t, "empty", "\n")},
		"two lines":    {File: writeFile(t, "lines", canary+"\n"+canary)},
		"huge file":    {File: writeFile(t, "huge", strings.Repeat(canary, 1<<17))},
		"unset env":    {Env: "PAWL_TEST_UNSET"},
		"bad value":    {Value: canary + "\x00"},
	} {
		_, err := Open(Config{Name: "x", BaseURL: "http://h", Credentials: Credentials{Bearer: s}}, Options{})
		var ce *ConfigError
		if !errors.As(err, &ce) || ce.Field != "Credentials.Bearer" || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAChangedFileCountsWithinASecondAndADamagedOneNot(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		file := filepath.Join(dir, "token")
		writeFile(t, file, "one")
		var log bytes.Buffer
		o := Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}.withDefaults()
		w, err := openSecret(o, Secret{File: file}, tokenMaker(plainHeader))
		if err != nil {
			t.Fatal(err)
		}
		expect := func(when, want string) {
			t.Helper()
			time.Sleep(recheck) // the bubble's clock
			if got := w.get().value; got != want {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		expect("unchanged", "one")
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, file, "three")
		if err := os.Chtimes(file, time.Time{}, info.ModTime()); err != nil {
			t.Fatal(err)
		}
		if got := w.get().value; got != "one" {
			t.Errorf("looked at too often: %q", got)
		}
		expect("another size", "three")
		writeFile(t, filepath.Join(dir, "new"), "five!")
		if err := os.Rename(filepath.Join(dir, "new"), file); err != nil {
			t.Fatal(err)
		}
		expect("another file in its place", "five!")
		writeFile(t, file, "seven")
		if err := os.Chtimes(file, time.Time{}, time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)); err != nil {
			t.Fatal(err)
		}
		expect("another time", "seven")
		writeFile(t, file, canary+"\n"+canary)
		expect("damaged", "seven")
		expect("damaged still", "seven")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		expect("gone", "seven")
		if n := strings.Count(log.String(), "level=WARN"); n != 2 || strings.Contains(log.String(), canary) {
			t.Errorf("want two warnings without secret, got %s", log.String())
		}
		writeFile(t, file, "nine")
		expect("back", "nine")
	})
}

func TestOneCanReadWhileAnotherLooks(t *testing.T) {
	file := writeFile(t, "token", "x")
	w, err := openSecret(Options{}.withDefaults(), Secret{File: file}, tokenMaker(plainHeader))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				age(w)
				if w.get().value == "" {
					t.Error("no value")
				}
			}
		})
	}
	for i := range 50 {
		writeFile(t, file, strings.Repeat("x", i%7+1))
	}
	wg.Wait()
}

func TestWebhooksAreSignedByTheStandard(t *testing.T) {
	// The example of the specification.
	s := &signer{
		keys: []*watched[[]byte]{fixed(mustKey(t, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))},
		now:  func() time.Time { return time.Unix(1614265330, 0) },
	}
	h := http.Header{}
	s.sign(h, "msg_p5jXN8AQM9LWM0D4loKWxJek", []byte(`{"test": 2432232314}`))
	if got := h.Get("Webhook-Signature"); got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Errorf("signature %q", got)
	}
	if h.Get("Webhook-Id") != "msg_p5jXN8AQM9LWM0D4loKWxJek" || h.Get("Webhook-Timestamp") != "1614265330" {
		t.Errorf("headers %v", h)
	}
}

func mustKey(t testing.TB, text string) []byte {
	t.Helper()
	key, err := signingKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestASignedRequestVerifiesWithEitherSecret(t *testing.T) {
	secrets := []string{"whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("o"), 24)), "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("n"), 32))}
	var got http.Header
	var body string
	base := serve(t, func(_ http.ResponseWriter, r *http.Request) { got, body = r.Header, readAll(t, r.Body) })
	now := time.Unix(1_700_000_000, 5)
	u := openWith(t, base, Options{Now: func() time.Time { return now }}, func(c *Config) {
		c.Webhook.Secrets = []Secret{{Value: secrets[0]}, {File: writeFile(t, "new", secrets[1]+"\n")}}
	})
	ids := map[string]bool{}
	for _, row := range []struct {
		key, id string
		body    []byte
	}{
		{"gen-17", "gen-17", []byte("hello")},
		{"gen-17", "gen-17", nil},
		{"a.b", webhookID("a.b"), []byte("x")},
		{"", "", []byte("x")},
		{"", "", []byte("x")},
	} {
		r := &Request{Method: "POST", Path: "/", Body: row.body, HasBody: row.body != nil}
		if row.key != "" {
			r.Header = []Field{{"Idempotency-Key", row.key}}
		}
		mustDo(t, u, r)
		id, signatures := got.Get("Webhook-Id"), strings.Fields(got.Get("Webhook-Signature"))
		if id == "" || row.id != "" && id != row.id || row.id == "" && ids[id] || strings.Contains(id, ".") {
			t.Errorf("key %q: id %q", row.key, id)
		}
		ids[id] = true
		if got.Get("Webhook-Timestamp") != strconv.FormatInt(now.Unix(), 10) || got.Get("Idempotency-Key") != row.key || len(signatures) != len(secrets) {
			t.Errorf("headers %v", got)
			continue
		}
		for i, secret := range secrets {
			mac := hmac.New(sha256.New, mustKey(t, secret))
			mac.Write([]byte(id + "." + got.Get("Webhook-Timestamp") + "." + body))
			if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); signatures[i] != want {
				t.Errorf("signature %d is %q, want %q", i, signatures[i], want)
			}
		}
	}
}

func TestBadSigningSecretsAreRefusedWithoutTheirText(t *testing.T) {
	for _, text := range []string{canary, "whsec_", "whsec_" + canary + "!", "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 23)), "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65))} {
		_, err := Open(Config{Name: "x", BaseURL: "http://h", Webhook: Webhook{Secrets: []Secret{{Value: text}}}}, Options{})
		var ce *ConfigError
		if !errors.As(err, &ce) || ce.Field != "Webhook.Secrets[0]" || strings.Contains(err.Error(), canary) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
