package wasmhost

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxLine is the longest log line of a guest, in bytes; the rest is cut.
const maxLine = 2048

// guestLog writes the lines of a sink's guests, at a bounded rate.
type guestLog struct {
	log  *slog.Logger
	lost atomic.Int64

	mu    sync.Mutex
	lines tokens
	bytes tokens
	told  int64 // of lost, how many were told of
}

// tokens are spent by what is logged.
type tokens struct {
	rate float64 // per second, and the most there can be
	n    float64
	at   time.Time
}

func (t *tokens) earn(now time.Time) {
	if d := now.Sub(t.at); d > 0 {
		t.n = min(t.rate, t.n+d.Seconds()*t.rate)
		t.at = now
	}
}

func newGuestLog(log *slog.Logger, lines int, bytes int64) *guestLog {
	g := &guestLog{log: log}
	g.lines = tokens{rate: float64(lines), n: float64(lines)}
	g.bytes = tokens{rate: float64(bytes), n: float64(bytes)}
	return g
}

// line writes one line; key is "" where it belongs to no call.
func (g *guestLog) line(level slog.Level, key string, b []byte) {
	if !g.log.Enabled(context.Background(), level) {
		return
	}
	ok, lost := g.take(time.Now(), len(b))
	if !ok {
		g.lost.Add(1)
		return
	}
	if lost > 0 {
		g.log.Warn("plugin log: lines over the limits log_lines and log_bytes were dropped", "lines", lost)
	}
	g.log.LogAttrs(context.Background(), level, "plugin log", slog.String("key", key), slog.String("line", clean(b)))
}

// take spends the tokens of a line of n bytes; lost is how many lines were
// dropped since it was last told.
func (g *guestLog) take(now time.Time, n int) (ok bool, lost int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lines.earn(now)
	g.bytes.earn(now)
	if g.lines.n < 1 || g.bytes.n < float64(n) {
		return false, 0
	}
	g.lines.n--
	g.bytes.n -= float64(n)
	lost = g.lost.Load() - g.told
	g.told += lost
	return true, lost
}

// clean makes a guest's bytes one line of valid text.
func clean(b []byte) string {
	s := strings.ToValidUTF8(string(b[:min(len(b), maxLine)]), "�")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s))
}

// cut shortens s to at most n bytes, at a rune's start.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
