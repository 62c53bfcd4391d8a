package abi_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost/abi"
)

const vectorsDir = "../../../sdk/abi/vectors"

// vector is a golden vector; the README beside their folder describes them.
type vector struct {
	Message, Hex     string
	Valid, Canonical bool
	Value            fields
}

// fields is a message as the vectors have it: defaults left out, 64-bit numbers
// as decimal text, bytes in hex, enums by name.
type fields map[string]any

func vectors(tb testing.TB) map[string]vector {
	tb.Helper()
	paths, err := filepath.Glob(filepath.Join(vectorsDir, "*.json"))
	if err != nil || len(paths) == 0 {
		tb.Fatalf("no vectors in %s (%v)", vectorsDir, err)
	}
	vs := make(map[string]vector)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		var v vector
		if err := json.Unmarshal(text, &v); err != nil {
			tb.Fatalf("%s: %v", path, err)
		}
		vs[filepath.Base(path)] = v
	}
	return vs
}

func TestTheHostDecodesTheGoldenVectors(t *testing.T) {
	checked := 0
	for name, v := range vectors(t) {
		decode := decoders[v.Message]
		if decode == nil {
			continue
		}
		checked++
		t.Run(name, func(t *testing.T) {
			got, err := decode(unhex(v.Hex))
			if !v.Valid {
				if !errors.Is(err, abi.ErrMalformed) {
					t.Errorf("got %v, %v", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			// Through JSON, so that both sides have the same types.
			text, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			var same fields
			if err := json.Unmarshal(text, &same); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(same, v.Value) {
				t.Errorf("decoded\n%v, want\n%v", same, v.Value)
			}
		})
	}
	if checked < 20 {
		t.Errorf("only %d vectors were of use", checked)
	}
}

func TestTheHostEncodesTheGoldenVectors(t *testing.T) {
	checked := 0
	for name, v := range vectors(t) {
		encode := encoders[v.Message]
		if encode == nil || !v.Valid || !v.Canonical {
			continue
		}
		got, ok := encode(v.Value)
		if !ok { // it has what this host never sends
			continue
		}
		checked++
		if !bytes.Equal(got, unhex(v.Hex)) {
			t.Errorf("%s: encoded\n%x, want\n%s", name, got, v.Hex)
		}
	}
	if checked < 10 {
		t.Errorf("only %d vectors were of use", checked)
	}
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

// put leaves defaults out, as the vectors do.
func (f fields) put(name string, v any) fields {
	if !reflect.ValueOf(v).IsZero() {
		f[name] = v
	}
	return f
}

func opNames(ops []abi.Op) (names []string) {
	for _, o := range ops {
		names = append(names, "OP_"+strings.ToUpper(o.String()))
	}
	return names
}

func triName(t sink.Tri) string { return [...]string{"", "YES", "NO"}[t] }

var decoders = map[string]func([]byte) (fields, error){
	"Manifest": func(b []byte) (fields, error) {
		m, err := abi.DecodeManifest(b)
		return fields{}.put("name", m.Name).put("version", m.Version).put("ops", opNames(m.Ops)).
			put("config_schema", m.ConfigSchema).put("payload_schema", m.PayloadSchema).
			put("apply_confirms", m.ApplyConfirms).put("apply_idempotent", m.ApplyIdempotent).
			put("finds_by_key", m.FindsByKey).put("reports_uid", m.ReportsUID).
			put("as_found_comparable", m.AsFoundComparable).put("undoable", opNames(m.Undoable)).
			put("lock", m.Lock).put("mark", m.Mark).put("reports_content", m.ReportsContent).
			put("batch_max", m.BatchMax).put("overlap", m.Overlap).put("upstream_kinds", m.UpstreamKinds), err
	},
	"Result": func(b []byte) (fields, error) {
		r, err := abi.DecodeResult(b)
		return resultFields(r.Result).put("target", r.Target), err
	},
	"BatchResult": func(b []byte) (fields, error) {
		rs, whole, err := abi.DecodeBatchResult(b, 2)
		if whole {
			return fields{"whole": resultFields(rs[0])}, err
		}
		var items []fields
		for _, r := range rs {
			items = append(items, resultFields(r))
		}
		return fields{}.put("items", items), err
	},
	"PollResult": func(b []byte) (fields, error) {
		c, r, err := abi.DecodePollResult(b, "web")
		f := fields{}.put("result", resultFields(r)).put("cursor", c.Cursor).put("more", c.More).put("reset", c.Reset)
		var seen []fields
		for _, s := range c.Seen {
			one := fields{"key": s.Key.Name}
			if o := observationFields(&s.Observation); len(o) > 0 {
				one["observation"] = o
			}
			seen = append(seen, one)
		}
		return f.put("seen", seen), err
	},
	"CompareResult": func(b []byte) (fields, error) {
		d, r, err := abi.DecodeCompareResult(b)
		return fields{}.put("result", resultFields(r)).put("nodes", hexes(d.Nodes)).put("items", hexes(d.Items)).put("extra", d.Extra), err
	},
	"HTTPRequest": func(b []byte) (fields, error) {
		q, err := abi.DecodeHTTPRequest(b)
		return fields{}.put("upstream", q.Upstream).put("method", q.Method).put("path", q.Path).
			put("headers", headerFields(q.Header)).put("body", hex.EncodeToString(q.Body)).put("has_body", q.HasBody).
			put("timeout_ms", q.Timeout.Milliseconds()), err
	},
	"Sleep": func(b []byte) (fields, error) {
		d, err := abi.DecodeSleep(b)
		return fields{}.put("ms", d.Milliseconds()), err
	},
}

func headerFields(hs []upstream.Field) (out []fields) {
	for _, h := range hs {
		out = append(out, fields{}.put("name", h.Name).put("value", h.Value))
	}
	return out
}

func hexes(bs [][]byte) (out []string) {
	for _, b := range bs {
		out = append(out, hex.EncodeToString(b))
	}
	return out
}

func resultFields(r sink.Result) fields {
	f := fields{}.put("message", r.Message).put("retry_after_ms", r.RetryAfter.Milliseconds()).
		put("retry_after_target", r.RetryAfterTarget)
	if r.Status != 0 {
		f["status"] = strings.ReplaceAll(strings.ToUpper(r.Status.String()), "-", "_")
	}
	if o := r.Observation; o != nil {
		f["observation"] = observationFields(o)
	}
	return f
}

func observationFields(o *sink.Observation) fields {
	f := fields{}.put("exists", o.Exists).put("ref", o.Ref).put("cid", o.CID).put("as_found", o.AsFound).
		put("match_desired", triName(o.MatchDesired)).put("match_acked", triName(o.MatchAcked)).
		put("match_attempted", triName(o.MatchAttempted)).put("differing", o.Differing).
		put("content", hex.EncodeToString(o.Content)).put("has_content", o.Content != nil).
		put("meta", o.Meta).put("cursor", o.Cursor).put("uid", o.UID).put("object", o.Object).
		put("adapter_state", hex.EncodeToString(o.AdapterState)).put("ours", triName(o.Ours))
	if !o.At.IsZero() {
		f["at_unix_ms"] = strconv.FormatInt(o.At.UnixMilli(), 10)
	}
	return f
}

var encoders = map[string]func(fields) (b []byte, ok bool){
	"Configure": func(f fields) ([]byte, bool) {
		c := abi.Configure{Sink: f.string("sink"), Config: f.bytes("config")}
		for _, u := range f.list("upstreams") {
			c.Upstreams = append(c.Upstreams, abi.UpstreamRef{Name: u.string("name"), Kind: u.string("kind"), BaseURL: u.string("base_url")})
		}
		return abi.AppendConfigure(nil, &c), true
	},
	"Request": func(f fields) ([]byte, bool) {
		r, ok := requestOf(f)
		return abi.AppendRequest(nil, r, f.uint32("timeout_ms")), ok
	},
	"BatchRequest": func(f fields) ([]byte, bool) {
		var rs []*sink.Request
		for _, item := range f.list("items") {
			r, ok := requestOf(item)
			if !ok || item["timeout_ms"] != nil {
				return nil, false
			}
			rs = append(rs, r)
		}
		return abi.AppendBatchRequest(nil, rs, 0), true
	},
	"PollRequest": func(f fields) ([]byte, bool) {
		return abi.AppendPollRequest(nil, f.string("sink"), f.string("cursor"), f.uint32("timeout_ms")), true
	},
	"CompareRequest": func(f fields) ([]byte, bool) {
		c := &sink.Comparison{Epoch: f.string("epoch")}
		for _, n := range f.list("nodes") {
			c.Nodes = append(c.Nodes, sink.Node{Prefix: n.bytes("prefix"), Count: n.uint64("count"), Digest: n.bytes("digest")})
		}
		for _, l := range f.list("leaves") {
			leaf := sink.Leaf{Prefix: l.bytes("prefix")}
			for _, it := range l.list("items") {
				leaf.Items = append(leaf.Items, sink.LeafItem{Key: it.bytes("key"), Content: it.bytes("content")})
			}
			c.Leaves = append(c.Leaves, leaf)
		}
		return abi.AppendCompareRequest(nil, f.string("sink"), c, f.uint32("timeout_ms")), true
	},
	"HTTPResponse": func(f fields) ([]byte, bool) {
		if kind := f.string("failure"); kind != "" {
			kinds := map[string]upstream.FailureKind{"DNS": 1, "CONNECT": 2, "TLS": 3, "TIMEOUT": 4, "DENIED": 5, "TOO_LARGE": 6, "CANCELLED": 7, "PROTOCOL": 8}
			maybe, _ := f["maybe_sent"].(bool)
			return abi.AppendHTTPResponse(nil, nil, &upstream.Failure{Kind: kinds[kind], Message: f.string("failure_message"), MaybeSent: maybe}), true
		}
		return abi.AppendHTTPResponse(nil, &upstream.Response{
			Status: int(f.uint32("status")), Header: f.headers("headers"), Body: f.bytes("body"), Trailer: f.headers("trailers")}, nil), true
	},
}

func (f fields) string(name string) string { s, _ := f[name].(string); return s }
func (f fields) bytes(name string) []byte  { return unhex(f.string(name)) }
func (f fields) uint32(name string) uint32 { n, _ := f[name].(float64); return uint32(n) }
func (f fields) uint64(name string) uint64 {
	n, _ := strconv.ParseUint(f.string(name), 10, 64)
	return n
}

func (f fields) list(name string) (out []fields) {
	items, _ := f[name].([]any)
	for _, item := range items {
		out = append(out, item.(map[string]any))
	}
	return out
}

func (f fields) headers(name string) (out []upstream.Field) {
	for _, h := range f.list(name) {
		out = append(out, upstream.Field{Name: h.string("name"), Value: h.string("value")})
	}
	return out
}

// hash returns a content hash; ok is false for one that is no SHA-256.
func (f fields) hash() (h record.Hash, ok bool) {
	b := f.bytes("content_hash")
	return h, copy(h[:], b) == len(h) || len(b) == 0
}

// payload is nil where has_payload is not set.
func (f fields) payload() []byte {
	if f["has_payload"] != true {
		return nil
	}
	return append([]byte{}, f.bytes("payload")...)
}

func requestOf(f fields) (r *sink.Request, ok bool) {
	force, _ := f["force"].(bool)
	policies := map[string]record.ConflictPolicy{"SOURCE_WINS": record.SourceWins, "TARGET_WINS": record.TargetWins, "REPORT_ONLY": record.ReportOnly}
	r = &sink.Request{
		Key: record.Key{Sink: f.string("sink"), Name: f.string("key")}, Generation: f.uint64("generation"),
		Payload: f.bytes("payload"), IdempotencyKey: f.string("idempotency_key"),
		Conflict: policies[f.string("conflict_policy")], Force: force, UID: f.string("uid"), Epoch: f.string("epoch"), Run: runOf(f),
		Mode: map[string]sink.Mode{"CREATE_ONLY": sink.CreateOnly}[f.string("mode")],
	}
	r.Hash, ok = f.hash()
	if a, there := f["acked"].(map[string]any); there {
		a := fields(a)
		h, fine := a.hash()
		ok = ok && fine
		r.Acked = &record.Acked{Generation: a.uint64("generation"), Hash: h, Ref: a.string("ref"), AsFound: a.string("as_found"),
			UID: a.string("uid"), Cursor: a.string("cursor"), Adapter: a.bytes("adapter_state"), Payload: a.payload()}
	}
	for _, a := range f.list("attempted") {
		h, fine := a.hash()
		ok = ok && fine
		r.Attempted = append(r.Attempted, record.Attempt{Hash: h, Payload: a.payload()})
	}
	return r, ok
}

func runOf(f fields) *sink.Run {
	s, there := f["saga"].(map[string]any)
	if !there {
		return nil
	}
	f = s
	held, _ := f["held"].(bool)
	run := &sink.Run{ID: f.string("id"), Step: int(f.uint32("step")), Held: held}
	locks, _ := f["locks"].([]any)
	for _, l := range locks {
		run.Locks = append(run.Locks, l.(string))
	}
	if i, there := f["before"].(map[string]any); there {
		f = i
		exists, _ := f["exists"].(bool)
		run.Before = &sink.Image{Exists: exists, CID: f.string("cid"), UID: f.string("uid"), Content: f.bytes("content")}
	}
	return run
}

func TestABatchOfFullRequestsHasTheRightLengths(t *testing.T) {
	r := &sink.Request{
		Key: record.Key{Sink: "s", Name: "k"}, Generation: 1 << 40, Payload: make([]byte, 300), Hash: record.Hash{1},
		IdempotencyKey: "i", Conflict: record.ReportOnly, Force: true, UID: "v",
		Acked: &record.Acked{Generation: 7, Hash: record.Hash{2}, Ref: "r", AsFound: "f", UID: "u", Cursor: "c",
			Adapter: make([]byte, 200), Payload: []byte{}, At: time.Now()},
		Attempted: []record.Attempt{{Hash: record.Hash{3}, Payload: make([]byte, 129)}, {}},
		Mode:      sink.CreateOnly,
		Run: &sink.Run{ID: "r", Step: 1 << 20, Locks: []string{"", "0a"}, Held: true,
			Before: &sink.Image{Exists: true, CID: "c", UID: "u", Content: make([]byte, 128)}},
	}
	for _, ms := range []uint32{0, 1, 1 << 31} {
		one := abi.AppendRequest(nil, r, ms)
		b := abi.AppendBatchRequest(nil, []*sink.Request{r, r}, ms)
		item := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), one)
		if !bytes.Equal(b, append(item, item...)) {
			t.Errorf("%d ms: a batch of %d bytes with items of %d", ms, len(b), len(one))
		}
	}
}

func TestAnAnswerThatIsTooMuchIsMalformed(t *testing.T) {
	tooMuch := append([]byte("\x82\x01\x81\x80\x04"), make([]byte, abi.MaxAdapterState+1)...)
	observation := append([]byte{0x2a}, append([]byte{0x86, 0x80, 0x04}, tooMuch...)...)
	if _, err := abi.DecodeResult(append([]byte("\x08\x01"), observation...)); !errors.Is(err, abi.ErrMalformed) || !strings.Contains(err.Error(), "adapter state") {
		t.Errorf("got %v", err)
	}
	for name, b := range map[string]string{
		"one too few":    "\x0a\x02\x08\x01",
		"one too many":   "\x0a\x02\x08\x01\x0a\x02\x08\x01\x0a\x02\x08\x01",
		"items and all":  "\x0a\x02\x08\x01\x12\x02\x08\x01",
		"without status": "\x0a\x00\x0a\x00",
	} {
		if _, _, err := abi.DecodeBatchResult([]byte(b), 2); !errors.Is(err, abi.ErrMalformed) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// The input is the guest's memory, which changes when the guest goes on.
func TestWhatIsDecodedHoldsNoPartOfTheInput(t *testing.T) {
	result := unhex(vectors(t)["result.observed.valid.json"].Hex)
	put := unhex(vectors(t)["httprequest.put.valid.json"].Hex)
	r, err := abi.DecodeResult(result)
	if err != nil {
		t.Fatal(err)
	}
	q, err := abi.DecodeHTTPRequest(put)
	if err != nil {
		t.Fatal(err)
	}
	clear(result)
	clear(put)
	if o := r.Observation; string(o.Content) != "{}" || !bytes.Equal(o.AdapterState, []byte{1, 2}) || o.Ref != "/a" {
		t.Errorf("%+v", o)
	}
	if string(q.Body) != "{}" || q.Method != "PUT" {
		t.Errorf("%+v", q)
	}
}

// FuzzDecode: whatever a plugin answers, decoding returns; an error is
// ErrMalformed.
func FuzzDecode(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(unhex(v.Hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, decode := range decoders {
			if _, err := decode(b); err != nil && !errors.Is(err, abi.ErrMalformed) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func BenchmarkAppendRequest(b *testing.B) {
	r := &sink.Request{Key: record.Key{Sink: "s", Name: "some/key"}, Generation: 9, Payload: make([]byte, 1024), Hash: record.Hash{1}, IdempotencyKey: "e-9-abcdef", Conflict: record.SourceWins}
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		buf = abi.AppendRequest(buf[:0], r, 30000)
	}
}

func BenchmarkDecodeResult(b *testing.B) {
	msg := unhex("08012a0c080112022f61220235663001")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := abi.DecodeResult(msg); err != nil {
			b.Fatal(err)
		}
	}
}
