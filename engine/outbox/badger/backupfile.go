package badger

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"time"
)

// A backup is a stream: a magic, then frames. Numbers are little endian.
//
//	magic    8 bytes  backupMagic
//	frames:
//	  type     1 byte   frameHead, frameItems or frameEnd
//	  length   4 bytes  of the body
//	  checksum 4 bytes  CRC-32C of type, length and body
//	  body
//
// The first frame is the head, the last one the end; a stream without an end was
// cut off. Head and end are JSON. Between them are items by key, each key once;
// docs/store-format.md has their bytes.
const (
	backupMagic  = "PAWLBAK1"
	backupFormat = 1

	frameHead  = 'H'
	frameItems = 'I'
	frameEnd   = 'E'

	backupFrameHeader = 9
	// itemsFrameBytes is where a frame of items ends and the next one begins.
	itemsFrameBytes = 256 << 10
	// maxBackupFrame is more than any frame has: an item is some MiB at most.
	maxBackupFrame = 64 << 20
)

// What an item is.
const (
	itemRecord  byte = iota // a key with what stands below it
	itemKept                // a key alone: nothing changed since the backup that this one goes on from
	itemDamaged             // a key whose value could not be read as the backup was made
)

// BackupHead says what a backup holds; it stands at its start.
type BackupHead struct {
	Format      int       `json:"format"`
	StoreFormat int       `json:"storeFormat"`
	ID          string    `json:"id"`                 // random
	Epoch       string    `json:"epoch"`              // of the store; see outbox.Info
	Revision    uint64    `json:"revision"`           // it holds all changes up to this one, and none above
	Version     uint64    `json:"version"`            // the same in Badger's own numbers, for an increment
	Since       uint64    `json:"since,omitempty"`    // of an increment: changes up to here are left out
	Increment   bool      `json:"increment,omitzero"` // it says nothing without the backups before it
	Made        time.Time `json:"made"`
	Key         string    `json:"key,omitempty"` // fingerprint of the key that items are sealed with
}

// BackupEnd is the sum of a backup; it stands at its end.
type BackupEnd struct {
	Items     int    `json:"items"`     // keys, those included that are kept
	Resources int    `json:"resources"` // of them, those of desired states
	Records   int    `json:"records"`   // of the keys, those whose value stands in it
	Damaged   int    `json:"damaged,omitempty"`
	Bytes     int64  `json:"bytes"` // before the end
	SHA256    string `json:"sha256"`
}

// item is one key of a backup, and what Badger has below it.
type item struct {
	what    byte
	key     []byte
	meta    byte   // Badger's UserMeta
	expires uint64 // and ExpiresAt
	value   []byte // sealed
}

// backupWriter writes a backup. A frame is whole or not there at all.
type backupWriter struct {
	to   io.Writer
	sum  hash.Hash
	box  *box // nil: items are written as they are
	end  BackupEnd
	body []byte // items that wait for their frame
	last []byte // key of the newest of them
}

func newBackupWriter(to io.Writer, head BackupHead, b *box) (*backupWriter, error) {
	w := &backupWriter{to: to, sum: sha256.New(), box: b}
	if err := w.write([]byte(backupMagic)); err != nil {
		return nil, err
	}
	return w, w.document(frameHead, head)
}

func (w *backupWriter) write(b []byte) error {
	w.sum.Write(b)
	n, err := w.to.Write(b)
	w.end.Bytes += int64(n)
	return err
}

func (w *backupWriter) document(kind byte, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.frame(kind, body)
}

func (w *backupWriter) frame(kind byte, body []byte) error {
	head := make([]byte, backupFrameHeader)
	head[0] = kind
	binary.LittleEndian.PutUint32(head[1:], uint32(len(body)))
	binary.LittleEndian.PutUint32(head[5:], backupSum(head[:5], body))
	if err := w.write(head); err != nil {
		return err
	}
	return w.write(body)
}

func backupSum(head, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, body)
}

func (w *backupWriter) item(it *item) error {
	w.end.count(it)
	w.body = it.appendTo(w.body, w.last)
	w.last = append(w.last[:0], it.key...)
	if len(w.body) < itemsFrameBytes {
		return nil
	}
	return w.flush()
}

func (w *backupWriter) flush() error {
	body := w.body
	w.body, w.last = w.body[:0], w.last[:0]
	if w.box != nil {
		body = w.box.seal(nil, body, placeOf(w.end.Bytes))
	}
	return w.frame(frameItems, body)
}

// placeOf ties sealed items to their place in the backup.
func placeOf(offset int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(offset)) }

// finish writes what waits, and the end.
func (w *backupWriter) finish() (BackupEnd, error) {
	if len(w.body) > 0 {
		if err := w.flush(); err != nil {
			return w.end, err
		}
	}
	w.end.SHA256 = hex.EncodeToString(w.sum.Sum(nil))
	end := w.end // Bytes are those before it
	return end, w.document(frameEnd, end)
}

func (e *BackupEnd) count(it *item) {
	e.Items++
	if len(it.key) > 0 && it.key[0] == kindDesired {
		e.Resources++
	}
	switch it.what {
	case itemRecord:
		e.Records++
	case itemDamaged:
		e.Damaged++
	}
}

// appendTo writes it behind an item of the same frame whose key is last.
func (it *item) appendTo(b, last []byte) []byte {
	shared := 0
	for shared < min(len(last), len(it.key)) && last[shared] == it.key[shared] {
		shared++
	}
	b = binary.AppendUvarint(append(b, it.what), uint64(shared))
	b = appendBytes(b, it.key[shared:])
	if it.what == itemKept {
		return b
	}
	b = binary.AppendUvarint(append(b, it.meta), it.expires)
	return appendBytes(b, it.value)
}

// parseItem reads what appendTo wrote. What it returns shares r's memory, but for
// the key.
func parseItem(r *reader, last []byte) (it item, err error) {
	it.what = r.byte()
	shared := r.uvarint()
	suffix := r.bytes()
	if shared > uint64(len(last)) || it.what > itemDamaged {
		r.failed = true
	}
	if r.failed {
		return it, errBadItem
	}
	if it.key = append(append(make([]byte, 0, int(shared)+len(suffix)), last[:shared]...), suffix...); !isContent(it.key) {
		return it, fmt.Errorf("%w: the key %q is none of ours", ErrBackup, it.key)
	}
	if it.what != itemKept {
		it.meta, it.expires, it.value = r.byte(), r.uvarint(), r.bytes()
	}
	if r.failed {
		return it, errBadItem
	}
	return it, nil
}

// isContent reports whether a key is one that a backup may hold: of a resource, or of a
// document of the engine.
func isContent(key []byte) bool {
	if name, ok := bytes.CutPrefix(key, []byte(docUser)); ok {
		return string(name) != backupMark
	}
	_, err := parseKey(key)
	return err == nil && (key[0] == kindDesired || key[0] == kindStatus)
}

var errBadItem = fmt.Errorf("%w: an item is cut off", ErrBackup)
