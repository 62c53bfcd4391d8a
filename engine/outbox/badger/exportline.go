package badger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

// An export is NDJSON: a head, one line a resource by key, and an end. It is for
// people and other programs; a backup is smaller, exact and quicker.

const (
	exportKind   = "pawl-export"
	exportFormat = 1
)

// ExportHead is the first line of an export.
type ExportHead struct {
	Kind     string    `json:"kind"` // exportKind
	Format   int       `json:"format"`
	Epoch    string    `json:"epoch"`
	Revision uint64    `json:"revision"`
	Made     time.Time `json:"made"`
	Salvaged bool      `json:"salvaged,omitempty"` // of a damaged store: something may be missing, or older than it was
}

// ExportEnd is the last line; without it an export was cut off.
type ExportEnd struct {
	Resources int `json:"resources"`         // lines that say what is desired
	Damaged   int `json:"damaged,omitempty"` // lines that say what could not be read
}

// exportLine is one resource. Payload is there where its bytes are JSON as this
// program writes it, so that they come back as they were; PayloadBase64 elsewhere.
type exportLine struct {
	Sink string `json:"sink"`
	Key  string `json:"key"`

	Generation    uint64                `json:"generation,omitempty"`
	Payload       json.RawMessage       `json:"payload,omitempty"`
	PayloadBase64 []byte                `json:"payloadBase64,omitempty"`
	Tombstone     bool                  `json:"tombstone,omitempty"`
	Gone          bool                  `json:"gone,omitempty"`
	GoneUntil     time.Time             `json:"goneUntil,omitzero"`
	Conflict      record.ConflictPolicy `json:"conflictPolicy,omitempty"`
	Deletion      record.DeletionPolicy `json:"deletionPolicy,omitempty"`
	Suspend       bool                  `json:"suspend,omitempty"`
	Owner         string                `json:"owner,omitempty"`
	Order         *exportOrder          `json:"order,omitempty"`
	PutAt         time.Time             `json:"putAt,omitzero"`
	WaitingSince  time.Time             `json:"waitingSince,omitzero"`
	Retry         *exportRetry          `json:"retry,omitempty"`

	IdempotencyKey string           `json:"idempotencyKey,omitempty"`
	Direction      record.Direction `json:"direction,omitempty"`
	Origin         record.Origin    `json:"origin,omitempty"`
	SourceHash     []byte           `json:"sourceHash,omitempty"`

	Status  *exportStatus `json:"status,omitempty"`
	Damaged string        `json:"damaged,omitempty"` // what could not be read, and why
}

type exportOrder struct {
	Source string `json:"source,omitempty"`
	Epoch  string `json:"epoch,omitempty"`
	Number uint64 `json:"number,omitempty"`
}

// exportRetry is a record.Retry; durations are nanoseconds.
type exportRetry struct {
	Base        time.Duration `json:"base,omitempty"`
	Max         time.Duration `json:"max,omitempty"`
	MaxAttempts int           `json:"maxAttempts,omitempty"`
	Stall       time.Duration `json:"stall,omitempty"`
}

// exportStatus is what is known of a resource: some of it to read, and all of it
// encoded as in the store, which is what an import goes by.
type exportStatus struct {
	Phase      record.Phase  `json:"phase,omitempty"`
	Reason     record.Reason `json:"reason,omitempty"`
	Message    string        `json:"message,omitempty"`
	Generation uint64        `json:"generation,omitempty"`
	Acked      uint64        `json:"ackedGeneration,omitempty"`
	UpdatedAt  time.Time     `json:"updatedAt,omitzero"`
	Encoded    []byte        `json:"encoded"`
}

func lineOf(key record.Key, rec *outbox.Record, status bool) *exportLine {
	d := &rec.Desired
	l := &exportLine{
		Sink: key.Sink, Key: key.Name, Generation: d.Generation, Tombstone: d.Tombstone, Gone: d.Gone, GoneUntil: d.GoneUntil,
		Conflict: d.Conflict, Deletion: d.Deletion, Suspend: d.Suspend, Owner: d.Owner, PutAt: d.PutAt, WaitingSince: d.WaitingSince,
		IdempotencyKey: d.IdempotencyKey, Direction: d.Direction, Origin: d.Origin,
	}
	if h := d.SourceHash; !h.IsZero() {
		l.SourceHash = h[:]
	}
	if r := exportRetry(d.Retry); r != (exportRetry{}) {
		l.Retry = &r
	}
	if o := d.Order; o != (record.Order{}) {
		l.Order = &exportOrder{Source: o.Source, Epoch: o.Epoch, Number: o.Number}
	}
	if isPlainJSON(d.Payload) {
		l.Payload = d.Payload
	} else if len(d.Payload) > 0 {
		l.PayloadBase64 = d.Payload
	}
	if encoded := record.AppendStatus(nil, &rec.Status); status && len(encoded) > 0 {
		st := &rec.Status
		l.Status = &exportStatus{Phase: st.Phase, Reason: st.Reason, Message: st.Message, Generation: st.Generation,
			UpdatedAt: st.UpdatedAt, Encoded: encoded}
		if st.Acked != nil {
			l.Status.Acked = st.Acked.Generation
		}
	}
	return l
}

// isPlainJSON reports whether payload comes back byte by byte from a line. "null" reads
// as no payload at all.
func isPlainJSON(payload []byte) bool {
	var b bytes.Buffer
	return json.Compact(&b, payload) == nil && bytes.Equal(b.Bytes(), payload) && string(payload) != "null"
}

// record is what the line says; its generation is 0 where nothing is desired.
func (l *exportLine) record() (key record.Key, rec outbox.Record, err error) {
	key = record.Key{Sink: l.Sink, Name: l.Key}
	if err := key.Validate(); err != nil {
		return key, rec, err
	}
	d := record.Desired{
		Generation: l.Generation, Tombstone: l.Tombstone, Gone: l.Gone, GoneUntil: l.GoneUntil, Payload: l.Payload, Conflict: l.Conflict,
		Deletion: l.Deletion, Suspend: l.Suspend, Owner: l.Owner, PutAt: l.PutAt, WaitingSince: l.WaitingSince,
		IdempotencyKey: l.IdempotencyKey, Direction: l.Direction, Origin: l.Origin,
	}
	if r := l.Retry; r != nil {
		d.Retry = record.Retry(*r)
	}
	if n := len(l.SourceHash); n != 0 && n != len(d.SourceHash) {
		return key, rec, fmt.Errorf("its sourceHash has %d bytes instead of %d", n, len(d.SourceHash))
	}
	copy(d.SourceHash[:], l.SourceHash)
	if l.Payload == nil {
		d.Payload = l.PayloadBase64
	}
	if d.Generation > 0 && !d.Tombstone && !d.Gone {
		d.Hash = record.HashOf(d.Payload)
	}
	if o := l.Order; o != nil {
		d.Order = record.Order{Source: o.Source, Epoch: o.Epoch, Number: o.Number}
	}
	if err := errors.Join(d.Conflict.Validate(), d.Deletion.Validate(), d.Direction.Validate(), d.Retry.Validate(), record.ValidateIdempotencyKey(d.IdempotencyKey)); err != nil {
		return key, rec, err
	}
	switch exists := d.Payload != nil || d.Tombstone || d.Gone; {
	case exists && d.Generation == 0:
		return key, rec, errors.New("it has no generation")
	case l.Payload != nil && l.PayloadBase64 != nil, d.Payload != nil && (d.Tombstone || d.Gone):
		return key, rec, errors.New("it is more than one of a payload, a tombstone and gone")
	}
	rec.Desired = d
	if l.Status != nil {
		if rec.Status, err = record.ParseStatus(l.Status.Encoded); err != nil {
			return key, rec, fmt.Errorf("its status: %w", err)
		}
	}
	return key, rec, nil
}
