package main

import (
	"errors"
	"strings"

	"github.com/pawlsync/pawl/plugins/internal/conf"
	pawl "github.com/pawlsync/pawl/sdk/go"
)

// The ways to compare what is desired with what the target holds.
const (
	compareOwned  = "owned-json" // JSON, at the fields that we own or owned at the last ack
	compareJSON   = "json"       // JSON, all of it
	compareBytes  = "bytes"      // byte by byte
	compareETag   = "etag"       // the ETag is the one of the last ack
	compareHeader = "header"     // a header holds the content's SHA-256
	compareExists = "exists"     // that there is an object is all that counts
	compareNone   = "none"       // nothing to look at: a 2xx is the ack
)

var compareModes = []string{compareOwned, compareJSON, compareBytes, compareETag, compareHeader, compareExists, compareNone}

// config is a sink's config, checked and compiled.
type config struct {
	upstream pawl.UpstreamRef
	compare  string
	// hashHeader is the header that holds the hash, of compareHeader.
	hashHeader        string
	confirmByObserve  bool
	conditional       bool
	idempotencyHeader string // "": none
	maxResponseBytes  int
	excerpts          bool // messages show what the target said, payload values perhaps
	idempotent        bool // two equal Applies are harmless

	observe, apply, delete operation
	poll                   *polling // nil: none
	// object is the path that tells objects apart, where two keys may share one; else nil.
	object *template
}

// operation is how one operation becomes a request.
type operation struct {
	enabled     bool
	method      string
	path        *template
	body        *template // nil: none
	contentType string
	headers     []headerTemplate
}

type headerTemplate struct {
	name  string
	value *template
}

// text is the config of one operation as it was written.
type text struct {
	enabled                         bool
	method, path, body, contentType string
}

func readConfig(c pawl.Config) (*config, error) {
	root, err := conf.Parse(c.JSON)
	if err != nil {
		return nil, err
	}
	cfg := &config{
		compare:           compareOwned,
		idempotencyHeader: "Idempotency-Key",
		maxResponseBytes:  1 << 20,
	}
	upstream, confirm, conditional := "", "apply", "auto"
	root.String("upstream", &upstream)
	root.Choice("compare", &cfg.compare, compareModes...)
	root.String("hash_header", &cfg.hashHeader)
	root.Choice("confirm", &confirm, "apply", "observe")
	root.Choice("conditional", &conditional, "auto", "off")
	root.String("idempotency_header", &cfg.idempotencyHeader)
	root.Count("max_response_bytes", &cfg.maxResponseBytes)
	root.Bool("error_excerpts", &cfg.excerpts)
	cfg.confirmByObserve = confirm == "observe"
	cfg.conditional = conditional == "auto"
	cfg.readOperations(root)
	cfg.check(root)
	if err := root.Done(); err != nil {
		return nil, err
	}
	cfg.upstream, err = conf.Upstream(upstream, c.Upstreams)
	return cfg, err
}

// readOperations reads observe, apply and delete, with what they share at the root.
func (cfg *config) readOperations(root *conf.Object) {
	path := ""
	root.String("path", &path)
	shared := readHeaders(root)
	observe := text{enabled: cfg.compare != compareNone, method: "GET", path: path}
	switch cfg.compare {
	case compareETag, compareHeader, compareExists:
		observe.method = "HEAD"
	}
	apply := text{enabled: true, method: "PUT", path: path, body: "{payload}"}
	if cfg.compare == compareNone {
		apply.method = "POST"
	}
	apply.contentType = "application/json"
	if cfg.compare == compareBytes {
		apply.contentType = "application/octet-stream"
	}
	remove := text{enabled: true, method: "DELETE", path: path, contentType: "application/json"}

	var own []headerTemplate
	read := func(key string, t *text, withBody bool) operation {
		own = nil
		root.Object(key, func(o *conf.Object) {
			if key != "apply" {
				o.Bool("enabled", &t.enabled)
			}
			o.String("method", &t.method)
			o.String("path", &t.path)
			if withBody {
				o.String("body", &t.body)
				o.String("content_type", &t.contentType)
			}
			own = readHeaders(o)
			if key == "apply" {
				cfg.idempotent = t.method == "PUT"
				o.Bool("idempotent", &cfg.idempotent)
			}
		})
		return cfg.compile(root, key, t, merge(shared, own))
	}
	cfg.idempotent = apply.method == "PUT"
	cfg.observe = read("observe", &observe, false)
	cfg.apply = read("apply", &apply, true)
	cfg.delete = read("delete", &remove, true)
	cfg.poll = cfg.readPoll(root, shared)
}

// compile checks what was written for one operation and makes it ready.
func (cfg *config) compile(root *conf.Object, key string, t *text, headers []headerTemplate) operation {
	op := operation{enabled: t.enabled, method: t.method, contentType: t.contentType, headers: headers}
	if !t.enabled {
		return op
	}
	if !isToken(t.method) {
		root.Fail(key+".method", "an HTTP method such as PUT is expected")
	}
	where := key + ".path"
	if t.path == "" {
		root.Fail(where, "a path is needed, here or for all operations as \"path\"; example: \"/objects/{key}\"")
		return op
	}
	var err error
	if op.path, err = compilePath(t.path); err != nil {
		root.Fail(where, err.Error())
		return op
	}
	if !op.path.keyed && cfg.compare != compareNone {
		root.Fail(where, "there is no {key} in it: all resources would be one object")
	}
	if t.body != "" {
		op.body = compileBody(t.body)
	}
	return op
}

func (cfg *config) check(root *conf.Object) {
	if cfg.compare == compareHeader && cfg.hashHeader == "" {
		root.Fail("hash_header", "compare \"header\" needs the name of the header that holds the content's SHA-256")
	}
	if cfg.hashHeader != "" && !isToken(cfg.hashHeader) {
		root.Fail("hash_header", "this is not a header name")
	}
	if cfg.idempotencyHeader != "" && !isToken(cfg.idempotencyHeader) {
		root.Fail("idempotency_header", "this is not a header name")
	}
	if cfg.compare == compareNone && cfg.observe.enabled {
		root.Fail("observe.enabled", "compare \"none\" has nothing to observe with; choose another compare")
	}
	if !cfg.observe.enabled && cfg.confirmByObserve {
		root.Fail("confirm", "\"observe\" is not possible where observe is disabled")
	}
	if cfg.compare == compareETag && cfg.confirmByObserve {
		root.Fail("confirm", "compare \"etag\" learns the ETag from apply, so \"observe\" can't confirm it")
	}
	switch cfg.compare {
	case compareOwned, compareJSON, compareBytes:
		if cfg.observe.enabled && cfg.observe.method == "HEAD" {
			root.Fail("observe.method", "HEAD has no body to compare with; choose GET, or compare \"etag\", \"header\" or \"exists\"")
		}
		if cfg.apply.body == nil {
			root.Fail("apply.body", "compare \""+cfg.compare+"\" compares the body, and there is none; compare \"exists\" does without")
		}
	}
	cfg.object = cfg.identity()
}

// identity is the path that tells objects apart, where two keys may lead to one;
// else nil. Webhooks have no objects: all that share an address are told of there.
func (cfg *config) identity() *template {
	path := cfg.observe.path
	if path == nil {
		path = cfg.apply.path
	}
	if cfg.compare == compareNone || path == nil || path.injective {
		return nil
	}
	return path
}

func readHeaders(o *conf.Object) (hs []headerTemplate) {
	o.Strings("headers", func(name, value string) {
		t, err := compileHeader(value)
		if err == nil && !isToken(name) {
			err = errors.New("this is not a header name")
		}
		if err != nil {
			o.Fail("headers."+name, err.Error())
			return
		}
		hs = append(hs, headerTemplate{name, t})
	})
	return hs
}

// merge lets the operation's own headers replace shared ones of the same name.
func merge(shared, own []headerTemplate) []headerTemplate {
	var out []headerTemplate
	for _, s := range shared {
		replaced := false
		for _, o := range own {
			replaced = replaced || strings.EqualFold(s.name, o.name)
		}
		if !replaced {
			out = append(out, s)
		}
	}
	return append(out, own...)
}

// manifest is what this sink can do.
func (cfg *config) manifest() *pawl.Manifest {
	m := manifest()
	m.ConfigSchema = "" // told once, by describe
	m.Ops = []pawl.Op{pawl.OpApply}
	if cfg.observe.enabled {
		m.Ops = append(m.Ops, pawl.OpObserve)
	}
	if cfg.delete.enabled {
		m.Ops = append(m.Ops, pawl.OpDelete)
	}
	if cfg.poll != nil {
		m.Ops = append(m.Ops, pawl.OpPoll)
	}
	m.ReportsContent = cfg.reportsContent()
	m.ApplyConfirms = !cfg.confirmByObserve
	m.ApplyIdempotent = cfg.idempotent
	m.AsFoundComparable = cfg.compare == compareHeader
	return &m
}

// isToken reports whether s can be a method or a header name (RFC 9110).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !isAlnum(c) && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

func isAlnum(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
