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
	"net/url"
	"strings"
	"time"

	"github.com/pawlsync/pawl/internal/api"
)

// WatchOptions select what to watch.
type WatchOptions struct {
	Sink   string // "": all
	Prefix string // of the key
	// From is the token of a list or of the last event seen. "": from now on.
	From string
}

// Pauses between attempts to resume a watch.
const (
	resumeBase = 250 * time.Millisecond
	resumeMax  = 10 * time.Second
)

// Watch yields every change from o.From on, and ends with an error or with ctx,
// whose cause it then yields. A connection that breaks, and a daemon that restarts, is resumed
// where it was left, without a gap. Where that is impossible the error's code is
// api.CodeWatchExpired: list again, and watch from the list's token.
func (c *Client) Watch(ctx context.Context, o WatchOptions) iter.Seq2[api.WatchEvent, error] {
	return func(yield func(api.WatchEvent, error) bool) {
		connected, pause := false, resumeBase
		for {
			token := o.From
			err := c.watchOnce(ctx, &o, yield)
			var refused *api.Problem
			switch {
			case errors.Is(err, errStopped):
				return
			case ctx.Err() != nil:
				yield(api.WatchEvent{}, context.Cause(ctx))
				return
			case errors.As(err, &refused) && refused.Code == api.CodeTooManyRequests && connected:
				pause = max(pause, time.Duration(refused.RetryAfter)*time.Second)
			case errors.As(err, &refused) && refused.Status < http.StatusInternalServerError,
				err != nil && !connected && o.From == token && !errors.Is(err, errCut):
				yield(api.WatchEvent{}, err)
				return
			}
			connected = true
			if o.From != token {
				pause = resumeBase
			}
			if sleep(ctx, pause) != nil {
				yield(api.WatchEvent{}, context.Cause(ctx))
				return
			}
			pause = min(2*pause, resumeMax)
		}
	}
}

var errCut = errors.New("the stream was cut")

// watchOnce reads one connection's events and keeps o.From at the newest token.
func (c *Client) watchOnce(ctx context.Context, o *WatchOptions, yield func(api.WatchEvent, error) bool) error {
	q := url.Values{}
	setText(q, "sink", o.Sink)
	setText(q, "prefix", o.Prefix)
	setText(q, "from", o.From)
	response, err := c.send(ctx, http.MethodGet, "/v1/watch", q, nil, "")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	lines := bufio.NewReaderSize(response.Body, 64<<10)
	for {
		e, err := readEvent(lines)
		if err != nil {
			return fmt.Errorf("%w: %w", errCut, err)
		}
		switch e.name {
		case "reset", "error":
			var p api.Problem
			if err := json.Unmarshal(e.data, &p); err != nil {
				return fmt.Errorf("%w: %w", errCut, err)
			}
			return &p
		case "resource", "removed":
			var event api.WatchEvent
			if err := json.Unmarshal(e.data, &event); err != nil {
				return fmt.Errorf("%w: %w", errCut, err)
			}
			event.Token = e.id
			if !yield(event, nil) {
				return errStopped
			}
		}
		if e.id != "" {
			o.From = e.id
		}
	}
}

// event is one server-sent event; see the HTML standard, "Server-sent events".
type event struct {
	name string
	id   string
	data []byte
}

func readEvent(r *bufio.Reader) (event, error) {
	var e event
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return e, err
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" && (e.name != "" || e.data != nil) {
			return e, nil
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			e.data = append(e.data, value...)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
