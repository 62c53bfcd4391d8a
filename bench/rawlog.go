package main

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"sync"
	"syscall"
)

// rawLog is the limit that the store is measured against: records appended to
// one file, one fdatasync for all callers that wait at the time.
type rawLog struct {
	file *os.File

	mu      sync.Mutex
	waiting *rawBatch
	kick    chan struct{}
	done    chan struct{}
}

type rawBatch struct {
	buf  []byte
	done chan struct{}
	err  error
}

func newRawBatch() *rawBatch { return &rawBatch{done: make(chan struct{})} }

func openRawLog(path string) (*rawLog, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	l := &rawLog{file: f, waiting: newRawBatch(), kick: make(chan struct{}, 1), done: make(chan struct{})}
	go l.write()
	return l, nil
}

// put appends a record and returns when it is on disk.
func (l *rawLog) put(key, value []byte) error {
	l.mu.Lock()
	b := l.waiting
	b.buf = binary.AppendUvarint(b.buf, uint64(len(key)))
	b.buf = append(b.buf, key...)
	b.buf = binary.AppendUvarint(b.buf, uint64(len(value)))
	at := len(b.buf)
	b.buf = append(b.buf, value...)
	b.buf = binary.LittleEndian.AppendUint32(b.buf, crc32.Checksum(b.buf[at:], castagnoli))
	l.mu.Unlock()
	select {
	case l.kick <- struct{}{}:
	default:
	}
	<-b.done
	return b.err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (l *rawLog) write() {
	defer close(l.done)
	for range l.kick {
		l.mu.Lock()
		b := l.waiting
		l.waiting = newRawBatch()
		l.mu.Unlock()
		if len(b.buf) == 0 {
			continue
		}
		_, b.err = l.file.Write(b.buf)
		if b.err == nil {
			b.err = syscall.Fdatasync(int(l.file.Fd()))
		}
		close(b.done)
	}
}

func (l *rawLog) close() error {
	close(l.kick)
	<-l.done
	return l.file.Close()
}
