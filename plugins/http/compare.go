package main

import (
	"bytes"
	"strconv"
	"strings"
	"unsafe"

	"github.com/pawlsync/pawl/plugins/internal/jsondoc"
	pawl "github.com/pawlsync/pawl/sdk/go"
)

// kept is what an ack keeps of the content that it confirms.
type kept struct {
	asFound string
	state   []byte
}

// keep works out what is kept of body, which it reads with p. An error says that
// body can't be compared, so must not be sent.
func (cfg *config) keep(p *jsondoc.Parser, r *pawl.Request, body []byte) (k kept, err error) {
	switch cfg.compare {
	case compareOwned, compareJSON:
		d, err := p.Parse(view(body))
		if err != nil {
			return k, pawl.Rejected("the payload is " + err.Error() + "; compare \"" + cfg.compare + "\" needs JSON")
		}
		owned, digest := jsondoc.Own(d)
		p.Release(d)
		k.asFound = hexDigest(digest)
		if cfg.compare == compareJSON {
			return k, nil
		}
		if len(owned) > pawl.MaxAdapterStateBytes {
			return k, pawl.Rejected("the payload has " + strconv.Itoa(owned.Len()) + " fields; compare \"owned-json\" keeps track of " +
				strconv.Itoa(pawl.MaxAdapterStateBytes/4) + " at most: use compare \"json\"")
		}
		k.state = owned
	case compareBytes:
		k.asFound = hexDigest(jsondoc.DigestBytes(view(body)))
	case compareHeader:
		k.asFound = hexHash(r.ContentHash)
	case compareExists:
		k.asFound = existing
	}
	return k, nil
}

// existing is what is found of an object of which nothing else counts.
const existing = "exists"

// judge fills in how the target's answer compares with what r knows.
func (cfg *config) judge(o *pawl.Observation, r *pawl.Request, resp *pawl.HTTPResponse) error {
	if cfg.observe.method != "HEAD" && (len(r.Payload) == 0 || cfg.reportsContent()) {
		o.Content = resp.Body // of owned-json with a payload: less, see desired
		if o.Content == nil {
			o.Content = []byte{}
		}
	}
	switch cfg.compare {
	case compareOwned, compareJSON:
		return cfg.judgeJSON(o, r, resp.Body)
	case compareBytes:
		return cfg.judgeBytes(o, r, resp.Body)
	case compareETag:
		if o.CID == "" {
			return pawl.Retry("the target's answer has no ETag to compare; choose another compare")
		}
		o.AsFound = o.CID
		judgeToken(o, r)
		if same := r.Acked != nil && bytes.Equal(r.Acked.ContentHash, r.ContentHash); same {
			o.MatchDesired = o.MatchAcked
		}
	case compareHeader:
		found, ok := normalHash(resp.Header(cfg.hashHeader))
		if !ok {
			return pawl.Retry("the target's answer has no SHA-256 in its header " + cfg.hashHeader + "; check hash_header")
		}
		o.AsFound = found
		judgeToken(o, r)
		o.MatchDesired = pawl.TriOf(found == hexHash(r.ContentHash))
		for _, at := range r.Attempted {
			o.MatchAttempted = either(o.MatchAttempted, pawl.TriOf(found == hexHash(at.ContentHash)))
		}
	case compareExists:
		o.AsFound = existing
		o.MatchDesired = pawl.Yes
		judgeToken(o, r)
	}
	return nil
}

// judgeToken compares AsFound with that of the last ack.
func judgeToken(o *pawl.Observation, r *pawl.Request) {
	if r.Acked != nil && r.Acked.AsFound != "" {
		o.MatchAcked = pawl.TriOf(o.AsFound == r.Acked.AsFound)
	}
}

// either joins what is known of several attempts: one match is enough, and
// "no" needs all of them to be known.
func either(a, b pawl.Tri) pawl.Tri {
	if a == pawl.Yes || b == pawl.Yes {
		return pawl.Yes
	}
	return max(a, b)
}

func (cfg *config) judgeBytes(o *pawl.Observation, r *pawl.Request, found []byte) error {
	o.AsFound = hexDigest(jsondoc.DigestBytes(view(found)))
	judgeToken(o, r)
	want, err := cfg.apply.content(r, r.Payload)
	if err != nil {
		return err
	}
	if o.MatchDesired = pawl.TriOf(bytes.Equal(want, found)); o.MatchDesired == pawl.No {
		o.Differing = []string{"/"}
	}
	for _, at := range r.Attempted {
		o.MatchAttempted = either(o.MatchAttempted, cfg.attempt(r, at, o.MatchDesired, func(sent []byte) bool {
			return bytes.Equal(sent, found)
		}))
	}
	return nil
}

// attempt tells whether the target holds what was sent in an attempt.
func (cfg *config) attempt(r *pawl.Request, at pawl.Attempt, desired pawl.Tri, same func(sent []byte) bool) pawl.Tri {
	switch {
	case bytes.Equal(at.ContentHash, r.ContentHash):
		return desired
	case !at.HasPayload:
		return pawl.Unknown
	}
	sent, err := cfg.apply.content(r, at.Payload)
	if err != nil {
		return pawl.Unknown
	}
	return pawl.TriOf(same(sent))
}

// judgeJSON compares documents. What the target holds and nobody can read as
// JSON differs from everything.
func (cfg *config) judgeJSON(o *pawl.Observation, r *pawl.Request, found []byte) error {
	have, err := jsondoc.Parse(view(found))
	if err != nil {
		o.MatchDesired, o.MatchAcked, o.Differing = pawl.No, pawl.No, []string{"/"}
		if len(r.Attempted) > 0 {
			o.MatchAttempted = pawl.No
		}
		return nil
	}
	j := &jsonJudge{cfg: cfg, r: r, have: have}
	if cfg.compare == compareOwned {
		j.before = j.ownedBefore()
		o.MatchAcked = j.acked()
	} else {
		everything, sum := jsondoc.Own(have)
		j.before = everything.Set() // whatever is there and not desired is a difference
		o.AsFound = hexDigest(sum)
		judgeToken(o, r)
	}
	if len(r.Payload) == 0 {
		return nil
	}
	return j.desired(o)
}

// jsonJudge compares one observed document.
type jsonJudge struct {
	cfg    *config
	r      *pawl.Request
	have   *jsondoc.Doc
	before jsondoc.Set // fields that differ where they are not desired
}

// ownedBefore returns the fields that were owned at the last ack.
func (j *jsonJudge) ownedBefore() jsondoc.Set {
	a := j.r.Acked
	switch {
	case a == nil:
		return nil
	case len(a.AdapterState) > 0 && len(a.AdapterState)%4 == 0:
		return jsondoc.Owned(a.AdapterState).Set()
	case !a.HasPayload:
		return nil
	}
	sent, err := j.cfg.apply.content(j.r, a.Payload)
	if err != nil {
		return nil
	}
	d, err := jsondoc.Parse(view(sent))
	if err != nil {
		return nil
	}
	owned, _ := jsondoc.Own(d)
	return owned.Set()
}

// acked tells whether the target holds what was acked, at the fields owned then.
func (j *jsonJudge) acked() pawl.Tri {
	if j.r.Acked == nil || j.r.Acked.AsFound == "" || len(j.before) == 0 {
		return pawl.Unknown
	}
	return pawl.TriOf(hexDigest(j.before.Digest(j.have)) == j.r.Acked.AsFound)
}

func (j *jsonJudge) desired(o *pawl.Observation) error {
	diff, want, err := j.compare(j.r.Payload)
	if err != nil {
		return pawl.Rejected("the payload is " + err.Error() + "; compare \"" + j.cfg.compare + "\" needs JSON")
	}
	o.MatchDesired, o.Differing = pawl.TriOf(!diff.Differs), diff.Paths
	if j.cfg.compare == compareOwned {
		o.AsFound = hexDigest(diff.Found)
		if j.cfg.reportsContent() {
			o.Content = []byte(jsondoc.Project(want.Root(), j.have.Root(), j.before))
		}
		if owned, _ := jsondoc.Own(want); len(owned) <= pawl.MaxAdapterStateBytes {
			o.AdapterState = owned
		}
	}
	for _, at := range j.r.Attempted {
		o.MatchAttempted = either(o.MatchAttempted, j.cfg.attempt(j.r, at, o.MatchDesired, func(sent []byte) bool {
			d, err := jsondoc.Parse(view(sent))
			return err == nil && !jsondoc.Compare(d, j.have, j.before).Differs
		}))
	}
	return nil
}

func (j *jsonJudge) compare(payload []byte) (diff jsondoc.Difference, want *jsondoc.Doc, err error) {
	body, err := j.cfg.apply.content(j.r, payload)
	if err != nil {
		return diff, nil, err
	}
	if want, err = jsondoc.Parse(view(body)); err != nil {
		return diff, nil, err
	}
	return jsondoc.Compare(want, j.have, j.before), want, nil
}

// normalHash reads a SHA-256 in hex, as servers write it: in quotes, with its
// algorithm before it, in either case.
func normalHash(v string) (string, bool) {
	v = strings.ToLower(strings.Trim(v, "\" "))
	if i := strings.LastIndexAny(v, ":="); i >= 0 {
		v = strings.Trim(v[i+1:], "\" ")
	}
	return v, len(v) == 64 && strings.Trim(v, hexDigits) == ""
}

const hexDigits = "0123456789abcdef"

func appendHex(b, h []byte) []byte {
	for _, c := range h {
		b = append(b, hexDigits[c>>4], hexDigits[c&15])
	}
	return b
}

func hexHash(h []byte) string { return string(appendHex(nil, h)) }

func hexDigest(d jsondoc.Digest) string {
	var b [16]byte
	for i := range b {
		b[i] = hexDigits[d>>60]
		d <<= 4
	}
	return string(b[:])
}

// view is b as a string that shares its memory, which nobody changes.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
