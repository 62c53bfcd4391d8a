package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/sagatemplate"
)

// What is wrong with a configuration, and shows only when files are read and
// plugins asked, is told as the configuration's own errors are: file, line, key.

// wrongServer looks at the files of the API.
func wrongServer(c *config.Config, o Options) config.Errors {
	var out config.Errors
	if file := c.Server.TokenFile; file != "" {
		if err := access.CheckTokenFile(file); err != nil {
			hint := ""
			if errors.Is(err, fs.ErrNotExist) {
				hint = "`pawl token new --name NAME --scope admin` makes it, with a first token"
			}
			out = append(out, c.Wrong("server.token_file", err.Error(), hint))
		}
	}
	return append(out, wrongCallers(c, o)...)
}

// wrongSagas holds the templates of sagas to what their sinks can do.
func wrongSagas(c *config.Config, manifest func(sinkName string) (sink.Manifest, bool)) config.Errors {
	set, err := sagatemplate.New(c)
	if err != nil {
		return config.Errors{c.Wrong("sagas", err.Error(), "")}
	}
	var out config.Errors
	for name, err := range set.Misfits(manifest) {
		out = append(out, c.Wrong("sagas."+name+".steps", err.Error(), ""))
	}
	return out
}

// wrongStore refuses a folder that holds something, and nothing that a store
// has: a path that was mistyped is not to be strewn with our files.
func wrongStore(c *config.Config) config.Errors {
	if _, err := storeOptions(c, Options{}); err != nil {
		return config.Errors{c.Wrong("store.encryption_key_file", err.Error(), "")}
	}
	entries, err := os.ReadDir(c.Store.Path)
	if err != nil {
		return nil // it is made, or opening it says more
	}
	var foreign []string
	for _, e := range entries {
		switch e.Name() {
		case "lock", "mark", "data", "journal", "keys", "unfinished": // as store-format.md has them
			return nil
		case "lost+found": // of a file system of its own
		default:
			foreign = append(foreign, e.Name())
		}
	}
	if len(foreign) == 0 {
		return nil
	}
	what := fmt.Sprintf("the folder %s is no store and not empty: it holds %s", c.Store.Path, foreign[0])
	if n := len(foreign) - 1; n > 0 {
		what += fmt.Sprintf(" and %d more", n)
	}
	return config.Errors{c.Wrong("store.path", what, "choose an empty folder, or one that does not exist")}
}

// wrongUpstream are the errors of upstream.Open, each at its key.
func wrongUpstream(c *config.Config, name string, err error) config.Errors {
	var out config.Errors
	for _, err := range leaves(err) {
		key, what := "upstreams."+name, err.Error()
		if ce, ok := errors.AsType[*upstream.ConfigError](err); ok {
			if yaml := upstreamKeys[ce.Field]; yaml != "" {
				key += "." + yaml
				what = ce.Problem
			} else {
				what = ce.Field + " " + ce.Problem
			}
			if ce.Err != nil {
				what += ": " + ce.Err.Error()
			}
		}
		out = append(out, c.Wrong(key, yamlNames.Replace(what), ""))
	}
	return out
}

// leaves takes joined errors apart.
func leaves(err error) []error {
	if _, ok := err.(*upstream.ConfigError); ok { // it has two causes, but is one error
		return []error{err}
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []error
		for _, e := range joined.Unwrap() {
			out = append(out, leaves(e)...)
		}
		return out
	}
	return []error{err}
}

// upstreamKeys has the key of each field of upstream.Config, below the
// upstream's own.
var upstreamKeys = map[string]string{
	"BaseURL": "base_url", "Kind": "kind", "Protocol": "protocol",
	"TLS": "tls", "TLS.CAFile": "tls.ca_file", "TLS.CertFile": "tls.cert_file", "TLS.InsecureSkipVerify": "tls.insecure_skip_verify",
	"Credentials": "credentials", "Credentials.Bearer": "credentials.bearer",
	"Credentials.Basic.Username": "credentials.basic.username", "Credentials.Basic.Password": "credentials.basic.password",
	"Credentials.Headers[0]": "credentials.header", "Credentials.Headers[0].Name": "credentials.header.name", "Credentials.Headers[0].Secret": "credentials.header.secret",
	"Webhook.Secrets[0]": "sign.standard_webhooks.secret", "Webhook.Secrets[1]": "sign.standard_webhooks.previous_secret",
	"RequestMaxBytes": "request_max_bytes", "ResponseMaxBytes": "response_max_bytes", "MaxConcurrent": "max_concurrent",
	"RatePerSecond": "rate", "Timeout": "timeout", "DialTimeout": "dial_timeout",
}

// yamlNames turns the fields that texts of package upstream mention into keys.
var yamlNames = strings.NewReplacer("TLS.KeyFile", "tls.key_file", "TLS.CAFile", "tls.ca_file", "Credentials.Basic", "credentials.basic",
	"AllowedMethods", "allowed_methods", "AllowedPathPrefixes", "allowed_path_prefixes", "AllowedHeaders", "allowed_headers")

// wrongHost is an error of package wasmhost at key, without the words that the
// key says already.
func wrongHost(c *config.Config, key string, err error) *config.Error {
	he, ok := errors.AsType[*wasmhost.Error](err)
	if !ok {
		return c.Wrong(key, err.Error(), "")
	}
	what := he.Err.Error()
	if he.Plugin != "" {
		what = fmt.Sprintf("plugin %s: %s", he.Plugin, what)
	}
	hint := he.Hint
	if errors.Is(he, wasmhost.ErrConfig) {
		hint = "" // to correct the config, which key and plugin say already
	}
	return c.Wrong(key, what, hint)
}

// standIn takes the place of an upstream that can't be opened, so that the sinks
// that use it are looked at nevertheless. No request reaches it: where there is
// one, the daemon does not start.
type standIn struct{ name, kind, baseURL string }

func (s standIn) Name() string    { return s.name }
func (s standIn) Kind() string    { return s.kind }
func (s standIn) BaseURL() string { return strings.TrimSuffix(s.baseURL, "/") }

// Do implements wasmhost.Upstream.
func (s standIn) Do(context.Context, *upstream.Request) (*upstream.Response, *upstream.Failure) {
	return nil, &upstream.Failure{Kind: upstream.FailCancelled, Message: "the upstream " + s.name + " could not be opened"}
}
