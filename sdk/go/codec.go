package pawl

import (
	"math"
	"slices"
	"strings"
	"time"
)

func decodeConfig(b []byte) (Config, error) {
	var c Config
	d := decoder{b: b}
	for f, ok := d.next(); ok; f, ok = d.next() {
		switch f {
		case 1:
			c.Sink = d.string()
		case 2:
			c.JSON = d.bytes()
		case 3:
			sub := d.message()
			c.Upstreams = append(c.Upstreams, decodeUpstream(&sub))
			d.done(&sub)
		default:
			d.skip()
		}
	}
	return c, d.err
}

func decodeUpstream(d *decoder) (u UpstreamRef) {
	for f, ok := d.next(); ok; f, ok = d.next() {
		switch f {
		case 1:
			u.Name = d.string()
		case 2:
			u.Kind = d.string()
		case 3:
			u.BaseURL = d.string()
		default:
			d.skip()
		}
	}
	return u
}

func decodeBatch(b []byte) ([]*Request, error) {
	var rs []*Request
	d := decoder{b: b}
	for f, ok := d.next(); ok; f, ok = d.next() {
		if f != 1 {
			d.skip()
			continue
		}
		sub := d.message()
		r := new(Request)
		decodeRequest(&sub, r)
		rs = append(rs, r)
		d.done(&sub)
	}
	return rs, d.err
}

func decodeRequest(d *decoder, r *Request) {
	for f, ok := d.next(); ok; f, ok = d.next() {
		switch f {
		case 1:
			r.Sink = d.string()
		case 2:
			r.Key = d.string()
		case 3:
			r.Generation = d.uint()
		case 4:
			r.Payload = d.bytes()
		case 5:
			r.ContentHash = d.bytes()
		case 6:
			r.IdempotencyKey = d.string()
		case 7:
			sub := d.message()
			r.Acked = decodeAcked(&sub)
			d.done(&sub)
		case 8:
			sub := d.message()
			r.Attempted = append(r.Attempted, decodeAttempt(&sub))
			d.done(&sub)
		case 9:
			r.ConflictPolicy = ConflictPolicy(d.enum(uint8(ReportOnly)))
		case 10:
			r.Mode = Mode(d.enum(uint8(CreateOnly)))
		case 11:
			r.Force = d.bool()
		case 12:
			r.TimeoutMillis = uint32(d.uint())
		case 15:
			r.UID = d.string()
		case 16:
			sub := d.message()
			r.Saga = decodeSaga(&sub)
			d.done(&sub)
		case 17:
			r.Epoch = d.string()
		default:
			d.skip()
		}
	}
}

func decodeSaga(d *decoder) *SagaRun {
	s := new(SagaRun)
	for f, ok := d.next(); ok; f, ok = d.next() {
		switch f {
		case 1:
			s.ID = d.string()
		case 2:
			s.Step = uint32(d.uint())
		case 3:
			s.Locks = append(s.Locks, d.string())
		case 4:
			s.Held = d.bool()
		case 5:
			sub := d.message()
			s.Before = decodeImage(&sub)
			d.done(&sub)
		default:
			d.skip()
		}
	}
	return s
}

func decodeImage(d *decoder) *Image {
	i := new(Image)
	for f, ok := d.next(); ok; f, ok = d.next() {
		switch f {
		case 1:
			i.Exists = d.bool()
		case 2:
			i.CID = d.string()
		case 3:
			i.UID = d.string()
		case 4:
			i.Content = d.bytes()
		default:
			d.skip()
		}
	}
	return i
}

func decodeAcked(d *decoder) *Acked {
	a := new(Acked)
	for f, ok := d.next(); ok; f, ok = d.next() {
		switch f {
		case 1:
			a.Generation = d.uint()
		case 2:
			a.ContentHash = d.bytes()
		case 3:
			a.Ref = d.string()
		case 4:
			a.AsFound = d.string()
		case 5:
			a.UID = d.string()
		case 6:
			a.Cursor = d.string()
		case 7:
			a.AdapterState = d.bytes()
		case 8:
			a.Payload = d.bytes()
		case 9:
			a.HasPayload = d.bool()
		default:
			d.skip()
		}
	}
	return a
}

func decodeAttempt(d *decoder) (a Attempt) {
	for f, ok := d.next(); ok; f, ok = d.next() {
		switch f {
		case 1:
			a.ContentHash = d.bytes()
		case 2:
			a.Payload = d.bytes()
		case 3:
			a.HasPayload = d.bool()
		default:
			d.skip()
		}
	}
	return a
}

// decodeHTTPResponse returns a *Failure, without its upstream, where there was
// no answer.
func decodeHTTPResponse(b []byte) (*HTTPResponse, error) {
	r := new(HTTPResponse)
	var kind FailureKind
	var message string
	var maybeSent bool
	d := decoder{b: b}
	for f, ok := d.next(); ok; f, ok = d.next() {
		switch f {
		case 1:
			r.Status = int(uint32(d.uint()))
		case 2:
			r.Headers = appendHeader(&d, r.Headers)
		case 3:
			r.Body = d.bytes()
		case 4:
			r.Trailers = appendHeader(&d, r.Trailers)
		case 5:
			kind = FailureKind(d.enum(uint8(FailProtocol)))
		case 6:
			message = d.string()
		case 7:
			maybeSent = d.bool()
		default:
			d.skip()
		}
	}
	if d.err != nil {
		return nil, d.err
	}
	if kind != 0 {
		return nil, &Failure{Kind: kind, Message: message, MaybeSent: maybeSent}
	}
	return r, nil
}

func appendHeader(d *decoder, hs []Header) []Header {
	sub := d.message()
	var h Header
	for f, ok := sub.next(); ok; f, ok = sub.next() {
		switch f {
		case 1:
			h.Name = sub.string()
		case 2:
			h.Value = sub.string()
		default:
			sub.skip()
		}
	}
	d.done(&sub)
	if hs == nil {
		hs = make([]Header, 0, 8) // one allocation for most responses
	}
	return append(hs, h)
}

// millis rounds d up to whole milliseconds; what does not fit becomes the largest.
func millis(d time.Duration) uint64 {
	if d <= 0 {
		return 0
	}
	return uint64(min((d-1)/time.Millisecond+1, math.MaxUint32))
}

func appendHTTPRequest(b []byte, r *HTTPRequest) []byte {
	b = appendString(b, 1, r.Upstream)
	b = appendString(b, 2, r.Method)
	b = appendString(b, 3, r.Path)
	for i := range r.Headers {
		h := &r.Headers[i]
		var start int
		b, start = openMessage(b, 4)
		b = appendString(b, 1, h.Name)
		b = appendString(b, 2, h.Value)
		b = closeMessage(b, start)
	}
	b = appendBytes(b, 5, r.Body)
	b = appendBool(b, 6, r.Body != nil)
	return appendUint(b, 7, millis(r.Timeout))
}

func appendSleep(b []byte, d time.Duration) []byte { return appendUint(b, 1, millis(d)) }

// appendResult writes the Result of o and e; a nil e is OK, of which the
// observation is left out where there is none.
func appendResult(b []byte, o *Observation, e *Error, target string) []byte {
	if e == nil {
		e = &Error{Status: StatusOK}
	}
	b = appendUint(b, 1, uint64(e.Status))
	b = appendString(b, 2, validUTF8(e.Message))
	b = appendUint(b, 3, millis(e.RetryAfter))
	b = appendBool(b, 4, e.WholeTarget)
	if o != nil && !o.isZero() {
		var start int
		b, start = openMessage(b, 5)
		b = closeMessage(appendObservation(b, o), start)
	}
	return appendString(b, 6, target)
}

// validUTF8 keeps a message with a stray byte from spoiling the whole answer.
func validUTF8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func appendObservation(b []byte, o *Observation) []byte {
	b = appendBool(b, 1, o.Exists)
	b = appendString(b, 2, o.Ref)
	b = appendString(b, 3, o.CID)
	b = appendString(b, 4, o.AsFound)
	b = appendUint(b, 5, uint64(o.MatchDesired))
	b = appendUint(b, 6, uint64(o.MatchAcked))
	b = appendUint(b, 7, uint64(o.MatchAttempted))
	for _, p := range o.Differing {
		b = appendEntry(b, 8, validUTF8(p))
	}
	b = appendBytes(b, 9, o.Content)
	b = appendBool(b, 10, o.Content != nil)
	if !o.At.IsZero() {
		b = appendUint(b, 11, uint64(o.At.UnixMilli()))
	}
	b = appendMeta(b, o.Meta)
	b = appendString(b, 13, o.Cursor)
	b = appendString(b, 14, o.UID)
	b = appendString(b, 15, o.Object)
	b = appendBytes(b, 16, o.AdapterState)
	return appendUint(b, 17, uint64(o.Ours))
}

func appendMeta(b []byte, meta map[string]string) []byte {
	if len(meta) == 0 {
		return b
	}
	keys := make([]string, 0, len(meta))
	for k := range meta {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		var start int
		b, start = openMessage(b, 12)
		b = appendEntry(b, 1, k) // both halves, as protobuf writes map entries
		b = appendEntry(b, 2, meta[k])
		b = closeMessage(b, start)
	}
	return b
}

func appendManifest(b []byte, m *Manifest) []byte {
	b = appendString(b, 1, m.Name)
	b = appendString(b, 2, m.Version)
	b = appendOps(b, 3, m.Ops)
	b = appendString(b, 4, m.ConfigSchema)
	b = appendString(b, 5, m.PayloadSchema)
	b = appendBool(b, 6, m.ApplyConfirms)
	b = appendBool(b, 7, m.ApplyIdempotent)
	b = appendBool(b, 8, m.FindsByKey)
	b = appendBool(b, 9, m.ReportsUID)
	b = appendBool(b, 10, m.AsFoundComparable)
	b = appendOps(b, 11, m.Undoable)
	b = appendBool(b, 12, m.Lock)
	b = appendBool(b, 13, m.Mark)
	b = appendUint(b, 15, uint64(m.BatchMax))
	b = appendString(b, 16, m.Overlap)
	for _, k := range m.UpstreamKinds {
		b = appendEntry(b, 17, k)
	}
	return appendBool(b, 18, m.ReportsContent)
}

// appendOps writes a repeated enum packed.
func appendOps(b []byte, field uint32, ops []Op) []byte {
	if len(ops) == 0 {
		return b
	}
	b = appendHead(b, field, len(ops))
	for _, op := range ops {
		b = append(b, byte(op))
	}
	return b
}
