package main

import (
	"context"
	"strconv"
	"time"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

const contentType = "application/vnd.pawl.relay"

// say sends a hello and what follows it, size bytes that what appends, and returns what
// follows the welcome. Where the receiver does not know this life of ours yet, it is
// begun first: the receiver gives a ticket, and only who is alive can bring it back.
func (a *adapter) say(ctx context.Context, path, epoch string, size int, what func([]byte) []byte) (rest []byte, err error) {
	if epoch == "" {
		return nil, pawl.Rejected("the host does not tell its store's epoch, without which the other pawl can't tell old from new; a newer host does")
	}
	h := a.cfg.hello
	h.epoch = epoch
	for range 3 { // a ticket may be a past one's, where calls begin the same life at once
		body := appendHello(make([]byte, 0, h.size()+size), &h)
		w, rest, err := a.post(ctx, path, what(body))
		if err != nil {
			return nil, err
		}
		switch w.state {
		case present:
			return rest, nil
		case begin:
			h.ticket = w.ticket
		case retired:
			return nil, pawl.Unauthorized(w.message)
		default:
			return nil, pawl.Retry(errAnswer.Error())
		}
	}
	return nil, pawl.RetryAfter(time.Second, "the other pawl does not let this life of the sender begin; another one begins at the same time")
}

// post makes one request.
func (a *adapter) post(ctx context.Context, path string, body []byte) (w welcome, rest []byte, err error) {
	resp, err := pawl.Do(ctx, &pawl.HTTPRequest{
		Upstream: a.cfg.upstream.Name, Method: "POST", Path: path, Body: body,
		Headers: []pawl.Header{{Name: "Content-Type", Value: contentType}},
	})
	if err != nil {
		return w, nil, err
	}
	if err := a.classify(resp); err != nil {
		return w, nil, err
	}
	msg, rest, err := next(resp.Body)
	if err == nil {
		w, err = readWelcome(msg)
	}
	if err != nil {
		return w, nil, pawl.Retry(err.Error())
	}
	return w, rest, nil
}

// classify turns an answer that is none of the protocol's into an error; nil: it is.
// What others say is not repeated: a proxy may quote what it was sent.
func (a *adapter) classify(resp *pawl.HTTPResponse) error {
	s := resp.Status
	message := "the other pawl answered " + strconv.Itoa(s)
	switch {
	case s == 200 && resp.Header("Content-Type") == contentType:
		return nil
	case s == 200:
		return pawl.Retry("what answers there is no pawl, or one from before relays: the answer's type is not " + contentType)
	case s == 401:
		return pawl.Unauthorized(message + ": it refuses the upstream's credentials")
	case s == 403:
		return pawl.Unauthorized(message + ": it does not take anything from sender " + strconv.Quote(a.cfg.hello.sender) +
			"; declare it there in sources.NAME.pawl.senders, or correct sender in this sink's config;" +
			" and a token has to be bound to that name there: pawl token new --sender NAME")
	case s == 404 || s == 405:
		return pawl.Unauthorized(message + ": it has no relay; is the upstream's address a pawl's API, and does that pawl have a source of kind pawl?")
	case s == 413:
		return pawl.Retry(message + ": the request is too large there; lower batch_max here, or raise server.max_request_bytes there")
	case s == 400 || s == 422:
		return pawl.Retry(message + ": it does not understand this one; do their versions fit each other?")
	case s == 429 || s == 503:
		return pawl.TargetRetryAfter(retryAfter(resp), message)
	}
	return pawl.Retry(message)
}

// retryAfter reads the header of that name, where it has seconds.
func retryAfter(resp *pawl.HTTPResponse) time.Duration {
	seconds, err := strconv.ParseUint(resp.Header("Retry-After"), 10, 16)
	if err != nil {
		return time.Second
	}
	return max(time.Second, time.Duration(seconds)*time.Second)
}
