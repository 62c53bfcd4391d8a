package engine_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// leaving is a target of whose polls one has something happen.
type leaving struct {
	*watchedTarget
	during chan func() // the next poll; each is called once
}

func (l *leaving) Poll(ctx context.Context, cursor string) (sink.Changes, sink.Result) {
	select {
	case do := <-l.during:
		do()
	default:
	}
	return l.watchedTarget.Poll(ctx, cursor)
}

// A poll outlives its sink, what it told is taken in, and the rest is for the sink's
// successor: none of that is an error that an operator is to hear of.
func TestASinkThatIsRemovedInTheMiddleOfAPollIsNoError(t *testing.T) {
	var (
		log bytes.Buffer
		l   *leaving
	)
	inBubble(t, func(o *engine.Options) {
		direction(record.Inbound)(o)
		l = &leaving{watched(o, polls), make(chan func(), 1)}
		o.Sinks[0].Sink = l
		o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}, func(b *bench) {
		b.settle()
		l.page = 1
		for _, name := range []string{"a", "b"} {
			l.change(name, `1`)
			b.put(name, `{}`)
		}
		left := make(chan error, 1)
		l.during <- func() {
			retired, err := b.RemoveSink("web")
			if err != nil {
				left <- err
				return
			}
			go func() { left <- <-retired }()
		}
		b.must(<-left)
		b.settle()
		if log.Len() > 0 {
			t.Errorf("the log says: %s", &log)
		}
		b.add(l.watchedTarget, func(o *engine.SinkOptions) { o.Direction = record.Inbound })
		b.after(time.Minute + time.Second)
		b.has("a", `1`)
		b.has("b", `1`)
	})
}
