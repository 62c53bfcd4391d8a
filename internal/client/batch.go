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
	"net/url"
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
	return stream(c, ctx, exchange[api.BatchLine, api.BatchAnswer]{
		what: "batch", path: "/v1/batch",
		name: func(l *api.BatchLine) string { return l.Sink + "/" + l.Key },
		line: func(a *api.BatchAnswer) (int, *api.Problem) { return a.Line, a.Error },
	}, lines)
}

// exchange is a request of lines L whose answers A come while more are sent.
type exchange[L, A any] struct {
	what  string // for messages
	path  string
	query url.Values
	name  func(*L) string // whose line it is
	line  func(*A) (line int, problem *api.Problem)
}

func stream[L, A any](c *Client, ctx context.Context, x exchange[L, A], lines iter.Seq[L]) iter.Seq2[A, error] {
	return func(yield func(A, error) bool) {
		var none A
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		body := newBody()
		defer body.Close()
		go fill(body, lines, x.name)
		response, err := c.send(ctx, http.MethodPost, x.path, x.query, body, "application/x-ndjson")
		if err != nil {
			yield(none, err)
			return
		}
		defer response.Body.Close()
		answered, err := readAnswers(response.Body, x.line, yield)
		switch {
		case errors.Is(err, errStopped):
		case err != nil && ctx.Err() != nil:
			yield(none, context.Cause(ctx))
		case errors.As(err, new(*api.Problem)): // which says where
			yield(none, err)
		case err != nil:
			yield(none, fmt.Errorf("the %s was cut after line %d: %w", x.what, answered, err))
		case answered < body.sent.Load():
			yield(none, fmt.Errorf("the %s was cut after line %d: the daemon ended its answer; send the rest again", x.what, answered))
		}
	}
}

// body is the body of such a request. A Read takes the lines that are there,
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

func fill[L any](b *body, lines iter.Seq[L], name func(*L) string) {
	defer close(b.lines)
	for line := range lines {
		data, err := encode(line)
		if err != nil {
			b.err = fmt.Errorf("%s: %w", name(&line), err)
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

func readAnswers[A any](r io.Reader, line func(*A) (int, *api.Problem), yield func(A, error) bool) (answered int64, err error) {
	d := json.NewDecoder(bufio.NewReaderSize(r, 64<<10))
	for {
		var a A
		if err := d.Decode(&a); errors.Is(err, io.EOF) {
			return answered, nil
		} else if err != nil {
			return answered, err
		}
		n, problem := line(&a)
		if n == 0 && problem != nil { // of the whole
			return answered, problem
		}
		answered = max(answered, int64(n))
		if !yield(a, nil) {
			return answered, errStopped
		}
	}
}
