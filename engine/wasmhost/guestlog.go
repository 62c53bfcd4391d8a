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
	rate float64 // lines per second, and the burst
	lost atomic.Int64

	mu     sync.Mutex
	tokens float64
	at     time.Time
	told   int64 // of lost, how many were told of
}

func newGuestLog(log *slog.Logger, rate int) *guestLog {
	return &guestLog{log: log, rate: float64(rate), tokens: float64(rate)}
}

// line writes one line; key is "" where it belongs to no call.
func (g *guestLog) line(level slog.Level, key string, b []byte) {
	if !g.log.Enabled(context.Background(), level) {
		return
	}
	ok, lost := g.take(time.Now())
	if !ok {
		g.lost.Add(1)
		return
	}
	if lost > 0 {
		g.log.Warn("plugin log: lines over the rate were dropped", "lines", lost)
	}
	g.log.LogAttrs(context.Background(), level, "plugin log", slog.String("key", key), slog.String("line", clean(b)))
}

// take spends a token; lost is how many lines were dropped since it was last told.
func (g *guestLog) take(now time.Time) (ok bool, lost int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if d := now.Sub(g.at); d > 0 {
		g.tokens = min(g.rate, g.tokens+d.Seconds()*g.rate)
		g.at = now
	}
	if g.tokens < 1 {
		return false, 0
	}
	g.tokens--
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
