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

	"github.com/pawlsync/pawl/internal/duration"
)

// check notes what is wrong between keys, and with values whose form the tags
// can't say. Keys that already have an error are left alone.
func (l *loader) check(c *Config) {
	l.checkRequired()
	l.checkServer(c)
	l.checkAccess(c)
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
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		l.checkSource(c.Sources[name], "sources."+name)
		l.checkSourceKube(c, c.Sources[name], "sources."+name)
		l.checkSourceDir(c, c.Sources[name].Dir, "sources."+name+".dir")
	}
	l.checkSenders(c)
	l.checkTracing(c)
	for _, name := range slices.Sorted(maps.Keys(c.Sagas)) {
		l.checkSaga(c, c.Sagas[name], "sagas."+name)
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

// socketPathMax is what every system takes for the path of a unix socket, in bytes.
const socketPathMax = 103

func (l *loader) checkServer(c *Config) {
	s := c.Server
	host, port, err := net.SplitHostPort(s.Listen)
	_, portErr := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil || portErr != nil:
		l.wrong("server.listen", shown(s.Listen)+" is no address with a port", "write host:port, as in 127.0.0.1:7295")
	case !isLoopback(host) && s.TokenFile == "" && s.TLS.ClientCAFile == "" && s.TokenReview == nil:
		l.wrong("server.listen", s.Listen+" can be reached from other machines, and nothing says who may call",
			"set server.token_file or server.tls.client_ca_file, or listen on 127.0.0.1")
	}
	if len(s.Socket) > socketPathMax {
		l.wrong("server.socket", fmt.Sprintf("has %d bytes, relative paths made whole; sockets have at most %d", len(s.Socket), socketPathMax), "choose a shorter path")
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
	case p.OCI != "" && p.Path+p.Bundled != "":
		l.wrong(path+".oci", "path or bundled is set too", "keep one of them")
	case p.OCI != "":
		if !pinnedRef.MatchString(p.OCI) {
			l.wrong(path+".oci", "is no pinned reference", "write HOST/REPOSITORY@sha256:DIGEST; pawl plugin pull HOST/REPOSITORY:TAG prints it")
		}
	case l.badKeys[path+".oci"]:
	case p.Path != "" || l.badKeys[path+".path"]:
	case p.Bundled == "" && slices.Contains(l.bundled, name):
		p.Bundled = name
	case p.Bundled == "":
		l.wrong(path, "nothing says where the module is", "set path or oci, or bundled to one of "+strings.Join(l.bundled, ", "))
	case !slices.Contains(l.bundled, p.Bundled):
		l.wrong(path+".bundled", "no bundled plugin is called "+shown(p.Bundled), didYouMean(p.Bundled, l.bundled))
	}
	l.checkLimits(path, p.Limits)
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
	pinnedRef  = regexp.MustCompile(`^([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(:[0-9]+)?/[a-z0-9][a-z0-9._/-]*@sha256:[0-9a-f]{64}$`)
	headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	envWord    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// httpOnly are keys of an upstream that a cluster's own settings take the place of.
var httpOnly = []string{"base_url", "protocol", "tls", "credentials", "sign"}

func (l *loader) checkUpstream(u Upstream, path string) {
	_, given := l.origins[path+".base_url"]
	switch {
	case u.Kind == "kubernetes":
		for _, key := range httpOnly {
			if _, set := l.origins[path+"."+key]; set {
				l.wrong(path+"."+key, "means nothing for kind kubernetes", "remove it; kubernetes.kubeconfig says where the cluster is and how it is trusted")
			}
		}
		if k := u.Kubernetes; k != nil && k.Context != "" && k.Kubeconfig == "" {
			l.wrong(path+".kubernetes.context", "is a context of no kubeconfig", "set kubernetes.kubeconfig too")
		}
	case u.Kubernetes != nil:
		l.wrong(path+".kubernetes", "means nothing for kind "+u.Kind, "set kind: kubernetes, or remove it")
	case !given:
		l.wrong(path+".base_url", "is missing", "it is needed: where requests go, as in https://api.example.com/v1")
	}
	if what, hint := badBaseURL(u.BaseURL); what != "" && u.BaseURL != "" {
		l.wrong(path+".base_url", what, hint)
	}
	l.checkTransport(u, path)
	if u.Credentials != nil {
		l.checkCredentials(*u.Credentials, path+".credentials")
	}
	l.checkAllowed(u, path)
}

// checkTransport compares TLS and protocol with the scheme.
func (l *loader) checkTransport(u Upstream, path string) {
	plain, secure := strings.HasPrefix(u.BaseURL, "http:"), strings.HasPrefix(u.BaseURL, "https:")
	switch {
	case u.Protocol == "http2" && plain:
		l.wrong(path+".protocol", "http2 needs TLS, and base_url is http", "use h2c, or https in base_url")
	case u.Protocol == "h2c" && secure:
		l.wrong(path+".protocol", "h2c goes without TLS, and base_url is https", "use http2")
	}
	if u.TLS == nil {
		return
	}
	if plain && *u.TLS != (UpstreamTLS{}) {
		l.wrong(path+".tls", "is set, and base_url is http", "use https in base_url, or remove tls")
	}
	l.checkPair(path+".tls", u.TLS.CertFile, u.TLS.KeyFile)
	if u.TLS.InsecureSkipVerify && u.TLS.CAFile != "" {
		l.wrong(path+".tls.insecure_skip_verify", "trusts any certificate, so that ca_file means nothing", "remove one of them")
	}
}

func (l *loader) checkCredentials(c Credentials, path string) {
	switch {
	case c.Bearer != nil && c.Basic != nil:
		l.wrong(path, "has both bearer and basic, which are the same header", "keep one")
	case c == Credentials{}:
		l.wrong(path, "needs bearer, basic or header", "")
	}
	if c.Basic != nil && strings.Contains(c.Basic.Username, ":") {
		l.wrong(path+".basic.username", "must not have a colon", "")
	}
	if c.Header != nil && c.Header.Name != "" && !headerName.MatchString(c.Header.Name) {
		l.wrong(path+".header.name", shown(c.Header.Name)+" is no name of a header", "")
	}
}

// checkAllowed looks at the allow-lists, of which an empty one is a mistake:
// the upstream would be of no use, or the whole of it open.
func (l *loader) checkAllowed(u Upstream, path string) {
	for key, items := range map[string][]string{
		"allowed_methods": u.AllowedMethods, "allowed_path_prefixes": u.AllowedPathPrefixes,
	} {
		if _, set := l.origins[path+"."+key]; set && len(items) == 0 {
			l.wrong(path+"."+key, "is empty", "list at least one, or remove the key")
		}
	}
	for i, m := range u.AllowedMethods {
		switch {
		case !methodWord.MatchString(m):
			l.wrongItem(path+".allowed_methods", i, shown(m)+" is no HTTP method", "write capital letters, as in GET")
		case m == "CONNECT" || m == "TRACE":
			l.wrongItem(path+".allowed_methods", i, m+" can't be allowed", "remove it")
		}
	}
	for i, p := range u.AllowedPathPrefixes {
		if !strings.HasPrefix(p, "/") || strings.ContainsAny(p, "%?#") {
			l.wrongItem(path+".allowed_path_prefixes", i, shown(p)+" is no plain path", "start it with /, and leave out %, ? and #")
		}
	}
	for i, h := range u.AllowedHeaders {
		if !headerName.MatchString(h) {
			l.wrongItem(path+".allowed_headers", i, shown(h)+" is no name of a header", "")
		}
	}
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
	set := 0
	for key, text := range map[string]string{"file": s.File, "env": s.Env, "value": s.Value.Reveal()} {
		if l.badKeys[path+"."+key] {
			return // what was meant is not known
		}
		if text != "" {
			set++
		}
	}
	switch {
	case set == 0:
		l.wrong(path, "needs one of file, env and value", "")
	case set > 1:
		l.wrong(path, "may have only one of file, env and value", "remove the others")
	case s.Env != "" && !envWord.MatchString(s.Env): // not shown: it may be the secret
		l.wrong(path+".env", "is no name of an environment variable", "a secret itself goes to value, or better into a file")
	}
}

// checkBurst wants a rate where a burst is written; an inherited one may have
// become moot.
func (l *loader) checkBurst(path string, s SinkSettings) {
	key, ok := l.written(path, "burst", "rate")
	if ok && strings.HasSuffix(key, ".burst") && s.Burst > 0 && s.Rate == 0 {
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
	l.checkBurst(path, s)
	l.checkLimits(path, s.Limits)
	for _, p := range []struct {
		lower, upper string
		lo, hi       time.Duration
	}{
		{"retry.base", "retry.max", s.Retry.Base, s.Retry.Max},
		{"breaker.probe_base", "breaker.probe_max", s.Breaker.ProbeBase, s.Breaker.ProbeMax},
	} {
		key, ok := l.written(path, p.lower, p.upper)
		if ok && p.lo > p.hi {
			l.wrong(key, p.lower+" ("+duration.Text(p.lo)+") is longer than "+p.upper+" ("+duration.Text(p.hi)+")", "")
		}
	}
}

// checkLimits wants room for one instance.
func (l *loader) checkLimits(path string, s SinkLimits) {
	key, ok := l.written(path, "limits.memory_max_bytes", "limits.memory_total_max_bytes")
	if ok && s.MemoryTotalMaxBytes > 0 && s.MemoryTotalMaxBytes < s.MemoryMaxBytes {
		l.wrong(key, "memory_max_bytes ("+s.MemoryMaxBytes.String()+") is more than memory_total_max_bytes ("+s.MemoryTotalMaxBytes.String()+")", "")
	}
}

// written returns the first of two keys below path that somebody wrote. ok is
// false if nobody did, or if one of them, here or as inherited, has an error already.
func (l *loader) written(path, a, b string) (key string, ok bool) {
	for _, k := range []string{a, b} {
		_, set := l.origins[path+"."+k]
		if l.badKeys[path+"."+k] || !set && l.badKeys["defaults."+k] {
			return "", false
		}
		if set && key == "" {
			key = path + "." + k
		}
	}
	return key, key != ""
}
