package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/internal/nearest"
)

// Fixture says how a plugin is tried. It is written in YAML or JSON.
type Fixture struct {
	Config     json.RawMessage   // of the sink: a JSON object
	BadConfigs []json.RawMessage // that configure must refuse
	Key        string            // of resources; {n} stands for what tells them apart
	Payloads   Payloads
	Upstream   Upstream
	Store      Store
	Drift      *Request          // how somebody else changes the object of a key, at a real target
	Vanish     *Request          // how somebody else removes it
	Reads      []string          // paths below which a POST changes nothing
	Skip       map[string]string // reasons by the check's ID
}

// Payloads are what the resources of the kit hold. In each, {key} stands for
// the resource's key and {n} for what tells it from others.
type Payloads struct {
	Create  []byte // the first
	Update  []byte // another one
	Removed []byte // Update without one of its fields; nil: none
}

// Upstream is the one upstream that the plugin is granted.
type Upstream struct {
	Name        string            `yaml:"name"`
	Kind        string            `yaml:"kind"`
	URL         string            `yaml:"url"`          // of a real target; "": the scripted store
	Protocol    string            `yaml:"protocol"`     // as in pawl's configuration: h2c for gRPC without TLS; "": HTTP/1.1
	BearerFile  string            `yaml:"bearer_file"`  // credentials for it, which the host adds
	HeaderFiles map[string]string `yaml:"header_files"` // the same, by header
}

// Store is what the scripted store does beside keeping objects.
type Store struct {
	Adds   map[string]json.RawMessage // fields that it gives to every JSON object, for the check "target-adds"
	Routes []Route                    // fixed answers
}

// Route is a fixed answer of the scripted store.
type Route struct {
	Method  string
	Path    string // as it is sent, without the query
	Status  int
	Headers map[string]string
	Body    []byte
}

func (a *Route) serve(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != a.Method || r.URL.EscapedPath() != a.Path {
		return false
	}
	for name, value := range a.Headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body)
	return true
}

// Request is one that the kit sends to a real target.
type Request struct {
	Method  string
	Path    string // {key} and {n} are those of the resource
	Headers map[string]string
	Body    []byte
}

// ErrFixture is wrapped by every error about a fixture.
var ErrFixture = errors.New("wrong fixture")

// DefaultFixture suits an adapter that needs no config, takes JSON objects and
// talks to a key-value service over HTTP.
func DefaultFixture() *Fixture {
	f := &Fixture{}
	f.setDefaults()
	return f
}

// The payloads of a fixture that gives none.
const (
	defaultCreate = `{"text":"first words","size":1,"note":"to be kept"}`
	defaultUpdate = `{"text":"second words","size":2,"note":"to be removed"}`
)

func (f *Fixture) setDefaults() {
	if f.Config == nil {
		f.Config = json.RawMessage("{}")
	}
	if f.Key == "" {
		f.Key = "conformance-{n}"
	}
	p := &f.Payloads
	if p.Create == nil && p.Update == nil {
		p.Create, p.Update = []byte(defaultCreate), []byte(defaultUpdate)
	}
	if p.Removed == nil {
		p.Removed = withoutAField(p.Update)
	}
	if f.Upstream.Name == "" {
		f.Upstream.Name = "target"
	}
	if f.Upstream.Kind == "" {
		f.Upstream.Kind = "http"
	}
}

// withoutAField returns a JSON object without the last of its fields by name,
// or nil where it has fewer than two.
func withoutAField(payload []byte) []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(payload, &fields) != nil || len(fields) < 2 {
		return nil
	}
	names := slices.Sorted(maps.Keys(fields))
	delete(fields, names[len(names)-1])
	out, err := json.Marshal(fields)
	if err != nil {
		return nil
	}
	return out
}

// target says in words what the plugin is tried against.
func (f *Fixture) target() string {
	if f.Upstream.URL == "" {
		return "the scripted store"
	}
	return f.Upstream.URL
}

func (f *Fixture) validate() error {
	var wrong []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf("%w: "+format, append([]any{ErrFixture}, args...)...))
		}
	}
	check(strings.Contains(f.Key, "{n}"), "key: %q has no {n}; the kit needs many keys, and puts there what tells them apart", f.Key)
	check(len(f.Payloads.Create) > 0 && len(f.Payloads.Update) > 0, "payloads: both create and update are needed")
	check(!bytes.Equal(f.Payloads.Create, f.Payloads.Update), "payloads: create and update are the same; the kit tells states apart by them")
	check(len(f.Payloads.Update) == 0 || !bytes.Equal(f.Payloads.Update, f.Payloads.Removed), "payloads: removed is to be update without one of its fields, and is the same")
	if f.Upstream.URL != "" {
		_, err := parseTarget(f.Upstream.URL)
		check(err == nil, "upstream.url: %v", err)
		check(len(f.Store.Routes) == 0 && len(f.Store.Adds) == 0, "store: belongs to the scripted store, and upstream.url names a real target; remove one of them")
	}
	p := upstream.Protocol(f.Upstream.Protocol)
	check(p == upstream.ProtocolAuto || p == upstream.ProtocolH2C, "upstream.protocol: %q is none that the kit speaks; leave it out for HTTP/1.1, or say h2c", p)
	for _, id := range slices.Sorted(maps.Keys(f.Skip)) {
		known := slices.ContainsFunc(Checks(), func(c Check) bool { return c.ID == id })
		check(known, "skip: there is no check %q; `pawl plugin test --list` names them", id)
		check(!known || f.Skip[id] != "", "skip: %s: say why", id)
	}
	return errors.Join(wrong...)
}

// ReadFixture reads a fixture's file.
func ReadFixture(path string) (*Fixture, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f, err := ParseFixture(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// The file's form. Values that are free-form are yaml.Nodes.
type (
	fixtureFile struct {
		Config     yaml.Node   `yaml:"config"`
		BadConfigs []yaml.Node `yaml:"bad_configs"`
		Key        string      `yaml:"key"`
		Payloads   struct {
			Create  yaml.Node `yaml:"create"`
			Update  yaml.Node `yaml:"update"`
			Removed yaml.Node `yaml:"removed"`
		} `yaml:"payloads"`
		Upstream Upstream `yaml:"upstream"`
		Store    struct {
			Adds   map[string]yaml.Node `yaml:"adds"`
			Routes []requestFile        `yaml:"routes"`
		} `yaml:"store"`
		Drift  *requestFile      `yaml:"drift"`
		Vanish *requestFile      `yaml:"vanish"`
		Reads  []string          `yaml:"reads"`
		Skip   map[string]string `yaml:"skip"`
	}
	requestFile struct {
		Method  string            `yaml:"method"`
		Path    string            `yaml:"path"`
		Status  int               `yaml:"status"`
		Headers map[string]string `yaml:"headers"`
		Body    yaml.Node         `yaml:"body"`
	}
)

// ParseFixture reads a fixture. An unknown key is an error.
func ParseFixture(content []byte) (*Fixture, error) {
	dec := yaml.NewDecoder(bytes.NewReader(content))
	dec.KnownFields(true)
	var file fixtureFile
	if err := dec.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: %s", ErrFixture, readable(err))
	}
	r := fixtureReader{}
	f := &Fixture{
		Config: r.object("config", &file.Config), Key: file.Key,
		Payloads: Payloads{
			Create:  r.content("payloads.create", &file.Payloads.Create),
			Update:  r.content("payloads.update", &file.Payloads.Update),
			Removed: r.content("payloads.removed", &file.Payloads.Removed),
		},
		Upstream: file.Upstream,
		Drift:    r.request("drift", file.Drift), Vanish: r.request("vanish", file.Vanish),
		Reads: file.Reads, Skip: file.Skip,
	}
	for i := range file.BadConfigs {
		f.BadConfigs = append(f.BadConfigs, r.object(fmt.Sprintf("bad_configs[%d]", i), &file.BadConfigs[i]))
	}
	for name, node := range file.Store.Adds {
		if f.Store.Adds == nil {
			f.Store.Adds = map[string]json.RawMessage{}
		}
		f.Store.Adds[name] = r.json("store.adds."+name, &node)
	}
	for i := range file.Store.Routes {
		f.Store.Routes = append(f.Store.Routes, r.route(fmt.Sprintf("store.routes[%d]", i), &file.Store.Routes[i]))
	}
	if err := errors.Join(r.wrong...); err != nil {
		return nil, err
	}
	f.setDefaults()
	return f, f.validate()
}

// unknownField is how yaml tells of a key that no field takes.
var unknownField = regexp.MustCompile(`field (\S+) not found in type .*`)

// readable is an error of yaml without the names of Go's types.
func readable(err error) string {
	s := strings.TrimPrefix(err.Error(), "yaml: ")
	s = strings.TrimPrefix(s, "unmarshal errors:\n  ")
	return unknownField.ReplaceAllStringFunc(s, func(m string) string {
		key := unknownField.FindStringSubmatch(m)[1]
		if n := nearest.Of(key, fixtureKeys); n != "" {
			return fmt.Sprintf("unknown key %q; did you mean %s?", key, n)
		}
		return fmt.Sprintf("unknown key %q; `pawl plugin test --help` shows them all", key)
	})
}

// fixtureKeys are all keys of a fixture, at whatever depth.
var fixtureKeys = []string{
	"config", "bad_configs", "key", "payloads", "create", "update", "removed",
	"upstream", "name", "kind", "url", "protocol", "bearer_file", "header_files",
	"store", "adds", "routes", "drift", "vanish", "reads", "skip",
	"method", "path", "status", "headers", "body",
}

// fixtureReader turns the free-form parts into bytes, and gathers what is wrong.
type fixtureReader struct{ wrong []error }

func (r *fixtureReader) fail(where, what string) {
	r.wrong = append(r.wrong, fmt.Errorf("%w: %s: %s", ErrFixture, where, what))
}

func (r *fixtureReader) json(where string, n *yaml.Node) json.RawMessage {
	var v any
	err := n.Decode(&v)
	var out []byte
	if err == nil {
		out, err = json.Marshal(v)
	}
	if err != nil {
		r.fail(where, err.Error())
	}
	return out
}

func (r *fixtureReader) object(where string, n *yaml.Node) json.RawMessage {
	if n.IsZero() {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		r.fail(where, "needs a mapping")
		return nil
	}
	return r.json(where, n)
}

// content is a text as it is, and of anything else its JSON.
func (r *fixtureReader) content(where string, n *yaml.Node) []byte {
	switch {
	case n.IsZero():
		return nil
	case n.Kind == yaml.ScalarNode && n.Tag == "!!str":
		return []byte(n.Value)
	}
	return r.json(where, n)
}

func (r *fixtureReader) request(where string, q *requestFile) *Request {
	if q == nil {
		return nil
	}
	if q.Method == "" || !strings.HasPrefix(q.Path, "/") {
		r.fail(where, "needs a method, and a path that starts with a slash")
	}
	if q.Status != 0 {
		r.fail(where, "has a status, which only answers have")
	}
	return &Request{Method: q.Method, Path: q.Path, Headers: q.Headers, Body: r.content(where+".body", &q.Body)}
}

func (r *fixtureReader) route(where string, q *requestFile) Route {
	if q.Method == "" || !strings.HasPrefix(q.Path, "/") {
		r.fail(where, "needs a method, and a path that starts with a slash")
	}
	if q.Status == 0 {
		q.Status = http.StatusOK
	}
	if q.Status < 200 || q.Status > 599 {
		r.fail(where, fmt.Sprintf("has the status %d, which is not between 200 and 599", q.Status))
	}
	return Route{Method: q.Method, Path: q.Path, Status: q.Status, Headers: q.Headers, Body: r.content(where+".body", &q.Body)}
}
