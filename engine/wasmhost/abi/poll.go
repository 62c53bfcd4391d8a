package abi

import (
	"fmt"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// MaxSeen is how many objects the answer to one poll may tell of.
const MaxSeen = 10_000

// AppendPollRequest appends a PollRequest of the sink's from cursor to b.
func AppendPollRequest(b []byte, sinkName, cursor string, timeoutMS uint32) []byte {
	b = appendString(b, 1, sinkName)
	b = appendString(b, 2, cursor)
	return appendUint(b, 3, uint64(timeoutMS))
}

// DecodePollResult decodes the answer to a poll of the sink's. Only where the
// result is OK there are changes.
func DecodePollResult(b []byte, sinkName string) (sink.Changes, sink.Result, error) {
	var c sink.Changes
	var res Result
	r := newReader("PollResult", b)
	for r.next() {
		switch r.num {
		case 1:
			res = r.result()
		case 2:
			c.Seen = append(c.Seen, r.seen(sinkName))
			if len(c.Seen) > MaxSeen {
				r.fail(fmt.Sprintf("it tells of more than the %d objects allowed", MaxSeen))
			}
		case 3:
			c.Cursor = r.string()
		case 4:
			c.More = r.bool()
		case 5:
			c.Reset = r.bool()
		}
	}
	if err := r.answered(res); err != nil {
		return sink.Changes{}, sink.Result{}, err
	}
	if res.Status != sink.OK {
		c = sink.Changes{}
	}
	return c, res.Result, nil
}

// result decodes an embedded Result.
func (r *reader) result() Result {
	res, err := DecodeResult(r.raw())
	if err != nil && r.err == nil {
		r.err = err
	}
	return res
}

// answered is the walk's error; a message without its Result is malformed too.
func (r *reader) answered(res Result) error {
	if r.err == nil && res.Status == 0 {
		r.fail("it has no result")
	}
	return r.err
}

// seen decodes an embedded Seen.
func (r *reader) seen(sinkName string) sink.Seen {
	s := sink.Seen{Key: record.Key{Sink: sinkName}}
	sub := newReader("Seen", r.raw())
	for sub.next() {
		switch sub.num {
		case 1:
			s.Key.Name = sub.string()
		case 2:
			o, err := decodeObservation(sub.raw())
			if err != nil && sub.err == nil {
				sub.err = err
				break
			}
			s.Observation = *o
		}
	}
	if sub.err == nil {
		if err := s.Key.Validate(); err != nil {
			sub.fail(err.Error())
		}
	}
	if sub.err != nil && r.err == nil {
		r.err = sub.err
	}
	return s
}
