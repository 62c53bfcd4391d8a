package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/engine/wasmhost/abi"
)

// startsAlone are the checks that don't need a sink opened for them.
var startsAlone = map[string]bool{"opens": true, "manifest": true, "manifest-stable": true, "config-refused": true, "unknown-fields": true}

// startChecks are about what comes before the first resource.
var startChecks = []Check{
	{
		ID:    "opens",
		Wants: "The host loads the module, and configure accepts the fixture's config.",
		Fix:   "A module that does not load: build it with `pawl plugin build`, and see with `pawl plugin inspect` what it imports and exports. A config that is refused: correct it in the fixture.",
		Run:   opens,
	},
	{
		ID:    "manifest",
		Wants: "The manifest names the plugin (lower-case letters, digits, hyphens) and its version, its schemas are JSON Schemas, its ops are ones of this ABI version, and the kind of the fixture's upstream is among its kinds.",
		Fix:   "Correct the manifest that the plugin registers.",
		Run:   manifestSane,
	},
	{
		ID:    "manifest-stable",
		Wants: "Describe answers the same every time: the engine relies on it, and asks again whenever it loads the plugin.",
		Fix:   "Make the manifest a constant: no time, no random number, no order of a map in it.",
		Run:   manifestStable,
	},
	{
		ID:    "config-refused",
		Wants: "Configure refuses a config that it can't use, an unknown key included, in one readable line: an operator's typing error must not become a default.",
		Fix:   "Decode the config strictly; return an error that names the key and says what would be right.",
		Run:   configRefused,
	},
	{
		ID:    "unknown-fields",
		Wants: "Fields that the plugin does not know are skipped in every message, so that newer hosts can add some.",
		Fix:   "Skip unknown fields of every wire type when decoding; the golden vectors in sdk/abi/vectors show them.",
		Run:   unknownFields,
	},
}

func opens(t *T) {
	if t.kit.loadErr != nil {
		t.Failf("the host does not load it: %v", t.kit.loadErr)
	}
	if t.kit.openErr != nil {
		t.Failf("it does not start with the fixture's config: %v", t.kit.openErr)
	}
}

// needsPlugin skips a check of a module that could not be loaded.
func (t *T) needsPlugin() {
	if t.kit.plugin == nil {
		t.Skipf("not tried: the module can't be loaded, see the check \"opens\"")
	}
}

func manifestSane(t *T) {
	t.needsPlugin()
	m := t.kit.plugin.Manifest()
	var wrong []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	check(record.ValidateSink(m.Name) == nil, "the name %q is no lower-case word of letters, digits and hyphens", m.Name)
	check(m.Version != "", "there is no version")
	for _, s := range []struct{ name, schema string }{{"config_schema", m.ConfigSchema}, {"payload_schema", m.PayloadSchema}} {
		var v map[string]any
		err := json.Unmarshal([]byte(s.schema), &v)
		check(s.schema == "" || err == nil, "%s is no JSON object: %v", s.name, err)
	}
	for _, op := range m.Ops {
		check(op >= abi.OpObserve && op <= abi.OpCompare, "the op %s is not for manifests of this ABI version", op)
	}
	check(!m.Has(abi.OpApplyBatch) || m.BatchMax > 1, "it has the op apply_batch, but a batch_max of %d", m.BatchMax)
	kind := t.fixture.Upstream.Kind
	check(len(m.UpstreamKinds) == 0 || slices.Contains(m.UpstreamKinds, kind), "upstream_kinds are %q, and the fixture's upstream is of the kind %q", m.UpstreamKinds, kind)
	if len(wrong) > 0 {
		t.Failf("%s", strings.Join(wrong, "\n"))
	}
}

func manifestStable(t *T) {
	t.needsPlugin()
	again, err := t.kit.host.Load(t.ctx, t.kit.wasm, t.kit.name)
	if err != nil {
		t.Failf("loaded a second time, it fails: %v", err)
	}
	defer again.Close(t.ctx)
	first, second := reflect.ValueOf(*t.kit.plugin.Manifest()), reflect.ValueOf(*again.Manifest())
	for i := range first.NumField() {
		if a, b := first.Field(i).Interface(), second.Field(i).Interface(); !reflect.DeepEqual(a, b) {
			t.Failf("%s was %v, then %v", first.Type().Field(i).Name, a, b)
		}
	}
}

// maxRefusal is how long a refusal may be that somebody is to read, in bytes.
const maxRefusal = 1000

func configRefused(t *T) {
	t.needsPlugin()
	bad := t.fixture.BadConfigs
	if len(bad) == 0 {
		bad = wrongConfigs(t.kit.plugin.Manifest().ConfigSchema, t.fixture.Config)
	}
	if len(bad) == 0 {
		t.Skipf("the manifest has no config_schema that refuses anything, and the fixture no bad_configs")
	}
	for _, config := range bad {
		s, err := t.openWith(t.ctx, config)
		if err == nil {
			_ = s.Close(t.ctx)
			t.Failf("it accepted the config %s", config)
		}
		if what := unreadable(err.Error()); what != "" {
			t.Failf("it refused the config %s with a message that %s: %.300q", config, what, err.Error())
		}
		if !errors.Is(err, wasmhost.ErrConfig) {
			t.Failf("with the config %s it did not refuse, but failed: %v", config, err)
		}
	}
}

// wrongConfigs makes configs that a schema forbids from one that is right: with
// an unknown key, and with a value of another type.
func wrongConfigs(schema string, right json.RawMessage) (bad []json.RawMessage) {
	var s struct {
		Properties           map[string]struct{ Type any } `json:"properties"`
		AdditionalProperties any                           `json:"additionalProperties"`
	}
	var config map[string]json.RawMessage
	if json.Unmarshal([]byte(schema), &s) != nil || json.Unmarshal(right, &config) != nil {
		return nil
	}
	with := func(name, value string) {
		c := maps.Clone(config)
		if c == nil {
			c = map[string]json.RawMessage{}
		}
		c[name] = json.RawMessage(value)
		if out, err := json.Marshal(c); err == nil {
			bad = append(bad, out)
		}
	}
	if s.AdditionalProperties == false {
		with("no_such_key_of_the_conformance_kit", "true")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		switch s.Properties[name].Type {
		case "string", "integer", "number", "boolean":
			with(name, `[["a list where there should be none"]]`)
			return bad
		}
	}
	return bad
}

// unreadable says why a message is not one that people can read, or "".
func unreadable(m string) string {
	switch {
	case strings.TrimSpace(m) == "":
		return "is empty"
	case len(m) > maxRefusal:
		return fmt.Sprintf("has %d bytes", len(m))
	case !utf8.ValidString(m):
		return "is no UTF-8"
	case strings.ContainsFunc(m, unicode.IsControl):
		return "has line ends or control characters in it"
	}
	return ""
}

// unknownMessage is fields of every wire type with numbers that no message of
// this version has, as a later host may send them.
func unknownMessage() []byte {
	const first = 1000
	b := protowire.AppendTag(nil, first, protowire.VarintType)
	b = protowire.AppendVarint(b, 1<<40)
	b = protowire.AppendTag(b, first+1, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, 1<<50)
	b = protowire.AppendTag(b, first+2, protowire.BytesType)
	b = protowire.AppendBytes(b, []byte("of a later version"))
	b = protowire.AppendTag(b, first+3, protowire.Fixed32Type)
	return protowire.AppendFixed32(b, 1<<20)
}

func unknownFields(t *T) {
	t.needsPlugin()
	if t.kit.openErr != nil {
		t.Skipf("not tried: the plugin does not start, see the check \"opens\"")
	}
	t.unknown = unknownMessage()
	if err := t.Open(t.ctx); err != nil {
		t.Failf("with unknown fields in the input of configure: %v", err)
	}
	o := t.thing()
	o.apply(t.fixture.Payloads.Create)
	if t.sink.Manifest().Observes {
		o.mustMatch(t.fixture.Payloads.Create, "with unknown fields in every message")
	}
	if t.sink.Manifest().Deletes {
		o.delete()
	}
}
