package badger

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pawlsync/pawl/engine/record"
)

// journal is what makes a group durable: one write and one fdatasync at the end
// of a file. Badger gets the same changes a little later, many groups at once,
// and the journal is cut behind it.
//
// It is a folder of segments, NNNNNNNN.log, numbered upwards. A segment starts
// with a header, then come frames.
//
//	magic    8 bytes  segmentMagic
//	base     8 bytes  last revision before this segment; durable
//	nonce    8 bytes  random; in every frame
//	checksum 4 bytes  CRC-32C of the 24 bytes before
//	         4 bytes  zero
const (
	segmentMagic  = "PAWLJRN1"
	segmentHeader = 32
	segmentSuffix = ".log"
	// maxSegmentBytes is where the next segment starts.
	maxSegmentBytes = 32 << 20
)

// errBroken is why commits fail after an fsync failed: what is on disk is
// unknown then, and a second fsync would lie.
var errBroken = errors.New("the journal could not be written; restart to go on from what is on disk")

type journal struct {
	dir  string
	key  *Key                 // bodies of frames are sealed with keys of it; nil: they are not
	sync func(*os.File) error // fdatasync
	buf  []byte

	mu       sync.Mutex // guards the rest; the writer holds it while it writes
	file     *os.File
	nonce    nonce // of the current segment
	box      *box  // of the current segment; nil: bodies are not sealed
	number   uint64
	size     int64
	prev     uint64 // last revision written
	durable  uint64 // last revision fsynced
	broken   error
	segments []segment // older ones, until they are applied
	total    int64     // bytes in all segments
}

type segment struct {
	path string
	last uint64 // last revision in it
	size int64
}

// newJournal starts with the segment after the given one. All up to base is in
// Badger.
func newJournal(dir string, key *Key, base, segment uint64) (*journal, error) {
	j := &journal{dir: dir, key: key, sync: fdatasync, prev: base, durable: base, number: segment}
	return j, j.rotate()
}

// removeSegments returns the number of the last one.
func removeSegments(list []segment) (last uint64, err error) {
	for _, s := range list {
		n, _ := segmentNumber(s.path)
		last = max(last, n)
		err = errors.Join(err, os.Remove(s.path))
	}
	return last, err
}

// rotate starts the next segment. The caller holds mu, or is alone.
func (j *journal) rotate() error {
	path := filepath.Join(j.dir, fmt.Sprintf("%08d%s", j.number+1, segmentSuffix))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("start a journal: %w", err)
	}
	var n nonce
	rand.Read(n[:]) // never fails
	head := binary.LittleEndian.AppendUint64([]byte(segmentMagic), j.durable)
	head = append(head, n[:]...)
	head = binary.LittleEndian.AppendUint32(head, crc32.Checksum(head, castagnoli))
	head = binary.LittleEndian.AppendUint32(head, 0)
	_, err = f.Write(head)
	err = errors.Join(err, f.Sync(), syncDir(j.dir))
	if err != nil {
		return errors.Join(fmt.Errorf("start a journal: %w", err), f.Close(), os.Remove(path))
	}
	if j.file != nil {
		j.segments = append(j.segments, segment{path: j.file.Name(), last: j.prev, size: j.size})
		err = j.file.Close()
	}
	j.number++
	j.file, j.size, j.nonce, j.box = f, segmentHeader, n, j.key.segmentBox(n, j.number)
	j.total += segmentHeader
	return err
}

// append makes entries durable. It leaves no trace of them when it fails.
func (j *journal) append(keys []record.Key, entries []*entry) (written int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return 0, j.broken
	}
	if j.size >= maxSegmentBytes {
		if err := j.rotate(); err != nil {
			return 0, err
		}
	}
	start, prev := j.size, j.prev
	if err := j.write(keys, entries); err != nil {
		return 0, j.undo(start, prev, err)
	}
	if err := j.sync(j.file); err != nil {
		j.broken = fmt.Errorf("%w: %w", errBroken, err)
		return 0, j.broken
	}
	j.durable = j.prev
	return int(j.size - start), nil
}

func (j *journal) write(keys []record.Key, entries []*entry) error {
	room := make([]byte, frameHeader)
	b := append(j.buf[:0], room...)
	count := uint32(0)
	for i, e := range entries {
		b = e.appendTo(b, keys[i])
		count++
		if len(b) < maxFrameBytes && i < len(entries)-1 {
			continue
		}
		f := frame{prev: j.prev, last: e.revision, durable: j.durable, count: count}
		b = f.finish(b, j.nonce, j.box)
		n, err := j.file.WriteAt(b, j.size)
		j.size += int64(n)
		j.total += int64(n)
		if err != nil {
			return fmt.Errorf("write the journal: %w", err)
		}
		j.prev = e.revision
		b, count = append(b[:0], room...), 0
	}
	if cap(b) <= 2*maxFrameBytes {
		j.buf = b
	}
	return nil
}

// undo takes a failed write back.
func (j *journal) undo(start int64, prev uint64, cause error) error {
	j.total -= j.size - start
	j.size, j.prev = start, prev
	if err := errors.Join(j.file.Truncate(start), j.sync(j.file)); err != nil {
		j.broken = fmt.Errorf("%w: %w", errBroken, errors.Join(cause, err))
		return j.broken
	}
	return cause
}

// cut removes the segments that hold nothing above applied. With all, the
// current one makes room for an empty one first.
func (j *journal) cut(applied uint64, all bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if all && j.size > segmentHeader && j.prev <= applied && j.broken == nil {
		if err := j.rotate(); err != nil {
			return err
		}
	}
	var errs []error
	j.segments = slices.DeleteFunc(j.segments, func(s segment) bool {
		if s.last > applied {
			return false
		}
		if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
			return false
		}
		j.total -= s.size
		return true
	})
	return errors.Join(errs...)
}

func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file.Close()
}

func segmentNumber(path string) (uint64, bool) {
	name, ok := strings.CutSuffix(filepath.Base(path), segmentSuffix)
	n, err := strconv.ParseUint(name, 10, 64)
	return n, ok && err == nil
}

// segmentPaths returns the segments in dir, oldest first.
func segmentPaths(dir string) ([]string, error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range list {
		if _, ok := segmentNumber(e.Name()); ok {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	slices.SortFunc(paths, func(a, b string) int {
		x, _ := segmentNumber(a)
		y, _ := segmentNumber(b)
		return int(int64(x) - int64(y))
	})
	return paths, nil
}
