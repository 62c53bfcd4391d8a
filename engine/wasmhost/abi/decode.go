package abi

import (
	"fmt"
	"time"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/upstream"
)

// DecodeManifest decodes the answer to describe.
func DecodeManifest(b []byte) (*Manifest, error) {
	m := &Manifest{}
	r := newReader("Manifest", b)
	for r.next() {
		switch r.num {
		case 1:
			m.Name = r.string()
		case 2:
			m.Version = r.string()
		case 3:
			m.Ops = r.enums(m.Ops, OpDescribe, OpCompare)
		case 4:
			m.ConfigSchema = r.string()
		case 5:
			m.PayloadSchema = r.string()
		case 6:
			m.ApplyConfirms = r.bool()
		case 7:
			m.ApplyIdempotent = r.bool()
		case 8:
			m.FindsByKey = r.bool()
		case 9:
			m.ReportsUID = r.bool()
		case 10:
			m.AsFoundComparable = r.bool()
		case 11:
			m.Undoable = r.enums(m.Undoable, OpDescribe, OpCompare)
		case 12:
			m.Lock = r.bool()
		case 13:
			m.Mark = r.bool()
		case 15:
			m.BatchMax = int(r.uint32())
		case 16:
			m.Overlap = r.string()
			if m.Overlap != "" && m.Overlap != OverlapKeyPrefix {
				r.fail(fmt.Sprintf("overlap %q is unknown", m.Overlap))
			}
		case 17:
			m.UpstreamKinds = append(m.UpstreamKinds, r.string())
		case 18:
			m.ReportsContent = r.bool()
		}
	}
	return m, r.err
}

// DecodeResult decodes the answer to every op that has no answer of its own kind.
func DecodeResult(b []byte) (Result, error) {
	var res Result
	r := newReader("Result", b)
	for r.next() {
		switch r.num {
		case 1:
			res.Status = sink.Status(r.enum(uint64(sink.OK), uint64(sink.Unreachable)))
		case 2:
			res.Message = r.string()
		case 3:
			res.RetryAfter = time.Duration(r.uint32()) * time.Millisecond
		case 4:
			res.RetryAfterTarget = r.bool()
		case 5:
			o, err := decodeObservation(r.raw())
			if err != nil && r.err == nil {
				r.err = err
			}
			res.Observation = o
		case 6:
			res.Target = r.string()
		}
	}
	if r.err == nil && res.Status == 0 {
		r.fail("it has no status")
	}
	if r.err != nil {
		return Result{}, r.err
	}
	return res, nil
}

// DecodeBatchResult decodes the answer to an apply_batch of n items: n
// results, or one with whole=true.
func DecodeBatchResult(b []byte, n int) (results []sink.Result, whole bool, err error) {
	r := newReader("BatchResult", b)
	var one *Result
	for r.next() {
		if r.num != 1 && r.num != 2 {
			continue
		}
		res, err := DecodeResult(r.raw())
		switch {
		case r.err != nil:
		case err != nil:
			r.err = err
		case r.num == 2:
			one = &res
		case len(results) == n:
			r.fail(fmt.Sprintf("it has more than the %d results asked for", n))
		default:
			results = append(results, res.Result)
		}
	}
	switch {
	case r.err != nil:
	case one != nil && len(results) == 0:
		return []sink.Result{one.Result}, true, nil
	case one != nil:
		r.fail("it has both results and one for the whole batch")
	case len(results) != n:
		r.fail(fmt.Sprintf("it has %d results for %d requests", len(results), n))
	}
	if r.err != nil {
		return nil, false, r.err
	}
	return results, false, nil
}

func decodeObservation(b []byte) (*sink.Observation, error) {
	o := &sink.Observation{}
	hasContent := false
	r := newReader("Observation", b)
	for r.next() {
		switch r.num {
		case 1:
			o.Exists = r.bool()
		case 2:
			o.Ref = r.string()
		case 3:
			o.CID = r.string()
		case 4:
			o.AsFound = r.string()
		case 5:
			o.MatchDesired = sink.Tri(r.enum(0, 2))
		case 6:
			o.MatchAcked = sink.Tri(r.enum(0, 2))
		case 7:
			o.MatchAttempted = sink.Tri(r.enum(0, 2))
		case 8:
			o.Differing = append(o.Differing, r.string())
		case 9:
			o.Content = r.bytes()
		case 10:
			hasContent = r.bool()
		case 11:
			o.At = unixMilli(int64(r.uint()))
		case 12:
			decodeMeta(&r, o)
		case 13:
			o.Cursor = r.string()
		case 14:
			o.UID = r.string()
		case 15:
			o.Object = r.string()
		case 16:
			if o.AdapterState = r.bytes(); len(o.AdapterState) > MaxAdapterState {
				r.fail(fmt.Sprintf("its adapter state has %d bytes, more than the %d allowed", len(o.AdapterState), MaxAdapterState))
			}
		case 17:
			o.Ours = sink.Tri(r.enum(0, 2))
		}
	}
	// has_content is needed only to tell empty content from none.
	switch {
	case len(o.Content) > 0:
	case hasContent:
		o.Content = []byte{}
	default:
		o.Content = nil
	}
	return o, r.err
}

// unixMilli turns 0, "not said", into the zero time.
func unixMilli(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

func decodeMeta(r *reader, o *sink.Observation) {
	name, value, err := decodePair("Observation.meta", r.raw())
	if err != nil && r.err == nil {
		r.err = err
		return
	}
	if o.Meta == nil {
		o.Meta = make(map[string]string)
	}
	if o.Meta[name] = value; len(o.Meta) > MaxPairs {
		r.fail(fmt.Sprintf("its meta has more than the %d entries allowed", MaxPairs))
	}
}

// decodePair decodes a Header or a map entry: both are two strings.
func decodePair(msg string, b []byte) (name, value string, err error) {
	r := newReader(msg, b)
	for r.next() {
		switch r.num {
		case 1:
			name = r.string()
		case 2:
			value = r.string()
		}
	}
	return name, value, r.err
}

// DecodeHTTPRequest decodes the input of a host I/O of kind IOHTTP.
func DecodeHTTPRequest(b []byte) (*HTTPRequest, error) {
	q := &HTTPRequest{}
	r := newReader("HTTPRequest", b)
	for r.next() {
		switch r.num {
		case 1:
			q.Upstream = r.string()
		case 2:
			q.Method = r.string()
		case 3:
			q.Path = r.string()
		case 4:
			name, value, err := decodePair("Header", r.raw())
			if err != nil && r.err == nil {
				r.err = err
			}
			if q.Header = append(q.Header, upstream.Field{Name: name, Value: value}); len(q.Header) > MaxPairs {
				r.fail(fmt.Sprintf("it has more than the %d headers allowed", MaxPairs))
			}
		case 5:
			q.Body = r.bytes()
		case 6:
			q.HasBody = r.bool()
		case 7:
			q.Timeout = time.Duration(r.uint32()) * time.Millisecond
		}
	}
	// has_body is needed only to tell an empty body from none.
	q.HasBody = q.HasBody || len(q.Body) > 0
	return q, r.err
}

// DecodeSleep decodes the input of a host I/O of kind IOSleep.
func DecodeSleep(b []byte) (time.Duration, error) {
	var d time.Duration
	r := newReader("Sleep", b)
	for r.next() {
		if r.num == 1 {
			d = time.Duration(r.uint32()) * time.Millisecond
		}
	}
	return d, r.err
}
