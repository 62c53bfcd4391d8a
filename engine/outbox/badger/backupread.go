package badger

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
)

// ErrBackup is wrapped by the errors about what a backup holds, or would go on from.
var ErrBackup = errors.New("the backup can't be used")

var errNoBackup = fmt.Errorf("%w: it is none of pawl's, or its start is damaged", ErrBackup)

// backupReader reads a backup. It returns io.EOF only where all of it was there and
// every checksum was right.
type backupReader struct {
	from *bufio.Reader
	sum  hash.Hash
	head BackupHead
	end  BackupEnd
	box  *box // nil: items stand there as they are, or can't be opened
	read int64
	// opaque: items are sealed and no key is at hand, so that only frames are checked.
	opaque bool
	seen   BackupEnd // counted on the way

	body reader // the frame at hand
	last []byte // key of the newest item
	in   []byte // and of the newest one in this frame
}

// openBackup reads the head. key opens a sealed backup; nil: none is at hand.
func openBackup(from io.Reader, key *Key) (*backupReader, error) {
	r := &backupReader{from: bufio.NewReaderSize(from, 1<<20), sum: sha256.New()}
	if err := r.start(); err != nil {
		return nil, err
	}
	if r.head.Format > backupFormat || r.head.StoreFormat > formatNumber {
		return nil, fmt.Errorf("%w: a newer program made it (format %d, of a store of format %d); use that, or a newer one",
			ErrBackup, r.head.Format, r.head.StoreFormat)
	}
	var err error
	if r.head.Key != "" {
		r.box, err = key.backupBox(&r.head)
	}
	return r, err
}

func (r *backupReader) start() error {
	magic := make([]byte, len(backupMagic))
	if err := r.fill(magic); err != nil || string(magic) != backupMagic {
		return cmp.Or(unlessEnd(err), errNoBackup)
	}
	kind, body, err := r.frame()
	if err == nil && (kind != frameHead || json.Unmarshal(body, &r.head) != nil) {
		err = errNoBackup
	}
	return err
}

// unlessEnd is err where it says more than that the stream ended.
func unlessEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

func (r *backupReader) fill(b []byte) error {
	n, err := io.ReadFull(r.from, b)
	r.sum.Write(b[:n])
	r.read += int64(n)
	return err
}

func (r *backupReader) frame() (kind byte, body []byte, err error) {
	before := r.read
	var head [backupFrameHeader]byte
	if err := r.fill(head[:]); err != nil {
		return 0, nil, r.cutOff(err)
	}
	length := binary.LittleEndian.Uint32(head[1:])
	if length > maxBackupFrame {
		return 0, nil, r.bad(before)
	}
	body = make([]byte, length)
	if err := r.fill(body); err != nil {
		return 0, nil, r.cutOff(err)
	}
	if backupSum(head[:5], body) != binary.LittleEndian.Uint32(head[5:]) {
		return 0, nil, r.bad(before)
	}
	return head[0], body, nil
}

func (r *backupReader) bad(at int64) error {
	return fmt.Errorf("%w: it is damaged at byte %d: what stands there does not match its checksum", ErrBackup, at)
}

func (r *backupReader) cutOff(err error) error {
	if err := unlessEnd(err); err != nil {
		return fmt.Errorf("read the backup: %w", err)
	}
	return fmt.Errorf("%w: it is cut off at byte %d", ErrBackup, r.read)
}

// next returns the next item, valid until the call after; io.EOF: there are no
// more, and all was right.
func (r *backupReader) next() (item, error) {
	for len(r.body.b) == 0 {
		whole := hex.EncodeToString(r.sum.Sum(nil))
		before := r.read
		kind, body, err := r.frame()
		if err != nil {
			return item{}, err
		}
		switch kind {
		case frameEnd:
			return item{}, r.finish(body, whole, before)
		case frameItems:
			if r.opaque {
				continue
			}
			if r.box != nil {
				if body, err = r.box.open(body, placeOf(before)); err != nil {
					return item{}, fmt.Errorf("%w: the items at byte %d were changed, or moved", ErrBackup, before)
				}
			}
			r.body, r.in = reader{b: body}, nil
		default:
			return item{}, fmt.Errorf("%w: there is an unknown frame at byte %d", ErrBackup, before)
		}
	}
	it, err := parseItem(&r.body, r.in)
	if err != nil {
		return it, err
	}
	if r.last != nil && bytes.Compare(it.key, r.last) <= 0 {
		return it, fmt.Errorf("%w: its keys are out of order", ErrBackup)
	}
	r.in, r.last = it.key, it.key
	r.seen.count(&it)
	return it, nil
}

func (r *backupReader) finish(body []byte, whole string, before int64) error {
	if json.Unmarshal(body, &r.end) != nil {
		return r.bad(before)
	}
	if r.opaque {
		r.seen = r.end
	}
	r.seen.SHA256, r.seen.Bytes = whole, before
	if r.end != r.seen {
		return fmt.Errorf("%w: its sums differ from what it holds", ErrBackup)
	}
	if _, err := r.from.ReadByte(); err == nil {
		return fmt.Errorf("%w: something follows its end", ErrBackup)
	}
	return io.EOF
}

// Backup describes a backup that was read to its end.
type Backup struct {
	Head BackupHead
	End  BackupEnd
	// Damaged says of which records the value could not be read as it was made, at
	// most the first 100.
	Damaged []string
}

const maxNamed = 100

// ReadBackupHead reads the start of a backup and says what it holds.
func ReadBackupHead(from io.Reader) (BackupHead, error) {
	r := &backupReader{from: bufio.NewReader(from), sum: sha256.New()}
	err := r.start()
	return r.head, err
}

// VerifyBackup reads a backup to its end and checks all of it; of a sealed one
// without its key the checksums alone. progress, where it is not nil, is told how many records
// and bytes are done.
func VerifyBackup(from io.Reader, key *Key, progress func(records int, bytes int64)) (Backup, error) {
	var b Backup
	r, err := openBackup(from, key)
	if r != nil && key == nil && errors.Is(err, ErrKey) {
		r.opaque, err = true, nil
	}
	if err != nil {
		return b, err
	}
	b.Head = r.head
	for {
		it, err := r.next()
		if errors.Is(err, io.EOF) {
			b.End = r.end
			return b, nil
		}
		if err != nil {
			return b, err
		}
		if it.what == itemRecord {
			if _, _, err := open(it.key, it.value); err != nil {
				return b, fmt.Errorf("%w: %w", ErrBackup, err)
			}
		}
		if it.what == itemDamaged && len(b.Damaged) < maxNamed {
			b.Damaged = append(b.Damaged, nameOf(it.key))
		}
		if progress != nil && r.seen.Items%4096 == 0 {
			progress(r.seen.Records, r.read)
		}
	}
}
