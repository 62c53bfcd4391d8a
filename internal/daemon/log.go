package daemon

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/pawlsync/pawl/config"
)

// NewLogger returns the logger that the configuration asks for, and its level, which may
// be changed at any time; terminal: a person reads w.
func NewLogger(c config.Log, w io.Writer, terminal bool) (*slog.Logger, *slog.LevelVar, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(c.Level)); err != nil {
		return nil, nil, fmt.Errorf("log.level: %w", err)
	}
	level := new(slog.LevelVar)
	level.Set(least)
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: durationsAsText}
	if c.Format == "text" || c.Format == "auto" && terminal {
		return slog.New(slog.NewTextHandler(w, o)), level, nil
	}
	return slog.New(slog.NewJSONHandler(w, o)), level, nil
}

// durationsAsText keeps units in JSON, which would count nanoseconds.
func durationsAsText(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}
