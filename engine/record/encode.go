package record

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Desired and Status are kept in protobuf wire format, so that fields can be
// added without a new format. docs/store-format.md lists the field numbers; a
// number is never given a second meaning. Fields are written in ascending
// order, and those that hold their zero value are left out. Times are unix
// nanoseconds in a zig-zag varint and come back in UTC; the zero time is left
// out. A time outside the years 1678 to 2262 does not fit and is not kept
// exactly.

// ErrMalformed is wrapped by the errors of ParseDesired and ParseStatus.
var ErrMalformed = errors.New("malformed record")

// AppendDesired appends the encoding of d to b.
func AppendDesired(b []byte, d *Desired) []byte {
	b = appendUint(b, 1, d.Generation)
	b = appendBool(b, 2, d.Tombstone)
	b = appendBool(b, 3, d.Gone)
	b = appendTime(b, 4, d.GoneUntil)
	b = appendBytes(b, 5, d.Payload)
	b = appendHash(b, 6, d.Hash)
	b = appendString(b, 7, string(d.Conflict))
	b = appendString(b, 8, string(d.Deletion))
	b = appendBool(b, 9, d.Suspend)
	b = appendString(b, 10, d.Order.Source)
	b = appendString(b, 11, d.Order.Epoch)
	b = appendUint(b, 12, d.Order.Number)
	b = appendString(b, 13, d.Owner)
	b = appendTime(b, 14, d.PutAt)
	b = appendTime(b, 15, d.WaitingSince)
	b = appendString(b, 16, string(d.Direction))
	b = appendString(b, 17, string(d.Origin))
	b = appendHash(b, 18, d.SourceHash)
	b = appendRetry(b, 19, d.Retry)
	return appendString(b, 20, d.IdempotencyKey)
}

// ParseDesired reads what AppendDesired wrote. Fields that it does not know are
// skipped. The result shares no memory with b. Errors wrap ErrMalformed.
func ParseDesired(b []byte) (Desired, error) {
	var d Desired
	err := eachField(b, func(f field) error {
		switch f.number {
		case 1:
			return f.uint(&d.Generation)
		case 2:
			return f.bool(&d.Tombstone)
		case 3:
			return f.bool(&d.Gone)
		case 4:
			return f.time(&d.GoneUntil)
		case 5:
			return f.bytes(&d.Payload)
		case 6:
			return f.hash(&d.Hash)
		case 7:
			return parseWord(f, &d.Conflict)
		case 8:
			return parseWord(f, &d.Deletion)
		case 9:
			return f.bool(&d.Suspend)
		case 10:
			return parseWord(f, &d.Order.Source)
		case 11:
			return parseWord(f, &d.Order.Epoch)
		case 12:
			return f.uint(&d.Order.Number)
		case 13:
			return parseWord(f, &d.Owner)
		case 14:
			return f.time(&d.PutAt)
		case 15:
			return f.time(&d.WaitingSince)
		case 16:
			return parseWord(f, &d.Direction)
		case 17:
			return parseWord(f, &d.Origin)
		case 18:
			return f.hash(&d.SourceHash)
		case 19:
			return f.message(d.Retry.parse)
		case 20:
			return parseWord(f, &d.IdempotencyKey)
		}
		return nil
	})
	if err != nil {
		return Desired{}, fmt.Errorf("desired: %w", err)
	}
	return d, nil
}

// AppendStatus appends the encoding of s to b.
func AppendStatus(b []byte, s *Status) []byte {
	b = appendUint(b, 1, s.Generation)
	b = appendString(b, 2, string(s.Phase))
	b = appendString(b, 3, string(s.Reason))
	b = appendString(b, 4, s.Message)
	b = appendInt(b, 5, int64(s.Attempts))
	b = appendTime(b, 6, s.NextAt)
	b = appendInt(b, 7, int64(s.Delay))
	b = appendTime(b, 8, s.FailedAt)
	b = appendTime(b, 9, s.LookedAt)
	if s.Acked != nil {
		b = appendMessage(b, 10, func(b []byte) []byte { return appendAcked(b, s.Acked) })
	}
	for i := range s.Attempted {
		b = appendMessage(b, 11, func(b []byte) []byte { return appendAttempt(b, &s.Attempted[i]) })
	}
	for _, path := range s.DriftPaths {
		b = appendElement(b, 12, path)
	}
	for _, at := range s.Corrections {
		b = protowire.AppendTag(b, 13, protowire.VarintType)
		b = protowire.AppendVarint(b, protowire.EncodeZigZag(nanos(at)))
	}
	b = appendBool(b, 14, s.Suspended)
	b = appendInt(b, 15, int64(s.Looks))
	for i := range s.Conditions {
		b = appendMessage(b, 16, func(b []byte) []byte { return appendCondition(b, &s.Conditions[i]) })
	}
	for i := range s.History {
		b = appendMessage(b, 17, func(b []byte) []byte { return appendTransition(b, &s.History[i]) })
	}
	b = appendTime(b, 18, s.UpdatedAt)
	b = appendString(b, 19, string(s.Command))
	b = appendString(b, 20, string(s.Direction))
	if s.Observed != nil {
		b = appendMessage(b, 21, func(b []byte) []byte { return appendObserved(b, s.Observed) })
	}
	return appendRetry(b, 22, s.Retry)
}

// ParseStatus reads what AppendStatus wrote. Fields that it does not know are
// skipped. The result shares no memory with b. Errors wrap ErrMalformed.
func ParseStatus(b []byte) (Status, error) {
	var s Status
	err := eachField(b, func(f field) error {
		switch f.number {
		case 1:
			return f.uint(&s.Generation)
		case 2:
			return parseWord(f, &s.Phase)
		case 3:
			return parseWord(f, &s.Reason)
		case 4:
			return parseWord(f, &s.Message)
		case 5:
			return parseInt(f, &s.Attempts)
		case 6:
			return f.time(&s.NextAt)
		case 7:
			return parseInt(f, &s.Delay)
		case 8:
			return f.time(&s.FailedAt)
		case 9:
			return f.time(&s.LookedAt)
		case 10:
			s.Acked = new(Acked)
			return f.message(func(f field) error { return s.Acked.parse(f) })
		case 11:
			return parseElement(f, &s.Attempted, (*Attempt).parse)
		case 12:
			s.DriftPaths = append(s.DriftPaths, "")
			return parseWord(f, &s.DriftPaths[len(s.DriftPaths)-1])
		case 13:
			s.Corrections = append(s.Corrections, time.Time{})
			return f.time(&s.Corrections[len(s.Corrections)-1])
		case 14:
			return f.bool(&s.Suspended)
		case 15:
			return parseInt(f, &s.Looks)
		case 16:
			return parseElement(f, &s.Conditions, (*Condition).parse)
		case 17:
			return parseElement(f, &s.History, (*Transition).parse)
		case 18:
			return f.time(&s.UpdatedAt)
		case 19:
			return parseWord(f, &s.Command)
		case 20:
			return parseWord(f, &s.Direction)
		case 21:
			s.Observed = new(Observed)
			return f.message(func(f field) error { return s.Observed.parse(f) })
		case 22:
			return f.message(s.Retry.parse)
		}
		return nil
	})
	if err != nil {
		return Status{}, fmt.Errorf("status: %w", err)
	}
	return s, nil
}

func appendAcked(b []byte, a *Acked) []byte {
	b = appendUint(b, 1, a.Generation)
	b = appendHash(b, 2, a.Hash)
	b = appendBool(b, 3, a.Missing)
	b = appendString(b, 4, a.Ref)
	b = appendString(b, 5, a.AsFound)
	b = appendString(b, 6, a.UID)
	b = appendString(b, 7, a.Cursor)
	b = appendString(b, 8, a.Object)
	b = appendBytes(b, 9, a.Adapter)
	b = appendString(b, 10, a.Target)
	b = appendBytes(b, 11, a.Payload)
	return appendTime(b, 12, a.At)
}

func (a *Acked) parse(f field) error {
	switch f.number {
	case 1:
		return f.uint(&a.Generation)
	case 2:
		return f.hash(&a.Hash)
	case 3:
		return f.bool(&a.Missing)
	case 4:
		return parseWord(f, &a.Ref)
	case 5:
		return parseWord(f, &a.AsFound)
	case 6:
		return parseWord(f, &a.UID)
	case 7:
		return parseWord(f, &a.Cursor)
	case 8:
		return parseWord(f, &a.Object)
	case 9:
		return f.bytes(&a.Adapter)
	case 10:
		return parseWord(f, &a.Target)
	case 11:
		return f.bytes(&a.Payload)
	case 12:
		return f.time(&a.At)
	}
	return nil
}

func appendObserved(b []byte, o *Observed) []byte {
	b = appendBytes(b, 1, o.Content)
	b = appendHash(b, 2, o.Hash)
	b = appendString(b, 3, o.Cursor)
	return appendTime(b, 4, o.At)
}

func (o *Observed) parse(f field) error {
	switch f.number {
	case 1:
		return f.bytes(&o.Content)
	case 2:
		return f.hash(&o.Hash)
	case 3:
		return parseWord(f, &o.Cursor)
	case 4:
		return f.time(&o.At)
	}
	return nil
}

func appendAttempt(b []byte, a *Attempt) []byte {
	b = appendUint(b, 1, a.Generation)
	b = appendHash(b, 2, a.Hash)
	b = appendBool(b, 3, a.Delete)
	b = appendBytes(b, 4, a.Payload)
	return appendTime(b, 5, a.Deadline)
}

func (a *Attempt) parse(f field) error {
	switch f.number {
	case 1:
		return f.uint(&a.Generation)
	case 2:
		return f.hash(&a.Hash)
	case 3:
		return f.bool(&a.Delete)
	case 4:
		return f.bytes(&a.Payload)
	case 5:
		return f.time(&a.Deadline)
	}
	return nil
}

func appendCondition(b []byte, c *Condition) []byte {
	b = appendString(b, 1, c.Type)
	b = appendString(b, 2, string(c.Status))
	b = appendString(b, 3, string(c.Reason))
	b = appendString(b, 4, c.Message)
	b = appendTime(b, 5, c.LastTransitionTime)
	return appendUint(b, 6, c.ObservedGeneration)
}

func (c *Condition) parse(f field) error {
	switch f.number {
	case 1:
		return parseWord(f, &c.Type)
	case 2:
		return parseWord(f, &c.Status)
	case 3:
		return parseWord(f, &c.Reason)
	case 4:
		return parseWord(f, &c.Message)
	case 5:
		return f.time(&c.LastTransitionTime)
	case 6:
		return f.uint(&c.ObservedGeneration)
	}
	return nil
}

func appendTransition(b []byte, t *Transition) []byte {
	b = appendTime(b, 1, t.At)
	b = appendString(b, 2, string(t.Phase))
	b = appendString(b, 3, string(t.Reason))
	b = appendString(b, 4, t.Message)
	b = appendUint(b, 5, t.Generation)
	return appendInt(b, 6, int64(t.Took))
}

func (t *Transition) parse(f field) error {
	switch f.number {
	case 1:
		return f.time(&t.At)
	case 2:
		return parseWord(f, &t.Phase)
	case 3:
		return parseWord(f, &t.Reason)
	case 4:
		return parseWord(f, &t.Message)
	case 5:
		return f.uint(&t.Generation)
	case 6:
		return parseInt(f, &t.Took)
	}
	return nil
}
