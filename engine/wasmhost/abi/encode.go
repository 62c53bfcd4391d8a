package abi

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/upstream"
)

// AppendConfigure appends c to b.
func AppendConfigure(b []byte, c *Configure) []byte {
	b = appendString(b, 1, c.Sink)
	b = appendBytes(b, 2, c.Config)
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		size := sizeBytes(1, len(u.Name)) + sizeBytes(2, len(u.Kind)) + sizeBytes(3, len(u.BaseURL))
		b = appendHead(b, 3, size)
		b = appendString(b, 1, u.Name)
		b = appendString(b, 2, u.Kind)
		b = appendString(b, 3, u.BaseURL)
	}
	return b
}

// AppendRequest appends r to b. timeoutMS is what is left of the call's
// deadline, in milliseconds.
func AppendRequest(b []byte, r *sink.Request, timeoutMS uint32) []byte {
	b = appendString(b, 1, r.Key.Sink)
	b = appendString(b, 2, r.Key.Name)
	b = appendUint(b, 3, r.Generation)
	b = appendBytes(b, 4, r.Payload)
	b = appendHash(b, 5, &r.Hash)
	b = appendString(b, 6, r.IdempotencyKey)
	if a := r.Acked; a != nil {
		b = appendHead(b, 7, sizeAcked(a))
		b = appendAcked(b, a)
	}
	for i := range r.Attempted {
		a := &r.Attempted[i]
		b = appendHead(b, 8, sizeAttempt(a))
		b = appendHash(b, 1, &a.Hash)
		b = appendBytes(b, 2, a.Payload)
		b = appendBool(b, 3, a.Payload != nil)
	}
	b = appendUint(b, 9, conflictNumber(r.Conflict))
	b = appendUint(b, 10, uint64(r.Mode))
	b = appendBool(b, 11, r.Force)
	b = appendUint(b, 12, uint64(timeoutMS))
	b = appendString(b, 15, r.UID)
	if run := r.Run; run != nil {
		b = appendHead(b, 16, sizeRun(run))
		b = appendRun(b, run)
	}
	return appendString(b, 17, r.Epoch)
}

// AppendBatchRequest appends a BatchRequest with the items rs to b.
func AppendBatchRequest(b []byte, rs []*sink.Request, timeoutMS uint32) []byte {
	size := 0
	for _, r := range rs {
		size += sizeMessage(1, sizeRequest(r, timeoutMS))
	}
	b = slices.Grow(b, size) // a batch has megabytes, which are not to be copied as they grow
	for _, r := range rs {
		b = appendHead(b, 1, sizeRequest(r, timeoutMS))
		b = AppendRequest(b, r, timeoutMS)
	}
	return b
}

// AppendHTTPResponse appends the answer r, or where r is nil the failure f, to b.
func AppendHTTPResponse(b []byte, r *upstream.Response, f *upstream.Failure) []byte {
	if r == nil {
		b = appendUint(b, 5, uint64(f.Kind))
		b = appendString(b, 6, f.Message)
		return appendBool(b, 7, f.MaybeSent)
	}
	b = appendUint(b, 1, uint64(r.Status))
	b = appendFields(b, 2, r.Header)
	b = appendBytes(b, 3, r.Body)
	return appendFields(b, 4, r.Trailer)
}

func appendAcked(b []byte, a *record.Acked) []byte {
	b = appendUint(b, 1, a.Generation)
	b = appendHash(b, 2, &a.Hash)
	b = appendString(b, 3, a.Ref)
	b = appendString(b, 4, a.AsFound)
	b = appendString(b, 5, a.UID)
	b = appendString(b, 6, a.Cursor)
	b = appendBytes(b, 7, a.Adapter)
	b = appendBytes(b, 8, a.Payload)
	return appendBool(b, 9, a.Payload != nil)
}

func sizeAcked(a *record.Acked) int {
	return sizeUint(1, a.Generation) + sizeHash(2, &a.Hash) + sizeBytes(3, len(a.Ref)) +
		sizeBytes(4, len(a.AsFound)) + sizeBytes(5, len(a.UID)) + sizeBytes(6, len(a.Cursor)) +
		sizeBytes(7, len(a.Adapter)) + sizeBytes(8, len(a.Payload)) + sizeBool(9, a.Payload != nil)
}

func appendRun(b []byte, r *sink.Run) []byte {
	b = appendString(b, 1, r.ID)
	b = appendUint(b, 2, uint64(r.Step))
	for _, l := range r.Locks {
		b = append(appendHead(b, 3, len(l)), l...)
	}
	b = appendBool(b, 4, r.Held)
	if i := r.Before; i != nil {
		b = appendHead(b, 5, sizeImage(i))
		b = appendBool(b, 1, i.Exists)
		b = appendString(b, 2, i.CID)
		b = appendString(b, 3, i.UID)
		b = appendBytes(b, 4, i.Content)
	}
	return b
}

func sizeRun(r *sink.Run) int {
	n := sizeBytes(1, len(r.ID)) + sizeUint(2, uint64(r.Step)) + sizeBool(4, r.Held)
	for _, l := range r.Locks {
		n += sizeMessage(3, len(l))
	}
	if r.Before != nil {
		n += sizeMessage(5, sizeImage(r.Before))
	}
	return n
}

func sizeImage(i *sink.Image) int {
	return sizeBool(1, i.Exists) + sizeBytes(2, len(i.CID)) + sizeBytes(3, len(i.UID)) + sizeBytes(4, len(i.Content))
}

func sizeAttempt(a *record.Attempt) int {
	return sizeHash(1, &a.Hash) + sizeBytes(2, len(a.Payload)) + sizeBool(3, a.Payload != nil)
}

func sizeRequest(r *sink.Request, timeoutMS uint32) int {
	n := sizeBytes(1, len(r.Key.Sink)) + sizeBytes(2, len(r.Key.Name)) + sizeUint(3, r.Generation) +
		sizeBytes(4, len(r.Payload)) + sizeHash(5, &r.Hash) + sizeBytes(6, len(r.IdempotencyKey))
	if a := r.Acked; a != nil {
		n += sizeMessage(7, sizeAcked(a))
	}
	for i := range r.Attempted {
		n += sizeMessage(8, sizeAttempt(&r.Attempted[i]))
	}
	if r.Run != nil {
		n += sizeMessage(16, sizeRun(r.Run))
	}
	return n + sizeUint(9, conflictNumber(r.Conflict)) + sizeUint(10, uint64(r.Mode)) + sizeBool(11, r.Force) +
		sizeUint(12, uint64(timeoutMS)) + sizeBytes(15, len(r.UID)) + sizeBytes(17, len(r.Epoch))
}

func conflictNumber(p record.ConflictPolicy) uint64 {
	switch p {
	case record.SourceWins:
		return 1
	case record.TargetWins:
		return 2
	case record.ReportOnly:
		return 3
	}
	return 0
}

func appendFields(b []byte, num protowire.Number, fs []upstream.Field) []byte {
	for i := range fs {
		f := &fs[i]
		b = appendHead(b, num, sizeBytes(1, len(f.Name))+sizeBytes(2, len(f.Value)))
		b = appendString(b, 1, f.Name)
		b = appendString(b, 2, f.Value)
	}
	return b
}

// The helpers below write nothing for a default value; appendHead does, since
// a message that is present differs from one that is absent.

func appendHead(b []byte, num protowire.Number, size int) []byte {
	b = protowire.AppendTag(b, num, protowire.BytesType)
	return protowire.AppendVarint(b, uint64(size))
}

func appendString(b []byte, num protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return append(appendHead(b, num, len(s)), s...)
}

func appendBytes(b []byte, num protowire.Number, s []byte) []byte {
	if len(s) == 0 {
		return b
	}
	return append(appendHead(b, num, len(s)), s...)
}

func appendHash(b []byte, num protowire.Number, h *record.Hash) []byte {
	if h.IsZero() {
		return b
	}
	return append(appendHead(b, num, len(h)), h[:]...)
}

func appendUint(b []byte, num protowire.Number, n uint64) []byte {
	if n == 0 {
		return b
	}
	b = protowire.AppendTag(b, num, protowire.VarintType)
	return protowire.AppendVarint(b, n)
}

func appendBool(b []byte, num protowire.Number, v bool) []byte {
	if !v {
		return b
	}
	return appendUint(b, num, 1)
}

func sizeMessage(num protowire.Number, n int) int {
	return protowire.SizeTag(num) + protowire.SizeBytes(n)
}

func sizeBytes(num protowire.Number, n int) int {
	if n == 0 {
		return 0
	}
	return sizeMessage(num, n)
}

func sizeHash(num protowire.Number, h *record.Hash) int {
	if h.IsZero() {
		return 0
	}
	return sizeMessage(num, len(h))
}

func sizeUint(num protowire.Number, n uint64) int {
	if n == 0 {
		return 0
	}
	return protowire.SizeTag(num) + protowire.SizeVarint(n)
}

func sizeBool(num protowire.Number, v bool) int {
	if !v {
		return 0
	}
	return protowire.SizeTag(num) + 1
}
