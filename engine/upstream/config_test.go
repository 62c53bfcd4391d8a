package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func mustURL(t testing.TB, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestValidateNamesTheFieldThatIsWrong(t *testing.T) {
	secret := Secret{Value: canary}
	for _, row := range []struct {
		field  string
		change func(*Config)
	}{
		{"Name", func(c *Config) { c.Name = "" }},
		{"Kind", func(c *Config) { c.Kind = "a b" }},
		{"BaseURL", func(c *Config) { c.BaseURL = "" }},
		{"BaseURL", func(c *Config) { c.BaseURL = "ftp://h" }},
		{"BaseURL", func(c *Config) { c.BaseURL = "http://" }},
		{"BaseURL", func(c *Config) { c.BaseURL = "http://h:70000" }},
		{"BaseURL", func(c *Config) { c.BaseURL = "http://h:0" }},
		{"BaseURL", func(c *Config) { c.BaseURL = "http://user:" + canary + "@h" }},
		{"BaseURL", func(c *Config) { c.BaseURL = "http://user:" + canary + "@h:bad" }},
		{"BaseURL", func(c *Config) { c.BaseURL = "http://h?token=" + canary }},
		{"BaseURL", func(c *Config) { c.BaseURL = "http://h#f" }},
		{"BaseURL", func(c *Config) { c.BaseURL = "http://h/a/../b" }},
		{"BaseURL", func(c *Config) { c.BaseURL = "http://h/a//b" }},
		{"BaseURL", func(c *Config) { c.BaseURL = "http://[bad]" }},
		{"Protocol", func(c *Config) { c.Protocol = "http3" }},
		{"Protocol", func(c *Config) { c.Protocol = ProtocolH2C }},
		{"Protocol", func(c *Config) { c.BaseURL = "http://h"; c.Protocol = ProtocolHTTP2 }},
		{"TLS", func(c *Config) { c.BaseURL = "http://h"; c.TLS.ServerName = "x" }},
		{"TLS.CertFile", func(c *Config) { c.TLS.CertFile = "x" }},
		{"TLS.InsecureSkipVerify", func(c *Config) { c.TLS.InsecureSkipVerify = true; c.TLS.CAFile = "x" }},
		{"Credentials", func(c *Config) {
			c.Credentials.Bearer = secret
			c.Credentials.Basic = Basic{Username: "u", Password: secret}
		}},
		{"Credentials.Bearer", func(c *Config) { c.Credentials.Bearer = Secret{File: "x", Value: canary} }},
		{"Credentials.Basic.Username", func(c *Config) { c.Credentials.Basic = Basic{Username: "a:b", Password: secret} }},
		{"Credentials.Basic.Password", func(c *Config) { c.Credentials.Basic = Basic{Username: "u"} }},
		{"Credentials.Headers[0].Name", func(c *Config) { c.Credentials.Headers = []HeaderCredential{{"Host", secret}} }},
		{"Credentials.Headers[0].Name", func(c *Config) { c.Credentials.Headers = []HeaderCredential{{"a b", secret}} }},
		{"Credentials.Headers[1].Name", func(c *Config) { c.Credentials.Headers = []HeaderCredential{{"K", secret}, {"k", secret}} }},
		{"Credentials.Headers[0].Name", func(c *Config) {
			c.Credentials.Bearer = secret
			c.Credentials.Headers = []HeaderCredential{{"authorization", secret}}
		}},
		{"Credentials.Headers[0].Secret", func(c *Config) { c.Credentials.Headers = []HeaderCredential{{Name: "K"}} }},
		{"Webhook.Secrets[0]", func(c *Config) { c.Webhook.Secrets = []Secret{{}} }},
		{"AllowedMethods[0]", func(c *Config) { c.AllowedMethods = []string{"get"} }},
		{"AllowedMethods[1]", func(c *Config) { c.AllowedMethods = []string{"GET", "TRACE"} }},
		{"AllowedPathPrefixes[0]", func(c *Config) { c.AllowedPathPrefixes = []string{"v1"} }},
		{"AllowedPathPrefixes[0]", func(c *Config) { c.AllowedPathPrefixes = []string{"/a%20b"} }},
		{"AllowedPathPrefixes[0]", func(c *Config) { c.AllowedPathPrefixes = []string{"/a/../b"} }},
		{"AllowedHeaders[0]", func(c *Config) { c.AllowedHeaders = []string{"Authorization"} }},
		{"AllowedHeaders[0]", func(c *Config) { c.AllowedHeaders = []string{"impersonate-user"} }},
		{"AllowedHeaders[0]", func(c *Config) { c.AllowedHeaders = []string{"Impersonate_User"} }},
		{"AllowedHeaders[0]", func(c *Config) { c.AllowedHeaders = []string{"a b"} }},
		{"AllowedHeaders[0]", func(c *Config) {
			c.AllowedHeaders = []string{"k"}
			c.Credentials.Headers = []HeaderCredential{{"K", secret}}
		}},
		{"RequestMaxBytes", func(c *Config) { c.RequestMaxBytes = -1 }},
		{"ResponseMaxBytes", func(c *Config) { c.ResponseMaxBytes = -1 }},
		{"MaxConcurrent", func(c *Config) { c.MaxConcurrent = -1 }},
		{"RatePerSecond", func(c *Config) { c.RatePerSecond = -1 }},
		{"Timeout", func(c *Config) { c.Timeout = -time.Second }},
		{"DialTimeout", func(c *Config) { c.DialTimeout = -time.Second }},
	} {
		c := Config{Name: "target", BaseURL: "https://target.example/api"}
		row.change(&c)
		err := c.Validate()
		var ce *ConfigError
		if !errors.As(err, &ce) || ce.Field != row.field || !errors.Is(err, ErrConfig) {
			t.Errorf("want an error at %s, got %v", row.field, err)
			continue
		}
		if strings.Contains(err.Error(), canary) {
			t.Errorf("%s: the error holds the secret: %v", row.field, err)
		}
		if _, openErr := Open(c, Options{}); openErr == nil {
			t.Errorf("%s: Open accepts it", row.field)
		}
	}
}

func TestValidateTellsEverythingAtOnce(t *testing.T) {
	err := Config{BaseURL: "ftp://h", Timeout: -1}.Validate()
	for _, field := range []string{"Name", "BaseURL", "Timeout"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v says nothing of %s", err, field)
		}
	}
}

func TestSecretsPrintAsTheirOrigin(t *testing.T) {
	c := Config{Name: "x", Credentials: Credentials{
		Bearer:  Secret{Value: canary},
		Basic:   Basic{Username: "u", Password: Secret{Value: canary}},
		Headers: []HeaderCredential{{"K", Secret{Value: canary}}},
	}, Webhook: Webhook{Secrets: []Secret{{Value: canary}}}}
	j, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "config", c, "secret", c.Credentials.Bearer)
	for _, s := range []string{fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), fmt.Sprintf("%s %q", c.Webhook, c.Credentials), string(j), log.String()} {
		if strings.Contains(s, canary) {
			t.Errorf("the secret shows in %s", s)
		}
	}
	if got := (Secret{File: "/f"}).String() + (Secret{Env: "E"}).String() + (Secret{}).String(); got != "file /fenvironment variable Enone" {
		t.Errorf("origins read %q", got)
	}
}

func TestAccessorsTellWhatAPluginMayKnow(t *testing.T) {
	u := open(t, "https://Target.example:8443/api/")
	if u.Name() != "target" || u.Kind() != KindHTTP || u.BaseURL() != "https://target.example:8443/api" {
		t.Errorf("%q %q %q", u.Name(), u.Kind(), u.BaseURL())
	}
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAnotherKindNeedsItsOwnTransport(t *testing.T) {
	c := Config{Name: "k", Kind: "kubernetes", BaseURL: "https://k.example"}
	if _, err := Open(c, Options{}); !errors.Is(err, ErrConfig) {
		t.Errorf("Open without transport: %v", err)
	}
	rt := roundTripFunc(func(r *http.Request) (*http.Response, error) {
		if r.URL.String() != "https://k.example/api/v1?x=y" {
			t.Errorf("the transport is asked for %s", r.URL)
		}
		return nil, errors.New("broken")
	})
	u, err := Open(c, Options{RoundTripper: rt})
	if err != nil {
		t.Fatal(err)
	}
	mustFail(t, u, get("/api/v1?x=y"), FailProtocol, true) // nothing is known of a transport without hooks
	c.TLS.ServerName = "x"
	if _, err := Open(c, Options{RoundTripper: rt}); !errors.Is(err, ErrConfig) {
		t.Errorf("Open with a transport and TLS: %v", err)
	}
}
