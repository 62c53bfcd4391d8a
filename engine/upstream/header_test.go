package upstream

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
)

func TestHeadersThatAreTheHostsAreRefused(t *testing.T) {
	u := open(t, "http://127.0.0.1:1", func(c *Config) {
		c.Credentials.Headers = []HeaderCredential{{"X-Api-Key", Secret{Value: canary}}, {"X-Request-Id", Secret{Value: canary}}}
		c.AllowedHeaders = []string{"X-Tenant", "Webhook-Id"}
		c.Webhook.Secrets = []Secret{{Value: "whsec_" + strings.Repeat("QUFB", 8)}}
	})
	for _, name := range []string{
		"Host", "host", "Authorization", "authorization", "AUTHORIZATION", "Proxy-Authorization", "Proxy-Connection", "Cookie",
		"Content-Length", "content-length", "Content_Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Upgrade",
		"Trailer", "Expect", "HTTP2-Settings", "Impersonate-User", "impersonate-group", "Impersonate_Uid", "Impersonate-Extra-x",
		"X-Remote-User", "X-HTTP-Method-Override", "X-Original-URL", "X-Rewrite-URL",
		"X-Api-Key", "x-api-key", "X-Request-Id", "Webhook-Id", "webhook-signature", "Webhook-Timestamp",
		"X-Unknown", "", " ", "Accept ", " Accept", "Acc ept", ":path", "Accept:", "Accept\r\nHost", "Äccept",
	} {
		r := get("/")
		r.Header = []Field{{name, canary}}
		f := mustFail(t, u, r, FailDenied, false)
		if strings.Contains(f.Message, canary) {
			t.Errorf("%q: the value is in the message %q", name, f.Message)
		}
	}
}

func TestHeaderValuesCannotSmuggle(t *testing.T) {
	u := open(t, "http://127.0.0.1:1")
	tooMany := make([]Field, maxHeaderFields+1)
	for i := range tooMany {
		tooMany[i] = Field{"Accept", "x"}
	}
	for name, fields := range map[string][]Field{
		"line break":     {{"Accept", "a\r\nHost: b"}},
		"newline":        {{"Accept", "a\nb"}},
		"nul":            {{"Accept", "a\x00b"}},
		"delete":         {{"Accept", "a\x7f"}},
		"te":             {{"TE", "gzip"}},
		"content twice":  {{"Content-Type", "a"}, {"content-type", "b"}},
		"key twice":      {{"Idempotency-Key", "a"}, {"Idempotency-Key", "b"}},
		"too many":       tooMany,
		"too many bytes": {{"Accept", strings.Repeat("a", maxHeaderBytes)}},
	} {
		t.Run(name, func(t *testing.T) {
			r := get("/")
			r.Header = fields
			mustFail(t, u, r, FailDenied, false)
		})
	}
}

func TestAllowedHeadersReachTheTarget(t *testing.T) {
	var got http.Header
	u := openWith(t, serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header }), Options{UserAgent: "pawl/1"}, func(c *Config) {
		c.AllowedHeaders = []string{"x-tenant"}
	})
	r := put("/", "x")
	r.Header = []Field{
		{"x-tenant", "a"}, {"X-Tenant", "b"}, {"if-match", `"e"`}, {"idempotency-key", "k1"}, {"Te", "trailers"}, {"Traceparent", "00-1-2-01"},
	}
	mustDo(t, u, r)
	want := http.Header{
		"X-Tenant": {"a", "b"}, "If-Match": {`"e"`}, "Idempotency-Key": {"k1"}, "Te": {"trailers"}, "Traceparent": {"00-1-2-01"},
		"User-Agent": {"pawl/1"}, "Content-Length": {"1"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the target got %v, want %v", got, want)
	}
	if len(DefaultHeaders()) != len(defaultHeaders) {
		t.Error("DefaultHeaders is incomplete")
	}
	for _, name := range DefaultHeaders() {
		if name != "Te" && neverFromGuest(name) {
			t.Errorf("default header %s is the host's", name)
		}
	}
}
