package badger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// mark is the small file that says how far the store has come, so that one
// which lost its tail is found out. It has four slots of 512 bytes, each pair
// written in turns, so that a torn write leaves the other one:
//
//	0, 1  revisions claimed: none above it was ever given out; fsynced
//	2, 3  revision committed: all up to it were durable when it was written;
//	      not fsynced, for which it may be behind after a power cut, and never
//	      ahead
//
// A slot is a magic (7 bytes), the format number (1 byte), a counter, the
// revision (8 bytes each) and a CRC-32C of these (4 bytes), little endian; the
// rest is zero.
type mark struct {
	mu        sync.Mutex
	file      *os.File
	claimed   slotPair
	committed slotPair
}

type slotPair struct {
	first    int64 // slot number
	counter  uint64
	revision uint64
}

const (
	markMagic = "PAWLMRK"
	markName  = "mark"
	slotBytes = 512
	slotUsed  = 28
)

// errMark says that the file is there and neither slot of a pair can be read.
var errMark = errors.New("the file is damaged")

// createMark replaces the file.
func createMark(dir string, claimed, committed uint64) (*mark, error) {
	path := filepath.Join(dir, markName)
	b := make([]byte, 4*slotBytes)
	putSlot(b, 1, claimed)
	putSlot(b[2*slotBytes:], 1, committed)
	if err := writeFile(path, b); err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return openMark(dir)
}

// openMark returns fs.ErrNotExist where there is none, errMark where it is
// damaged and outbox.ErrFormat where a newer program wrote it.
func openMark(dir string) (*mark, error) {
	path := filepath.Join(dir, markName)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	m := &mark{file: f}
	if m.claimed, err = readPair(f, 0); err == nil {
		m.committed, err = readPair(f, 2)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", path, err), f.Close())
	}
	return m, nil
}

func putSlot(b []byte, counter, revision uint64) {
	b[copy(b, markMagic)] = formatNumber
	binary.LittleEndian.PutUint64(b[8:], counter)
	binary.LittleEndian.PutUint64(b[16:], revision)
	binary.LittleEndian.PutUint32(b[24:], crc32.Checksum(b[:24], castagnoli))
}

func readPair(f *os.File, first int64) (slotPair, error) {
	p := slotPair{first: first}
	newer := byte(0)
	for slot := first; slot < first+2; slot++ {
		var b [slotUsed]byte
		if _, err := f.ReadAt(b[:], slot*slotBytes); err != nil {
			continue
		}
		if string(b[:7]) != markMagic {
			continue
		}
		if b[7] > formatNumber {
			newer = b[7] // what else stands there is unknown
			continue
		}
		counter := binary.LittleEndian.Uint64(b[8:])
		if crc32.Checksum(b[:24], castagnoli) == binary.LittleEndian.Uint32(b[24:]) &&
			counter > p.counter {
			p.counter, p.revision = counter, binary.LittleEndian.Uint64(b[16:])
		}
	}
	switch {
	case p.counter > 0:
		return p, nil
	case newer > 0:
		return p, errNewer(int(newer), formatNumber)
	default:
		return p, errMark
	}
}

func (m *mark) put(p *slotPair, revision uint64) error {
	var b [slotUsed]byte
	putSlot(b[:], p.counter+1, revision)
	slot := p.first + int64((p.counter)%2)
	if _, err := m.file.WriteAt(b[:], slot*slotBytes); err != nil {
		return fmt.Errorf("write %s: %w", m.file.Name(), err)
	}
	p.counter, p.revision = p.counter+1, revision
	return nil
}

// claim makes durable that revisions up to the given one may be given out.
func (m *mark) claim(revision uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.put(&m.claimed, revision); err != nil {
		return err
	}
	return m.file.Sync()
}

// commit notes that all up to revision is durable. It is called after it is.
func (m *mark) commit(revision uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.put(&m.committed, revision)
}

// close writes the exact figures.
func (m *mark) close(last, committed uint64) error {
	return errors.Join(m.commit(committed), m.claim(last), m.file.Close())
}

// writeFile replaces path durably: whole, or not at all.
func writeFile(path string, b []byte) error {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
