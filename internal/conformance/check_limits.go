package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// limitChecks are about contents and keys at the edge of what is allowed, and
// about what must not be told.
var limitChecks = []Check{
	{
		ID:    "large-payload",
		Wants: "A payload of 512 KiB, the most that the engine takes, is applied, or rejected with a reason.",
		Fix:   "Don't copy payloads needlessly; if the target's limit is lower, answer REJECTED and say it.",
		Run:   largePayload,
	},
	{
		ID:    "unicode-keys",
		Wants: "A key is any UTF-8 without control characters, up to 1,024 bytes: it is applied, or rejected with a reason, and no two are confused.",
		Fix:   "Escape keys for where they go (the SDK's EscapePath for paths), or answer REJECTED and say which characters the target takes.",
		Run: func(t *T) {
			t.oddKeys("ключ", "鍵", "na\u00efve", "nai\u0308ve", "a b", "a+b", "emoji-🔑", "tab-free", "UPPER", "upper", longKey('k'), longKey('ж'))
		},
	},
	{
		ID:    "hostile-keys",
		Wants: "A key that looks like a path, a query or an escape reaches no object but its own: it is escaped, or rejected with a reason.",
		Fix:   "Escape every character but letters, digits, '-', '.', '_' and '~' before the key goes into a path; refuse segments that are empty, '.' or '..'.",
		Run: func(t *T) {
			t.oddKeys("../x", "a/../b", "a/./b", "a//b", "/a", "a/", "..", ".", "%2f", "a%2fb", "a/b", "%2e%2e", "%252e", "a?b=c", "a?b=d", "a&b=c",
				"a#b", "a;b", "a:b", `a\b`, "a'b", `a"b`, "<a>", "{key}", "a,b", "*", "@")
		},
	},
	{
		ID:    "no-payload-told",
		Wants: "Messages, differing paths, references and log lines hold no value of a payload: values may be secrets, and all of these are kept and shown.",
		Fix:   "Name fields, never their values; don't repeat the target's answer, which may quote what was sent; log no payload.",
		Run:   noPayloadTold,
	},
}

// maxPayload is the most that the engine takes by default.
const maxPayload = 512 << 10

func largePayload(t *T) {
	small := t.fixture.Payloads.Create
	large := enlarge(small, maxPayload)
	if large == nil {
		t.Skipf("payloads.create is neither a JSON object nor plain text, so that the kit can't enlarge it")
	}
	o := t.thing()
	r := o.want(large)
	res := t.sink.Apply(t.ctx, r)
	if !okOrRejected(res) {
		t.Failf("Apply of %d bytes answered %s", len(large), describe(res))
	}
	if res.Status == sink.Rejected {
		if res.Message == "" {
			t.Failf("Apply of %d bytes was rejected without a reason", len(large))
		}
		return
	}
	o.ack(r, res.Observation)
	r.Acked = o.acked
	if !t.sink.Manifest().Observes {
		return
	}
	if res := t.sink.Observe(t.ctx, r); !t.matches(r, res) {
		t.Failf("after Apply of %d bytes, Observe does not match: %s", len(large), describe(res))
	}
}

// okOrRejected reports whether an answer is one of the two that a check allows.
func okOrRejected(res sink.Result) bool { return res.Status == sink.OK || res.Status == sink.Rejected }

// enlarge makes a payload of exactly size bytes: of a JSON object by one more
// field, of text by repeating it. It returns nil where it can't.
func enlarge(payload []byte, size int) []byte {
	if trimmed := bytes.TrimSpace(payload); json.Valid(payload) {
		head, ok := bytes.CutSuffix(trimmed, []byte("}"))
		if !ok || len(trimmed) < 3 {
			return nil
		}
		head = append(slices.Clip(head), `,"padding_of_the_conformance_kit":"`...)
		return append(append(head, bytes.Repeat([]byte("p"), size-len(head)-2)...), `"}`...)
	}
	return bytes.Repeat(payload, size/len(payload)+1)[:size]
}

// longKey is as long as a key may be.
func longKey(r rune) string { return strings.Repeat(string(r), record.MaxKeyBytes/len(string(r))) }

// oddKeys applies a content under each key, and looks whether any of them, or a
// bystander, got what is another's. A real target sees them only within the
// fixture's pattern of keys.
func (t *T) oddKeys(keys ...string) {
	p := t.fixture.Payloads
	bystander := t.thing()
	bystander.apply(p.Create)
	var taken []*thing
	content := map[*thing][]byte{}
	objects := map[string]bool{} // identities that were reported
	for i, key := range keys {
		o := t.named(key, fmt.Sprintf("%s-odd-%d", t.check, i))
		if t.store == nil {
			if o.key = strings.ReplaceAll(t.fixture.Key, "{n}", o.n+"-"+t.kit.nonce+key); len(o.key) > record.MaxKeyBytes {
				continue
			}
		}
		payload := [][]byte{p.Create, p.Update}[i%2]
		before := len(t.snapshot())
		r := o.want(o.content(payload))
		res := t.sink.Apply(t.ctx, r)
		switch {
		case !okOrRejected(res):
			t.Failf("Apply of the key %.60q answered %s", o.key, describe(res))
		case res.Status == sink.Rejected && res.Message == "":
			t.Failf("Apply of the key %.60q was rejected without a reason", o.key)
		case res.Status == sink.Rejected:
			continue
		}
		o.ack(r, res.Observation)
		if seen := res.Observation; seen != nil && seen.Object != "" {
			if objects[seen.Object] {
				continue // the engine sees that they share an object, and refuses the second
			}
			objects[seen.Object] = true
		}
		if t.store != nil && len(t.snapshot()) <= before {
			t.Failf("Apply of the new key %.60q answered OK, but no object was made: it went to that of another", o.key)
		}
		taken = append(taken, o)
		content[o] = payload
	}
	if !t.sink.Manifest().Observes {
		return
	}
	bystander.mustMatch(p.Create, "of a bystander")
	for _, o := range taken {
		o.mustMatch(content[o], fmt.Sprintf("of the key %.60q", o.key))
	}
	if t.sink.Manifest().Deletes {
		for _, o := range taken {
			o.delete()
		}
		bystander.mustMatch(p.Create, "of a bystander, after odd keys were deleted")
	}
}

func noPayloadTold(t *T) {
	p := t.fixture.Payloads
	o := t.thing()
	values := secretsOf(o.content(p.Create), o.content(p.Update))
	values = slices.DeleteFunc(values, func(v string) bool { return strings.Contains(o.key, v) }) // keys may be told
	if len(values) == 0 {
		t.Skipf("no payload of the fixture holds a text of %d characters or more", minSecret)
	}
	tell := func(what, said string) {
		for _, v := range values {
			if strings.Contains(said, v) {
				t.Failf("%s repeats the payload's value %q: %.300s", what, v, said)
			}
		}
	}
	judge := func(what string, res sink.Result) {
		tell("the message of "+what, res.Message)
		if seen := res.Observation; seen != nil {
			tell("differing of "+what, strings.Join(seen.Differing, " "))
			tell("ref of "+what, seen.Ref+" "+seen.Object+" "+seen.UID+" "+seen.Cursor)
			for k, v := range seen.Meta {
				tell("meta of "+what, k+" "+v)
			}
		}
	}
	calls := func(when string) {
		judge("Apply, "+when, t.sink.Apply(t.ctx, o.want(o.content(p.Update))))
		if t.sink.Manifest().Observes {
			judge("Observe, "+when, o.observe(p.Create))
		}
		if t.sink.Manifest().Deletes {
			judge("Delete, "+when, t.sink.Delete(t.ctx, o.tombstone()))
		}
	}
	o.apply(p.Create)
	calls("all being well")
	o = t.thing()
	o.apply(p.Create)
	echo := strings.Join(values, ", ")
	for _, code := range []int{400, 401, 409, 422, 500} {
		t.gate.set(status(code, fmt.Sprintf(`{"error":%q}`, "not acceptable: "+echo), "Content-Type", "application/json"))
		calls(fmt.Sprintf("of a target that answers %d and quotes the payload", code))
	}
	t.gate.set(nil)
	for _, l := range t.book.of(t.name) {
		if l.Guest {
			tell("a log line", l.Text)
		}
	}
}

// minSecret is how long a text in a payload must be for the kit to look for it.
const minSecret = 8

// secretsOf returns the texts in JSON payloads, or a payload that is text itself.
func secretsOf(payloads ...[]byte) (out []string) {
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			if len(v) >= minSecret {
				out = append(out, v)
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	for _, p := range payloads {
		var v any
		if json.Unmarshal(p, &v) != nil {
			v = string(p)
		}
		walk(v)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
