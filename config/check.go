package config

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// check notes what is wrong between keys, and with values whose form the tags
// can't say. Keys that already have an error are left alone.
func (l *loader) check(c *Config) {
	l.checkRequired()
	l.checkServer(c)
	l.checkSettings("defaults", c.Defaults)
	for _, name := range l.names["plugins"] {
		l.checkPlugin(c, name)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
		l.checkUpstream(c.Upstreams[name], "upstreams."+name)
	}
	for path, s := range c.secrets() {
		l.checkSecret(s, path)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Sinks)) {
		l.checkSink(c, c.Sinks[name], "sinks."+name)
	}
}

// wrong notes an error at path unless path has one, or a section around it has.
func (l *loader) wrong(path, what, hint string) {
	for p := path; p != ""; p = parent(p) {
		if l.badKeys[p] {
			return
		}
	}
	l.fail(l.where(path), path, what, hint)
}

// wrongItem notes an error at item i of the list at path.
func (l *loader) wrongItem(path string, i int, what, hint string) {
	if nodes := l.items[path]; i < len(nodes) {
		l.fail(at(nodes[i]), fmt.Sprintf("%s[%d]", path, i), what, hint)
		return
	}
	l.fail(l.where(path), path, what, hint) // of a variable or flag: all items are at one place
}

// checkRequired notes required keys that nobody gave, in sections that exist.
func (l *loader) checkRequired() {
	l.schema.walk("", l.tableNames, func(f *field, path string) {
		if _, exists := l.origins[parent(path)]; !f.required || !exists {
			return
		}
		if _, given := l.origins[path]; !given {
			l.wrong(path, "is missing", "it is needed: "+firstSentence(f.doc))
		}
	})
}

// firstSentence is the first sentence of a key's doc, to go on with in a message.
func firstSentence(doc string) string {
	s, _, _ := strings.Cut(strings.TrimSuffix(doc, "."), ". ")
	return strings.ToLower(s[:1]) + s[1:]
}

func (l *loader) checkServer(c *Config) {
	s := c.Server
	host, port, err := net.SplitHostPort(s.Listen)
	_, portErr := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil || portErr != nil:
		l.wrong("server.listen", shown(s.Listen)+" is no address with a port", "write host:port, as in 127.0.0.1:7295")
	case !isLoopback(host) && s.TokenFile == "" && s.TLS.ClientCAFile == "":
		l.wrong("server.listen", s.Listen+" can be reached from other machines, and nothing says who may call",
			"set server.token_file or server.tls.client_ca_file, or listen on 127.0.0.1")
	}
	l.checkPair("server.tls", s.TLS.CertFile, s.TLS.KeyFile)
	if s.TLS.ClientCAFile != "" && s.TLS.CertFile == "" {
		l.wrong("server.tls.client_ca_file", "client certificates need TLS", "set server.tls.cert_file and key_file")
	}
	if s.MaxRequestBytes < c.Limits.PayloadMaxBytes {
		l.wrong("server.max_request_bytes", s.MaxRequestBytes.String()+" is less than limits.payload_max_bytes",
			"allow at least "+c.Limits.PayloadMaxBytes.String())
	}
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// checkPair wants both halves of a certificate or none.
func (l *loader) checkPair(path, cert, key string) {
	switch {
	case cert != "" && key == "":
		l.wrong(path+".cert_file", "a certificate needs its private key", "set "+path+".key_file")
	case cert == "" && key != "":
		l.wrong(path+".key_file", "a private key needs its certificate", "set "+path+".cert_file")
	}
}

// checkPlugin also resolves an entry that names no module, such as the one of
// a bundled plugin that was not declared.
func (l *loader) checkPlugin(c *Config, name string) {
	p, path := c.Plugins[name], "plugins."+name
	switch {
	case p.Path != "" && p.Bundled != "":
		l.wrong(path+".bundled", "path is set too", "keep one of them")
	case p.Path != "" || l.badKeys[path+".path"]:
	case p.Bundled == "" && slices.Contains(l.bundled, name):
		p.Bundled = name
	case p.Bundled == "":
		l.wrong(path, "nothing says where the module is", "set path, or bundled to one of "+strings.Join(l.bundled, ", "))
	case !slices.Contains(l.bundled, p.Bundled):
		l.wrong(path+".bundled", "no bundled plugin is called "+shown(p.Bundled), didYouMean(p.Bundled, l.bundled))
	}
	if p.SHA256 != "" {
		p.SHA256 = strings.ToLower(p.SHA256)
		if sum, err := hex.DecodeString(p.SHA256); err != nil || len(sum) != 32 {
			l.wrong(path+".sha256", "is no SHA-256 digest", "write its 64 hexadecimal digits, as sha256sum prints them")
		}
	}
	c.Plugins[name] = p
}

var (
	methodWord = regexp.MustCompile(`^[A-Z]+$`)
	headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	envWord    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

func (l *loader) checkUpstream(u Upstream, path string) {
	if what, hint := badBaseURL(u.BaseURL); what != "" && u.BaseURL != "" {
		l.wrong(path+".base_url", what, hint)
	}
	if u.TLS != nil {
		l.checkPair(path+".tls", u.TLS.CertFile, u.TLS.KeyFile)
		if u.TLS.InsecureSkipVerify && u.TLS.CAFile != "" {
			l.wrong(path+".tls.insecure_skip_verify", "trusts any certificate, so that ca_file means nothing", "remove one of them")
		}
	}
	if u.Credentials != nil {
		l.checkOne(path+".credentials", "bearer", u.Credentials.Bearer != nil, "basic", u.Credentials.Basic != nil, "header", u.Credentials.Header != nil)
		if h := u.Credentials.Header; h != nil && h.Name != "" && !headerName.MatchString(h.Name) {
			l.wrong(path+".credentials.header.name", shown(h.Name)+" is no name of a header", "")
		}
	}
	if len(u.AllowedMethods) == 0 {
		l.wrong(path+".allowed_methods", "allows nothing", "list at least one method, or remove the key")
	}
	for i, m := range u.AllowedMethods {
		switch {
		case !methodWord.MatchString(m):
			l.wrongItem(path+".allowed_methods", i, shown(m)+" is no HTTP method", "write capital letters, as in GET")
		case m == "CONNECT" || m == "TRACE":
			l.wrongItem(path+".allowed_methods", i, m+" can't be allowed", "remove it")
		}
	}
	if len(u.AllowedPathPrefixes) == 0 {
		l.wrong(path+".allowed_path_prefixes", "allows nothing", "list at least one prefix, or remove the key")
	}
	for i, p := range u.AllowedPathPrefixes {
		if !strings.HasPrefix(p, "/") {
			l.wrongItem(path+".allowed_path_prefixes", i, shown(p)+" is no path", "start it with /")
		}
	}
	l.checkBurst(path, u.Rate, u.Burst)
}

// badBaseURL says what is wrong with an upstream's address. It does not show
// it: people put passwords there.
func badBaseURL(text string) (what, hint string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Opaque != "" || u.Scheme == "" || u.Hostname() == "":
		return "is no URL with a scheme and a host", "write it as in https://api.example.com/v1"
	case u.Scheme != "http" && u.Scheme != "https":
		return "the scheme " + shown(u.Scheme) + " is not supported", "use http or https"
	case u.User != nil:
		return "must not hold user and password", "set credentials.basic"
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "must not have a query or a fragment", "plugins append paths to it"
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "has a port out of range", "use 1 to 65535"
		}
	}
	return "", ""
}

func (l *loader) checkSecret(s Secret, path string) {
	l.checkOne(path, "file", s.File != "", "env", s.Env != "", "value", s.Value != "")
	if s.Env != "" && !envWord.MatchString(s.Env) { // not shown: it may be the secret
		l.wrong(path+".env", "is no name of an environment variable", "a secret itself goes to value, or better into a file")
	}
}

// checkOne wants exactly one of three keys of the section at path.
func (l *loader) checkOne(path, a string, hasA bool, b string, hasB bool, c string, hasC bool) {
	for _, key := range []string{a, b, c} {
		if l.badKeys[path+"."+key] {
			return // what was meant is not known
		}
	}
	n := 0
	for _, has := range []bool{hasA, hasB, hasC} {
		if has {
			n++
		}
	}
	one := "one of " + a + ", " + b + " and " + c
	switch {
	case n == 0:
		l.wrong(path, "needs "+one, "")
	case n > 1:
		l.wrong(path, "may have only "+one, "remove the others")
	}
}

func (l *loader) checkBurst(path string, rate float64, burst int) {
	if burst > 0 && rate == 0 {
		l.wrong(path+".burst", "there is no rate that a burst could exceed", "set rate, or remove burst")
	}
}

func (l *loader) checkSink(c *Config, s Sink, path string) {
	plugins := slices.Sorted(maps.Keys(c.Plugins))
	if s.Plugin != "" && !slices.Contains(plugins, s.Plugin) && !l.badKeys["plugins."+s.Plugin] {
		l.wrong(path+".plugin", "no plugin is called "+shown(s.Plugin), didYouMean(s.Plugin, plugins))
	}
	upstreams := slices.Sorted(maps.Keys(c.Upstreams))
	for i, u := range s.Upstreams {
		if !slices.Contains(upstreams, u) && !l.badKeys["upstreams."+u] {
			hint := cmp.Or(didYouMean(u, upstreams), "declare it below upstreams")
			l.wrongItem(path+".upstreams", i, "no upstream is called "+shown(u), hint)
		}
	}
	for i, p := range s.Sensitive {
		if !strings.HasPrefix(p, "/") {
			l.wrongItem(path+".sensitive", i, shown(p)+" is no JSON pointer", "start it with /, as in /spec/password")
		}
	}
	l.checkSettings(path, s.SinkSettings)
}

// checkSettings compares the settings that belong together. A sink that sets
// neither of two is not told again what the defaults block was.
func (l *loader) checkSettings(path string, s SinkSettings) {
	l.checkBurstOf(path, s)
	for _, p := range []struct {
		lower, upper string
		lo, hi       time.Duration
	}{
		{"retry.base", "retry.max", s.Retry.Base, s.Retry.Max},
		{"retry_after.min", "retry_after.max", s.RetryAfter.Min, s.RetryAfter.Max},
		{"in_progress.base", "in_progress.max", s.InProgress.Base, s.InProgress.Max},
		{"breaker.probe_base", "breaker.probe_max", s.Breaker.ProbeBase, s.Breaker.ProbeMax},
	} {
		key, ok := l.written(path, p.lower, p.upper)
		if ok && p.lo > p.hi {
			l.wrong(key, p.lower+" ("+showDuration(p.lo)+") is longer than "+p.upper+" ("+showDuration(p.hi)+")", "")
		}
	}
}

func (l *loader) checkBurstOf(path string, s SinkSettings) {
	if _, ok := l.written(path, "burst", "rate"); ok {
		l.checkBurst(path, s.Rate, s.Burst)
	}
}

// written returns the first of two keys below path that somebody wrote. ok is
// false if nobody did, or if one of them, here or in defaults, has an error already.
func (l *loader) written(path, a, b string) (key string, ok bool) {
	for _, k := range []string{a, b} {
		if l.badKeys[path+"."+k] || l.badKeys["defaults."+k] {
			return "", false
		}
		if _, set := l.origins[path+"."+k]; set && key == "" {
			key = path + "." + k
		}
	}
	return key, key != ""
}
