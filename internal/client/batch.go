package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
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
		body, sink := io.Pipe()
		defer body.Close()
		sent := &atomic.Int64{}
		go func() { sink.CloseWithError(writeLines(sink, lines, sent)) }()
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
		case err != nil:
			yield(api.BatchAnswer{}, fmt.Errorf("the batch was cut after line %d: %w", answered, err))
		case answered < sent.Load():
			yield(api.BatchAnswer{}, fmt.Errorf("the batch was cut after line %d: the daemon ended its answer; send the rest again", answered))
		}
	}
}

func writeLines(w io.Writer, lines iter.Seq[api.BatchLine], sent *atomic.Int64) error {
	buffered := bufio.NewWriterSize(w, 64<<10)
	for line := range lines {
		data, err := encode(line)
		if err != nil {
			return fmt.Errorf("%s/%s: %w", line.Sink, line.Key, err)
		}
		if _, err := buffered.Write(data); err != nil {
			return err
		}
		sent.Add(1)
	}
	return buffered.Flush()
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
