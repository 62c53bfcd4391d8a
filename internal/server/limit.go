package server

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
)

// Limits are what one client may do, so that one that has run wild leaves room for the
// others. 0 is no limit.
type Limits struct {
	// RequestsPerSecond are those that a client may send all the time, and RequestsBurst
	// those that it may send at once before that holds it back; at least one.
	RequestsPerSecond, RequestsBurst int
	// Watches are the watches and waits that a client may have open.
	Watches int
	// BodyBytes are those of the bodies that a client may have under way together. One
	// request alone is let through whatever its size: Options.RequestMaxBytes bounds it.
	BodyBytes int64
}

// SetLimits puts others in force, for what is asked from now on.
func (s *Server) SetLimits(limits Limits) {
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	s.limiter.limits = limits
}

// watching are the routes that hold a request open until something happens.
var watching = map[string]bool{
	"GET /v1/watch": true, "GET /v1/status/watch": true,
	"GET " + resourcePath + "/wait": true, "GET /v1/sagas/{id}/wait": true,
}

// client is whose requests are counted together.
type client struct{ kind, name string } // the name as people know it

// clientOf is whose r is, with id nil of a caller who was not let in. Who has no name of
// their own counts as the user of the unix socket, or as their address.
func clientOf(r *http.Request, id *access.Identity) client {
	kind := access.KindStranger
	if id != nil {
		kind = id.Kind
	}
	switch kind {
	case access.KindLocal, access.KindPeer, access.KindStranger:
	default:
		return client{kind, kind + " " + strconv.Quote(id.Name)}
	}
	if uid, ok := access.PeerUID(r.Context()); ok {
		return client{kind, "the user " + strconv.FormatUint(uint64(uid), 10)}
	}
	if fromUnix(r) {
		return client{kind, "the unix socket"}
	}
	return client{kind, "the address " + access.AddressOf(r)}
}

// limiter counts what each client does.
type limiter struct {
	now       func() time.Time
	log       *slog.Logger
	throttled func(kind string, limit access.Limit)

	mu      sync.Mutex
	limits  Limits
	clients map[string]*clients // by kind, so that strangers crowd nobody out
}

// clients are those of one kind. They are forgotten once they may do all again.
type clients struct {
	known map[string]*usage // by name; at most maxClients
	rest  usage             // of all that find no room there, together
	swept time.Time
}

// maxClients are the clients of a kind that are counted one by one.
const maxClients = 4096

// sweepEvery is how often clients are looked for that can be forgotten.
const sweepEvery = time.Second

// tellEvery is how often the log tells of one client that it is held back.
const tellEvery = time.Minute

// usage is what a client does.
type usage struct {
	spent   float64 // requests, of RequestsBurst; RequestsPerSecond of them come back each second
	at      time.Time
	open    int // requests under way
	watches int // of these
	body    int64
	told    time.Time
}

func newLimiter(o *Options) *limiter {
	l := &limiter{now: o.Now, log: o.Logger, throttled: o.Throttled, limits: o.Limits, clients: map[string]*clients{}}
	for _, kind := range access.AllKinds() {
		l.clients[kind] = &clients{known: map[string]*usage{}}
	}
	return l
}

// excess is a limit that a request would go over.
type excess struct {
	limit           access.Limit
	what, key, hint string
	after           int  // seconds until it is worth to try again
	tell            bool // by the log
}

// admit lets a request of c begin, or says why not. release has to be called when the
// request has ended. A body whose length is not known counts as it is read.
func (l *limiter) admit(c client, pattern string, r *http.Request) (release func(), p *api.Problem) {
	release, over := l.begin(c, watching[pattern], r)
	if over == nil {
		return release, nil
	}
	l.throttled(c.kind, over.limit)
	detail := fmt.Sprintf("%s %s (server.limits.%s)", c.name, over.what, over.key)
	if over.tell {
		l.log.Warn("a client is held back", "why", detail, "hint", over.hint)
	}
	p = api.NewProblem(http.StatusTooManyRequests, api.CodeTooManyRequests, detail,
		fmt.Sprintf("try again in %ds; %s, or raise server.limits.%s in the daemon's configuration", over.after, over.hint, over.key))
	p.RetryAfter = over.after
	return nil, p
}

func (l *limiter) begin(c client, watch bool, r *http.Request) (release func(), over *excess) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	u := l.usage(c, now)
	u.recover(now, &l.limits)
	length := max(r.ContentLength, 0)
	if over := u.over(&l.limits, watch, r.ContentLength != 0, length); over != nil {
		// Strangers are anybody, who must not fill the log.
		if over.tell = c.kind != access.KindStranger && (u.told.IsZero() || now.Sub(u.told) >= tellEvery); over.tell {
			u.told = now
		}
		return nil, over
	}
	u.spent++
	u.open++
	u.body += length
	if watch {
		u.watches++
	}
	counted := &countedBody{ReadCloser: r.Body, limiter: l, usage: u}
	if r.ContentLength < 0 {
		r.Body = counted
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		u.open--
		u.body -= length + counted.read
		counted.usage = nil
		if watch {
			u.watches--
		}
	}, nil
}

// over says which limit a client would go over with one more request; nil: none.
func (u *usage) over(limits *Limits, watch, body bool, length int64) *excess {
	switch {
	case limits.RequestsPerSecond > 0 && u.spent+1 > burst(limits):
		return &excess{limit: access.LimitRequests, key: "requests_per_second", after: 1,
			what: fmt.Sprintf("sends more than %d requests a second", limits.RequestsPerSecond),
			hint: "put many resources with one request (POST /v1/batch), and watch in place of asking again"}
	case watch && limits.Watches > 0 && u.watches >= limits.Watches:
		return &excess{limit: access.LimitWatches, key: "watches", after: 10,
			what: fmt.Sprintf("has %d watches and waits open, and may have %d", u.watches, limits.Watches),
			hint: "close those that nobody reads"}
	case body && limits.BodyBytes > 0 && u.body > 0 && u.body+length > limits.BodyBytes:
		return &excess{limit: access.LimitBody, key: "body_bytes", after: 1,
			what: fmt.Sprintf("sends %d bytes at once, and may send %d", u.body+length, limits.BodyBytes),
			hint: "send fewer requests at once, or smaller ones"}
	}
	return nil
}

// burst are the requests that a client may send at once.
func burst(limits *Limits) float64 { return float64(max(limits.RequestsBurst, 1)) }

// usage finds what c does, or makes room for it.
func (l *limiter) usage(c client, now time.Time) *usage {
	k := l.clients[c.kind]
	if u := k.known[c.name]; u != nil {
		return u
	}
	if now.Sub(k.swept) >= sweepEvery {
		k.swept = now
		for name, u := range k.known {
			if u.recover(now, &l.limits); u.spent == 0 && u.open == 0 {
				delete(k.known, name)
			}
		}
	}
	if len(k.known) >= maxClients {
		return &k.rest
	}
	u := &usage{at: now}
	k.known[c.name] = u
	return u
}

// recover gives back what came back since the last time.
func (u *usage) recover(now time.Time, limits *Limits) {
	passed := max(now.Sub(u.at), 0).Seconds()
	u.at = now
	if limits.RequestsPerSecond == 0 {
		u.spent = 0
		return
	}
	// Where the burst is smaller than it was, nobody has to wait for the difference.
	u.spent = max(min(u.spent, burst(limits))-passed*float64(limits.RequestsPerSecond), 0)
}

// countedBody counts what is read of a body whose length was not known, until its request
// has ended.
type countedBody struct {
	io.ReadCloser
	limiter *limiter
	usage   *usage // nil: it has ended
	read    int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.limiter.mu.Lock()
	defer b.limiter.mu.Unlock()
	if b.usage != nil {
		b.read += int64(n)
		b.usage.body += int64(n)
	}
	return n, err
}
