// Package wire reads and writes the few messages of SpiceDB's API that the
// adapter needs (authzed.api.v1, https://buf.build/authzed/api), without
// generated code: that pulls gRPC along, and a guest pays for it by the megabyte.
//
// The fields' numbers are those of core.proto and permission_service.proto. The
// test in the bench module holds every message against the generated types.
package wire

import (
	"errors"

	"github.com/VictoriaMetrics/easyproto"
)

// Row is one relationship.
type Row struct {
	ResourceType, ResourceID, Relation string
	SubjectType, SubjectID             string
	SubjectRelation                    string // "": the subject itself
	Caveat                             string // "": none
	Context                            []byte // of the caveat, as Canonical makes it; empty: none
	Expires                            bool
	ExpiresSeconds                     int64 // since 1970
	ExpiresNanos                       int32
}

// Op is what a write does with a row.
type Op int32

// The operations of a write.
const (
	Create Op = 1 // the row must not exist
	Touch  Op = 2 // create or replace
	Delete Op = 3 // the row need not exist
)

// Update is one row of a write. Of a Delete, caveat and expiration count for nothing.
type Update struct {
	Op  Op
	Row *Row
}

// Filter chooses rows. What is empty chooses all.
type Filter struct {
	ResourceType, ResourceID, ResourceIDPrefix, Relation string
	SubjectType, SubjectID                               string // an ID needs a type
	// SubjectRelation is used where HasSubjectRelation; "" is then the subject itself.
	SubjectRelation    string
	HasSubjectRelation bool
}

// Precondition makes a write depend on what is there.
type Precondition struct {
	MustMatch bool // else no row may match
	Filter    Filter
}

// ErrMalformed is the error of a message that can't be decoded.
var ErrMalformed = errors.New("the server's message can't be decoded")

var pool easyproto.MarshalerPool

// encode returns dst with the message that fill writes.
func encode(dst []byte, fill func(*easyproto.MessageMarshaler)) []byte {
	m := pool.Get()
	fill(m.MessageMarshaler())
	dst = m.Marshal(dst)
	pool.Put(m)
	return dst
}

// AppendWrite appends a WriteRelationshipsRequest. Updates are encoded one by one: a
// marshaler keeps room for all that it ever had at once, a megabyte for a full batch.
func AppendWrite(dst []byte, updates []Update, preconditions []Precondition) []byte {
	for i := range updates {
		dst = encode(dst, func(mm *easyproto.MessageMarshaler) {
			u := mm.AppendMessage(1)
			u.AppendInt32(1, int32(updates[i].Op))
			updates[i].Row.marshal(u.AppendMessage(2), updates[i].Op != Delete)
		})
	}
	return encode(dst, func(mm *easyproto.MessageMarshaler) { marshalPreconditions(mm, 2, preconditions) })
}

// AppendRead appends a ReadRelationshipsRequest that sees every write which was
// acknowledged before it. cursor is that of the last row of the page before, "": the first page.
func AppendRead(dst []byte, f *Filter, limit int, cursor string) []byte {
	return encode(dst, func(mm *easyproto.MessageMarshaler) {
		mm.AppendMessage(1).AppendBool(4, true) // fully consistent
		f.marshal(mm.AppendMessage(2))
		mm.AppendUint32(3, uint32(limit))
		if cursor != "" {
			appendString(mm.AppendMessage(4), 1, cursor)
		}
	})
}

// AppendDelete appends a DeleteRelationshipsRequest for all rows that f chooses.
func AppendDelete(dst []byte, f *Filter) []byte {
	return encode(dst, func(mm *easyproto.MessageMarshaler) { f.marshal(mm.AppendMessage(1)) })
}

func marshalPreconditions(mm *easyproto.MessageMarshaler, field uint32, ps []Precondition) {
	for i := range ps {
		p := mm.AppendMessage(field)
		op := int32(1) // must not match
		if ps[i].MustMatch {
			op = 2
		}
		p.AppendInt32(1, op)
		ps[i].Filter.marshal(p.AppendMessage(2))
	}
}

func appendString(mm *easyproto.MessageMarshaler, field uint32, s string) {
	if s != "" {
		mm.AppendString(field, s)
	}
}

func (f *Filter) marshal(mm *easyproto.MessageMarshaler) {
	appendString(mm, 1, f.ResourceType)
	appendString(mm, 2, f.ResourceID)
	appendString(mm, 3, f.Relation)
	if f.SubjectType != "" {
		s := mm.AppendMessage(4)
		s.AppendString(1, f.SubjectType)
		appendString(s, 2, f.SubjectID)
		if f.HasSubjectRelation {
			appendString(s.AppendMessage(3), 1, f.SubjectRelation)
		}
	}
	appendString(mm, 5, f.ResourceIDPrefix)
}

// marshal writes a Relationship; whole: with caveat and expiration.
func (r *Row) marshal(mm *easyproto.MessageMarshaler, whole bool) {
	object := func(mm *easyproto.MessageMarshaler, kind, id string) {
		appendString(mm, 1, kind)
		appendString(mm, 2, id)
	}
	object(mm.AppendMessage(1), r.ResourceType, r.ResourceID)
	appendString(mm, 2, r.Relation)
	s := mm.AppendMessage(3)
	object(s.AppendMessage(1), r.SubjectType, r.SubjectID)
	appendString(s, 2, r.SubjectRelation)
	if !whole {
		return
	}
	if r.Caveat != "" {
		c := mm.AppendMessage(4)
		c.AppendString(1, r.Caveat)
		if len(r.Context) > 0 {
			c.AppendBytes(2, r.Context)
		}
	}
	if r.Expires {
		at := mm.AppendMessage(5)
		at.AppendInt64(1, r.ExpiresSeconds)
		at.AppendInt32(2, r.ExpiresNanos)
	}
}

// fields calls each for every field of a message, until it returns false.
func fields(src []byte, each func(*easyproto.FieldContext) bool) error {
	var fc easyproto.FieldContext
	for len(src) > 0 {
		var err error
		if src, err = fc.NextField(src); err != nil || !each(&fc) {
			return ErrMalformed
		}
	}
	return nil
}

func readString(fc *easyproto.FieldContext, to *string) bool {
	s, ok := fc.String()
	*to = s
	return ok
}

// into reads an embedded message.
func into(fc *easyproto.FieldContext, each func(*easyproto.FieldContext) bool) bool {
	b, ok := fc.MessageData()
	return ok && fields(b, each) == nil
}

// token reads a ZedToken or a Cursor, which look alike.
func token(fc *easyproto.FieldContext, to *string) bool {
	return into(fc, func(fc *easyproto.FieldContext) bool { return fc.FieldNum != 1 || readString(fc, to) })
}

// ReadRow decodes one ReadRelationshipsResponse: its row and the cursor after it.
// The row's strings share src's memory.
func ReadRow(src []byte) (r Row, cursor string, err error) {
	err = fields(src, func(fc *easyproto.FieldContext) bool {
		switch fc.FieldNum {
		case 2:
			return into(fc, r.field)
		case 3:
			return token(fc, &cursor)
		}
		return true
	})
	return r, cursor, err
}

func (r *Row) field(fc *easyproto.FieldContext) bool {
	switch fc.FieldNum {
	case 1:
		return into(fc, object(&r.ResourceType, &r.ResourceID))
	case 2:
		return readString(fc, &r.Relation)
	case 3:
		return into(fc, func(fc *easyproto.FieldContext) bool {
			switch fc.FieldNum {
			case 1:
				return into(fc, object(&r.SubjectType, &r.SubjectID))
			case 2:
				return readString(fc, &r.SubjectRelation)
			}
			return true
		})
	case 4:
		return into(fc, func(fc *easyproto.FieldContext) bool {
			switch fc.FieldNum {
			case 1:
				return readString(fc, &r.Caveat)
			case 2:
				b, ok := fc.MessageData()
				if ok {
					r.Context, ok = Canonical(b)
				}
				return ok
			}
			return true
		})
	case 5:
		r.Expires = true
		return into(fc, func(fc *easyproto.FieldContext) (ok bool) {
			ok = true
			switch fc.FieldNum {
			case 1:
				r.ExpiresSeconds, ok = fc.Int64()
			case 2:
				r.ExpiresNanos, ok = fc.Int32()
			}
			return ok
		})
	}
	return true
}

func object(kind, id *string) func(*easyproto.FieldContext) bool {
	return func(fc *easyproto.FieldContext) bool {
		switch fc.FieldNum {
		case 1:
			return readString(fc, kind)
		case 2:
			return readString(fc, id)
		}
		return true
	}
}

// ReadToken decodes the answer to a write or to a delete: the ZedToken of its
// revision, and of a delete how many rows went, where the server says so.
func ReadToken(src []byte) (zedToken string, deleted uint64, err error) {
	err = fields(src, func(fc *easyproto.FieldContext) (ok bool) {
		ok = true
		switch fc.FieldNum {
		case 1:
			ok = token(fc, &zedToken)
		case 3:
			deleted, ok = fc.Uint64()
		}
		return ok
	})
	return zedToken, deleted, err
}
