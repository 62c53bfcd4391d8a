package client

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/pawlsync/pawl/internal/api"
)

// Batch puts many resources in one request. Answers come in the order of the
// lines, while more lines are sent: memory stays bounded however many there are.
// A line that is refused spoils no other: its answer has an Error. An error of
// the sequence ends it and says that the batch as a whole was cut; lines
// without an answer may or may not be stored.
//
// lines is read from a goroutine of its own, which ends with lines, or at the
// first line that it yields after the answers ended.
func (c *Client) Batch(ctx context.Context, lines iter.Seq[api.BatchLine]) iter.Seq2[api.BatchAnswer, error] {
	return func(yield func(api.BatchAnswer, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		body := newBody()
		defer body.Close()
		go body.fill(lines)
		response, err := c.send(ctx, http.MethodPost, "/v1/batch", nil, body, "application/x-ndjson")
		if err != nil {
			yield(api.BatchAnswer{}, err)
			return
		}
		defer response.Body.Close()
		answered, err := readAnswers(response.Body, yield)
		switch {
		case errors.Is(err, errStopped):
		case err != nil && ctx.Err() != nil:
			yield(api.BatchAnswer{}, context.Cause(ctx))
		case errors.As(err, new(*api.Problem)): // which says where
			yield(api.BatchAnswer{}, err)
		case err != nil:
			yield(api.BatchAnswer{}, fmt.Errorf("the batch was cut after line %d: %w", answered, err))
		case answered < body.sent.Load():
			yield(api.BatchAnswer{}, fmt.Errorf("the batch was cut after line %d: the daemon ended its answer; send the rest again", answered))
		}
	}
}

// body is the body of a batch request. A Read takes the lines that are there,
// and waits only where there are none, so that a line is never held back until
// the next one comes.
type body struct {
	lines  chan []byte
	closed chan struct{}
	close  func()
	rest   []byte       // of the line that was read last
	sent   atomic.Int64 // lines
	err    error        // why there are no more lines; set before lines is closed
}

func newBody() *body {
	b := &body{lines: make(chan []byte, 256), closed: make(chan struct{})}
	b.close = sync.OnceFunc(func() { close(b.closed) })
	return b
}

func (b *body) fill(lines iter.Seq[api.BatchLine]) {
	defer close(b.lines)
	for line := range lines {
		data, err := encode(line)
		if err != nil {
			b.err = fmt.Errorf("%s/%s: %w", line.Sink, line.Key, err)
			return
		}
		select {
		case b.lines <- data:
			b.sent.Add(1)
		case <-b.closed:
			return
		}
	}
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (n int, err error) {
	if len(b.rest) == 0 {
		select {
		case line, more := <-b.lines:
			if !more {
				return 0, cmp.Or(b.err, io.EOF)
			}
			b.rest = line
		case <-b.closed:
			return 0, io.ErrClosedPipe
		}
	}
	for {
		moved := copy(p[n:], b.rest)
		b.rest = b.rest[moved:]
		if n += moved; n == len(p) {
			return n, nil
		}
		select {
		case line, more := <-b.lines:
			if !more {
				return n, nil // the next Read says why
			}
			b.rest = line
		default:
			return n, nil
		}
	}
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.close()
	return nil
}

var errStopped = errors.New("stopped by the caller")

func readAnswers(r io.Reader, yield func(api.BatchAnswer, error) bool) (answered int64, err error) {
	d := json.NewDecoder(bufio.NewReaderSize(r, 64<<10))
	for {
		var a api.BatchAnswer
		if err := d.Decode(&a); errors.Is(err, io.EOF) {
			return answered, nil
		} else if err != nil {
			return answered, err
		}
		if a.Line == 0 && a.Error != nil { // of the batch as a whole
			return answered, a.Error
		}
		answered = int64(a.Line)
		if !yield(a, nil) {
			return answered, errStopped
		}
	}
}
