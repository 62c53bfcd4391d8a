package conformance

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// Line is one line of a log, the host's or a guest's.
type Line struct {
	Level slog.Level
	Sink  string
	Guest bool   // the plugin wrote it
	Text  string // of the plugin; else message and attributes of the host
}

// logbook keeps what host and guests log, by sink.
type logbook struct {
	mu    sync.Mutex
	lines []Line
}

func newLogbook() *logbook { return &logbook{} }

func (b *logbook) logger() *slog.Logger { return slog.New(&bookHandler{book: b}) }

// of returns the lines of one sink.
func (b *logbook) of(sink string) []Line {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []Line
	for _, l := range b.lines {
		if l.Sink == sink {
			out = append(out, l)
		}
	}
	return out
}

// faults sums up what the host said of a plugin's faults.
func (b *logbook) faults(sink string) string {
	var out []string
	for _, l := range b.of(sink) {
		if l.Level >= slog.LevelError && !slices.Contains(out, l.Text) {
			out = append(out, l.Text)
		}
	}
	return strings.Join(out[:min(3, len(out))], "; ")
}

// maxLines bounds a logbook.
const maxLines = 20_000

func (b *logbook) add(l Line) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.lines) < maxLines {
		b.lines = append(b.lines, l)
	}
}

// bookHandler is the slog.Handler of a logbook.
type bookHandler struct {
	book  *logbook
	attrs []slog.Attr
}

func (h *bookHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *bookHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &bookHandler{h.book, append(slices.Clip(h.attrs), attrs...)}
}

// WithGroup implements slog.Handler; the host uses no groups.
func (h *bookHandler) WithGroup(string) slog.Handler { return h }

// Handle implements slog.Handler.
func (h *bookHandler) Handle(_ context.Context, r slog.Record) error {
	l := Line{Level: r.Level}
	text := r.Message
	each := func(a slog.Attr) bool {
		switch value := a.Value.String(); a.Key {
		case "sink":
			l.Sink = value
		case "plugin":
		case "line":
			l.Guest, l.Text = true, value
		default:
			text += fmt.Sprintf(" %s=%q", a.Key, value)
		}
		return true
	}
	for _, a := range h.attrs {
		each(a)
	}
	r.Attrs(each)
	if !l.Guest {
		l.Text = text
	}
	h.book.add(l)
	return nil
}
