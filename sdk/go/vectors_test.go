package pawl

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"
	"time"
)

// vector is a golden vector of the ABI; ../abi/README.md describes the format.
type vector struct {
	Message, Hex, Error string
	Valid, Canonical    bool
	Value               fields
}

// fields is a message as the vectors have it.
type fields map[string]any

var invalidReasons = map[string]error{"truncated": errTruncated, "varint": errVarint, "tag": errTag, "group": errGroup,
	"wire-type": errWireType, "utf-8": errUTF8, "enum": errEnum}

func TestTheCodecAgreesWithTheGoldenVectors(t *testing.T) {
	paths, err := filepath.Glob("../abi/vectors/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no vectors in ../abi/vectors (%v)", err)
	}
	checked := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var v vector
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		decode, encode := decoders[v.Message], encoders[v.Message]
		if decode == nil && encode == nil {
			t.Errorf("%s: no codec for %s", path, v.Message)
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			if decode != nil {
				checked++
				checkDecode(t, v, decode)
			}
			if encode != nil && v.Canonical {
				checked++
				if got := hex.EncodeToString(encode(v.Value)); got != v.Hex {
					t.Errorf("encoded\n%s, want\n%s", got, v.Hex)
				}
			}
		})
	}
	if checked < 50 {
		t.Errorf("only %d vectors were of use", checked)
	}
}

func checkDecode(t *testing.T, v vector, decode func([]byte) (fields, error)) {
	b, err := hex.DecodeString(v.Hex)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decode(b)
	if !v.Valid {
		if want := invalidReasons[v.Error]; !errors.Is(err, want) {
			t.Errorf("got error %v, want %v", err, want)
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
	if v.Value == nil {
		v.Value = fields{}
	}
	if !reflect.DeepEqual(same, v.Value) {
		t.Errorf("decoded\n%v, want\n%v", same, v.Value)
	}
}

var decoders = map[string]func([]byte) (fields, error){
	"Configure": func(b []byte) (fields, error) {
		c, err := decodeConfig(b)
		f := fields{}
		f.put("sink", c.Sink)
		f.put("config", c.JSON)
		var us []any
		for _, u := range c.Upstreams {
			us = append(us, fields{}.put("name", u.Name).put("kind", u.Kind).put("base_url", u.BaseURL))
		}
		return f.put("upstreams", us), err
	},
	"Request": func(b []byte) (fields, error) {
		var r Request
		d := decoder{b: b}
		decodeRequest(&d, &r)
		return requestFields(&r), d.err
	},
	"BatchRequest": func(b []byte) (fields, error) {
		rs, err := decodeBatch(b)
		var items []any
		for _, r := range rs {
			items = append(items, requestFields(r))
		}
		return fields{}.put("items", items), err
	},
	"PollRequest": func(b []byte) (fields, error) {
		var r Request
		cursor, err := decodePoll(b, &r)
		return fields{}.put("sink", r.Sink).put("cursor", cursor).rest(&r, err)
	},
	"CompareRequest": func(b []byte) (fields, error) {
		var r Request
		c, err := decodeComparison(b, &r)
		return fields{}.put("sink", c.Sink).put("epoch", c.Epoch).put("nodes", nodeFields(c.Nodes)).
			put("leaves", leafFields(c.Leaves)).rest(&r, err)
	},
	"HTTPResponse": func(b []byte) (fields, error) {
		r, err := decodeHTTPResponse(b)
		if f, ok := err.(*Failure); ok {
			return fields{}.put("failure", failureNamesABI[f.Kind]).put("failure_message", f.Message).put("maybe_sent", f.MaybeSent), nil
		}
		if err != nil {
			return nil, err
		}
		return fields{}.put("status", r.Status).put("headers", headerFields(r.Headers)).put("body", r.Body).
			put("trailers", headerFields(r.Trailers)), nil
	},
}

// rest adds to f what a call about the whole target leaves in the request.
func (f fields) rest(r *Request, err error) (fields, error) {
	return f.put("timeout_ms", r.TimeoutMillis), err
}

func nodeFields(ns []CompareNode) (out []any) {
	for _, n := range ns {
		out = append(out, fields{}.put("prefix", n.Prefix).put("count", n.Count).put("digest", n.Digest))
	}
	return out
}

func leafFields(ls []CompareLeaf) (out []any) {
	for _, l := range ls {
		var items []any
		for _, it := range l.Items {
			items = append(items, fields{}.put("key", it.Key).put("content", it.Content))
		}
		out = append(out, fields{}.put("prefix", l.Prefix).put("items", items))
	}
	return out
}

var failureNamesABI = []string{"NONE", "DNS", "CONNECT", "TLS", "TIMEOUT", "DENIED", "TOO_LARGE", "CANCELLED", "PROTOCOL"}

func requestFields(r *Request) fields {
	f := fields{}
	f.put("sink", r.Sink).put("key", r.Key).put("generation", r.Generation).put("payload", r.Payload)
	f.put("content_hash", r.ContentHash).put("idempotency_key", r.IdempotencyKey)
	if a := r.Acked; a != nil {
		f["acked"] = fields{}.put("generation", a.Generation).put("content_hash", a.ContentHash).put("ref", a.Ref).
			put("as_found", a.AsFound).put("uid", a.UID).put("cursor", a.Cursor).put("adapter_state", a.AdapterState).
			put("payload", a.Payload).put("has_payload", a.HasPayload)
	}
	var at []any
	for _, a := range r.Attempted {
		at = append(at, fields{}.put("content_hash", a.ContentHash).put("payload", a.Payload).put("has_payload", a.HasPayload))
	}
	f.put("attempted", at)
	f.put("conflict_policy", []string{"", "SOURCE_WINS", "TARGET_WINS", "REPORT_ONLY"}[r.ConflictPolicy])
	f.put("mode", []string{"", "CREATE_ONLY"}[r.Mode])
	if s := r.Saga; s != nil {
		f["saga"] = sagaFields(s)
	}
	return f.put("force", r.Force).put("timeout_ms", r.TimeoutMillis).put("uid", r.UID).put("epoch", r.Epoch)
}

func sagaFields(s *SagaRun) fields {
	f := fields{}.put("id", s.ID).put("step", s.Step).put("locks", s.Locks).put("held", s.Held)
	if i := s.Before; i != nil {
		f["before"] = fields{}.put("exists", i.Exists).put("cid", i.CID).put("uid", i.UID).put("content", i.Content)
	}
	return f
}

func headerFields(hs []Header) (out []any) {
	for _, h := range hs {
		out = append(out, fields{}.put("name", h.Name).put("value", h.Value))
	}
	return out
}

// put sets a field that is not the default.
func (f fields) put(name string, v any) fields {
	switch v := v.(type) {
	case []byte:
		if len(v) > 0 {
			f[name] = hex.EncodeToString(v)
		}
	case uint64:
		if v != 0 {
			f[name] = strconv.FormatUint(v, 10)
		}
	default:
		if !reflect.ValueOf(v).IsZero() {
			f[name] = v
		}
	}
	return f
}

var encoders = map[string]func(fields) []byte{
	"Result": func(f fields) []byte { return encodeResult(f) },
	"BatchResult": func(f fields) []byte {
		a := answer{batch: true}
		if whole := f.sub("whole"); whole != nil {
			a.err = errorOf(whole)
		}
		for _, item := range f.list("items") {
			a.items = append(a.items, answer{err: errorOf(item.(map[string]any))})
		}
		return a.append(nil)
	},
	"PollResult": func(f fields) []byte {
		c := &Changes{Cursor: f.str("cursor"), More: f.is("more"), Reset: f.is("reset")}
		for _, s := range f.list("seen") {
			s := fields(s.(map[string]any))
			seen := Seen{Key: s.str("key")}
			if o := observationOf(s.sub("observation")); o != nil {
				seen.Observation = *o
			}
			c.Seen = append(c.Seen, seen)
		}
		return appendPollResult(nil, c, errorOf(f.sub("result")))
	},
	"CompareResult": func(f fields) []byte {
		d := &Difference{Nodes: f.blobs("nodes"), Items: f.blobs("items")}
		for _, k := range f.list("extra") {
			d.Extra = append(d.Extra, k.(string))
		}
		return appendCompareResult(nil, d, errorOf(f.sub("result")))
	},
	"Manifest": func(f fields) []byte {
		m := &Manifest{Name: f.str("name"), Version: f.str("version"), ConfigSchema: f.str("config_schema"), PayloadSchema: f.str("payload_schema"),
			ApplyConfirms: f.is("apply_confirms"), ApplyIdempotent: f.is("apply_idempotent"), FindsByKey: f.is("finds_by_key"),
			ReportsUID: f.is("reports_uid"), AsFoundComparable: f.is("as_found_comparable"),
			BatchMax: uint32(f.num("batch_max")), Overlap: f.str("overlap"),
			Ops: opsOf(f.list("ops")), Undoable: opsOf(f.list("undoable")), Lock: f.is("lock"), Mark: f.is("mark"), ReportsContent: f.is("reports_content")}
		for _, k := range f.list("upstream_kinds") {
			m.UpstreamKinds = append(m.UpstreamKinds, k.(string))
		}
		return appendManifest(nil, m)
	},
	"HTTPRequest": func(f fields) []byte {
		r := &HTTPRequest{Upstream: f.str("upstream"), Method: f.str("method"), Path: f.str("path"),
			Timeout: time.Duration(f.num("timeout_ms")) * time.Millisecond}
		for _, h := range f.list("headers") {
			h := fields(h.(map[string]any))
			r.Headers = append(r.Headers, Header{h.str("name"), h.str("value")})
		}
		if f.is("has_body") {
			r.Body = f.bytes("body")
		}
		return appendHTTPRequest(nil, r)
	},
	"Sleep": func(f fields) []byte { return appendSleep(nil, time.Duration(f.num("ms"))*time.Millisecond) },
}

func opsOf(names []any) (ops []Op) {
	for _, name := range names {
		ops = append(ops, map[any]Op{"OP_OBSERVE": OpObserve, "OP_APPLY": OpApply, "OP_DELETE": OpDelete,
			"OP_UNLOCK": OpUnlock, "OP_RESTORE": OpRestore, "OP_POLL": OpPoll, "OP_COMPARE": OpCompare}[name])
	}
	return ops
}

func errorOf(f fields) *Error {
	statuses := map[string]Status{"OK": StatusOK, "RETRY": StatusRetry, "REJECTED": StatusRejected, "UNREACHABLE": StatusUnreachable}
	return &Error{Status: statuses[f.str("status")], Message: f.str("message"), WholeTarget: f.is("retry_after_target"),
		RetryAfter: time.Duration(f.num("retry_after_ms")) * time.Millisecond}
}

func encodeResult(f fields) []byte {
	return appendResult(nil, observationOf(f.sub("observation")), errorOf(f), f.str("target"))
}

func observationOf(s fields) (o *Observation) {
	if s != nil {
		tri := map[string]Tri{"YES": Yes, "NO": No}
		o = &Observation{Exists: s.is("exists"), Ref: s.str("ref"), CID: s.str("cid"), AsFound: s.str("as_found"),
			MatchDesired: tri[s.str("match_desired")], MatchAcked: tri[s.str("match_acked")], MatchAttempted: tri[s.str("match_attempted")],
			Cursor: s.str("cursor"), UID: s.str("uid"), Object: s.str("object"), AdapterState: s.bytes("adapter_state"), Ours: tri[s.str("ours")]}
		for _, p := range s.list("differing") {
			o.Differing = append(o.Differing, p.(string))
		}
		if s.is("has_content") {
			o.Content = s.bytes("content")
		}
		if at := s.str("at_unix_ms"); at != "" {
			ms, _ := strconv.ParseInt(at, 10, 64)
			o.At = time.UnixMilli(ms)
		}
		for k, v := range s.sub("meta") {
			if o.Meta == nil {
				o.Meta = map[string]string{}
			}
			o.Meta[k] = v.(string)
		}
	}
	return o
}

func (f fields) blobs(name string) (out [][]byte) {
	for _, s := range f.list(name) {
		b, _ := hex.DecodeString(s.(string))
		out = append(out, b)
	}
	return out
}

func (f fields) str(name string) string   { s, _ := f[name].(string); return s }
func (f fields) is(name string) bool      { b, _ := f[name].(bool); return b }
func (f fields) num(name string) float64  { n, _ := f[name].(float64); return n }
func (f fields) list(name string) []any   { l, _ := f[name].([]any); return l }
func (f fields) sub(name string) fields   { m, _ := f[name].(map[string]any); return m }
func (f fields) bytes(name string) []byte { b, _ := hex.DecodeString(f.str(name)); return b }

// FuzzDecode: no bytes make a decoder panic, read beyond them or loop.
func FuzzDecode(f *testing.F) {
	paths, _ := filepath.Glob("../abi/vectors/*.json")
	for _, path := range paths {
		var v vector
		if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, &v) == nil {
			b, _ := hex.DecodeString(v.Hex)
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, decode := range decoders {
			if got, err := decode(b); err == nil && got == nil {
				t.Errorf("%s: neither a value nor an error", name)
			}
		}
	})
}
