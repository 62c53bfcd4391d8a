package config

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// envPrefix starts the name of every variable of ours.
const envPrefix = "PAWL_"

// reservedEnv are variables with our prefix that name no key.
var reservedEnv = map[string]string{
	"PAWL_CONFIG":     "The configuration file, as --config.",
	"PAWL_ADDRESS":    "Where commands find the daemon, as --address.",
	"PAWL_CA_FILE":    "Whom commands trust over https, as --ca-file.",
	"PAWL_CERT_FILE":  "The client certificate that commands show, as --cert-file.",
	"PAWL_KEY_FILE":   "Its private key, as --key-file.",
	"PAWL_TOKEN":      "The bearer token that commands send.",
	"PAWL_FAILPOINTS": "For tests: where `pawl run` dies, fails or pauses, as `after write 1=kill; before unlock 1=sleep:2s`.",
}

// serviceEnv matches the variables that Kubernetes sets in every container for
// a service called pawl or pawl-something; that must not keep the daemon from starting.
var serviceEnv = regexp.MustCompile(`^PAWL_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)=|` +
	`^PAWL_([A-Z0-9_]+_)?PORT=(tcp|udp|sctp)://`)

// environment turns "NAME=value" strings into a map; as for processes, the last
// of a name counts, and what has no "=" is ignored.
func environment(env []string) map[string]string {
	out := make(map[string]string, len(env))
	for _, kv := range env {
		if name, value, ok := strings.Cut(kv, "="); ok {
			out[name] = value
		}
	}
	return out
}

// envName is the variable that sets the key at path.
func envName(path string) string {
	return envPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(path))
}

// setVariables puts the environment over the file. An empty variable counts as
// not set. It returns the names with our prefix that belong to no key.
func (l *loader) setVariables() (unknown []string) {
	targets := l.variables()
	for _, name := range slices.Sorted(maps.Keys(l.env)) {
		text := l.env[name]
		if !strings.HasPrefix(name, envPrefix) || text == "" || reservedEnv[name] != "" {
			continue
		}
		switch found := targets[name]; {
		case len(found) == 1:
			l.override(found[0].field, found[0].path, text, origin{source: name})
		case len(found) > 1:
			l.fail(origin{source: name}, "", "stands for both "+found[0].path+" and "+found[1].path,
				"set them in the file, or rename one")
		case !serviceEnv.MatchString(name + "=" + text):
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// target is one leaf that a variable can set.
type target struct {
	field *field
	path  string
}

// variables lists the leaves of all sections, and of the names in the file, by variable.
func (l *loader) variables() map[string][]target {
	out := map[string][]target{}
	l.schema.walk("", l.tableNames, func(f *field, path string) {
		if f.kind.leaf() {
			out[envName(path)] = append(out[envName(path)], target{f, path})
		}
	})
	return out
}

// reportUnknown notes variables that set nothing, but for those that c takes a
// secret from.
func (l *loader) reportUnknown(names []string, c *Config) {
	if len(names) == 0 {
		return
	}
	used := map[string]bool{}
	for _, s := range c.secrets() {
		used[s.Env] = true
	}
	candidates := slices.Sorted(maps.Keys(l.variables()))
	candidates = slices.AppendSeq(candidates, maps.Keys(reservedEnv))
	slices.Sort(candidates)
	for _, name := range names {
		if used[name] {
			continue
		}
		hint := didYouMean(name, candidates)
		if hint == "" {
			hint = "variables set keys of sinks, plugins and upstreams only if the file names them"
		}
		l.fail(origin{source: name}, "", "this variable sets no key", hint)
	}
}

// secrets lists every secret of c by its key path.
func (c *Config) secrets() map[string]Secret {
	out := map[string]Secret{}
	for name, u := range c.Upstreams {
		base := "upstreams." + name
		if cr := u.Credentials; cr != nil {
			if cr.Bearer != nil {
				out[base+".credentials.bearer"] = *cr.Bearer
			}
			if cr.Basic != nil {
				out[base+".credentials.basic.password"] = cr.Basic.Password
			}
			if cr.Header != nil {
				out[base+".credentials.header.secret"] = cr.Header.Secret
			}
		}
		if u.Sign != nil && u.Sign.StandardWebhooks != nil {
			out[base+".sign.standard_webhooks.secret"] = u.Sign.StandardWebhooks.Secret
			if previous := u.Sign.StandardWebhooks.PreviousSecret; previous != nil {
				out[base+".sign.standard_webhooks.previous_secret"] = *previous
			}
		}
	}
	if h := c.Tracing.Header; h != nil {
		out["tracing.header.secret"] = h.Secret
	}
	return out
}

// stateDir is where the store lives unless somebody says so.
func stateDir(env map[string]string) string {
	return firstDir(env["STATE_DIRECTORY"], userDir(env, "XDG_STATE_HOME", ".local/state"), "/var/lib/pawl")
}

// cacheDir is where compiled plugins are kept unless somebody says so.
func cacheDir(env map[string]string) string {
	dir := firstDir(env["CACHE_DIRECTORY"], userDir(env, "XDG_CACHE_HOME", ".cache"), "/var/cache/pawl")
	return filepath.Join(dir, "wasm")
}

// firstDir prefers what systemd made for the unit (a list, joined by colons).
func firstDir(systemd, user, system string) string {
	if dir, _, _ := strings.Cut(systemd, ":"); filepath.IsAbs(dir) {
		return dir
	}
	if user != "" {
		return user
	}
	return system
}

// userDir is pawl's folder in one of the XDG base directories, or "". A
// relative one is ignored, as their specification asks.
func userDir(env map[string]string, xdg, fallback string) string {
	if dir := env[xdg]; filepath.IsAbs(dir) {
		return filepath.Join(dir, "pawl")
	}
	if home := env["HOME"]; filepath.IsAbs(home) {
		return filepath.Join(home, fallback, "pawl")
	}
	return ""
}
