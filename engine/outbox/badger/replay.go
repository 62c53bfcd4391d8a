package badger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
)

// replayed is what a pass over the journal found.
type replayed struct {
	key      *Key // opens the bodies of frames; nil: they are not sealed
	segments []segment
	frames   int
	reached  uint64 // everything up to here is there
	claimed  uint64 // something that is there says that all up to here was durable
	newest   uint64 // last revision of any whole frame
	problems []string
}

// replay reads the journal in dir and calls fn for its whole frames, in order.
// A frame that is cut off at the end is what a power cut leaves, and no loss:
// its group was never acknowledged. It is one where a later frame, or a later
// segment, says that what is missing had been durable.
//
// A frame whose checksum is right and whose body can't be opened is an error.
//
// applied is what Badger has, so that the journal has to go on from there.
func replay(dir string, key *Key, applied uint64, fn func(*frame) error) (replayed, error) {
	r := replayed{key: key, reached: applied, claimed: applied, newest: applied}
	paths, err := segmentPaths(dir)
	if err != nil {
		return r, fmt.Errorf("read the journal: %w", err)
	}
	for _, path := range paths {
		if err := r.segment(path, fn); err != nil {
			return r, fmt.Errorf("read the journal %s: %w", path, err)
		}
	}
	return r, nil
}

func (r *replayed) segment(path string, fn func(*frame) error) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	defer func() {
		r.segments = append(r.segments, segment{path: path, last: r.newest, size: int64(len(b))})
	}()
	base, n, ok := parseSegment(b)
	if ok {
		r.claimed = max(r.claimed, base)
	} else {
		if len(bytes.Trim(b, "\x00")) > 0 { // else it was never written
			r.problem(path, 0, "the header is damaged")
		}
		if n, ok = firstNonce(b); !ok {
			return nil
		}
	}
	number, _ := segmentNumber(path)
	box := r.key.segmentBox(n, number)
	offset := segmentHeader
	for offset < len(b) {
		f, size, err := parseFrame(b[offset:], n)
		if err != nil {
			next := nextFrame(b, offset, n)
			if next < 0 {
				return nil
			}
			r.problem(path, offset, fmt.Sprintf("%d bytes are no frame, and whole ones follow", next-offset))
			offset = next
			continue
		}
		if err := f.unseal(b[offset:], box); err != nil {
			return fmt.Errorf("at byte %d: %w", offset, err)
		}
		r.frame(&f)
		if err := fn(&f); err != nil {
			return fmt.Errorf("at byte %d: %w", offset, err)
		}
		offset += size
	}
	return nil
}

func (r *replayed) frame(f *frame) {
	r.frames++
	r.claimed = max(r.claimed, f.durable)
	r.newest = max(r.newest, f.last)
	if f.prev <= r.reached {
		r.reached = max(r.reached, f.last)
	}
}

func (r *replayed) problem(path string, offset int, what string) {
	r.problems = append(r.problems, fmt.Sprintf("%s at byte %d: %s", filepath.Base(path), offset, what))
}

func parseSegment(b []byte) (base uint64, n nonce, ok bool) {
	const sum = segmentHeader - 8
	if len(b) < segmentHeader || string(b[:8]) != segmentMagic ||
		crc32.Checksum(b[:sum], castagnoli) != binary.LittleEndian.Uint32(b[sum:]) {
		return 0, n, false
	}
	copy(n[:], b[16:])
	return binary.LittleEndian.Uint64(b[8:]), n, true
}

// firstNonce is for a segment whose header is damaged: its first frame has the
// nonce as well, and it is known where that stands.
func firstNonce(b []byte) (n nonce, ok bool) {
	if len(b) < segmentHeader+frameHeader {
		return n, false
	}
	b = b[segmentHeader:]
	copy(n[:], b[len(frameMagic):])
	_, _, err := parseFrame(b, n)
	return n, err == nil
}
