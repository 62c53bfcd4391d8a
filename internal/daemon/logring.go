package daemon

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"sync"
)

// Bounds of what is remembered of the log.
const (
	ringLines     = 1000
	ringBytes     = 512 << 10
	ringLineBytes = 16 << 10
)

// logRing remembers the newest warnings and errors, for a debug bundle.
type logRing struct {
	mu    sync.Mutex
	lines [][]byte // the oldest first
	bytes int
}

// handler remembers what it is given; it is told no secrets.
func (r *logRing) handler() slog.Handler {
	return slog.NewJSONHandler(r, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: durationsAsText})
}

// Write takes one line, as slog's handlers write them.
func (r *logRing) Write(line []byte) (int, error) {
	kept := bytes.Clone(line)
	if len(line) > ringLineBytes {
		kept = fmt.Appendf(nil, "{\"msg\":\"a line of %d bytes is not remembered\"}\n", len(line))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, kept)
	r.bytes += len(kept)
	drop := max(0, len(r.lines)-ringLines)
	for _, old := range r.lines[:drop] {
		r.bytes -= len(old)
	}
	for ; r.bytes > ringBytes; drop++ {
		r.bytes -= len(r.lines[drop])
	}
	r.lines = slices.Delete(r.lines, 0, drop)
	return len(line), nil
}

// all is what is remembered, the oldest first.
func (r *logRing) all() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Join(r.lines, nil)
}
