package kube

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

// lookEvery is how often the files are looked at, at most.
const lookEvery = time.Second

// reloader carries requests over the newest connection that the files gave.
type reloader struct {
	o   Options
	now func() time.Time

	mu     sync.Mutex
	conn   *connection
	failed []stamp // of the newest files that could not be used
	looked time.Time
}

func newReloader(o Options, first *connection) *reloader {
	r := &reloader{o: o, now: time.Now, conn: first}
	r.looked = r.now()
	return r
}

// RoundTrip implements http.RoundTripper.
func (r *reloader) RoundTrip(q *http.Request) (*http.Response, error) {
	return r.current().transport.RoundTrip(q)
}

// CloseIdleConnections closes those of the newest connection.
func (r *reloader) CloseIdleConnections() {
	r.mu.Lock()
	defer r.mu.Unlock()
	closeIdle(r.conn.transport)
}

// closeIdle looks below what client-go wraps a transport with, which does not pass this on.
func closeIdle(t http.RoundTripper) {
	for {
		switch w := t.(type) {
		case interface{ CloseIdleConnections() }:
			w.CloseIdleConnections()
			return
		case interface{ WrappedRoundTripper() http.RoundTripper }:
			t = w.WrappedRoundTripper()
		default:
			return
		}
	}
}

// current returns the newest connection. Files that can't be used leave the one
// that is there: its credentials may still be good.
func (r *reloader) current() *connection {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if now.Sub(r.looked) < lookEvery {
		return r.conn
	}
	r.looked = now
	var seen []stamp
	for _, f := range r.conn.files {
		seen = stampsOf(seen, f.path)
	}
	if slices.Equal(seen, r.conn.files) || slices.Equal(seen, r.failed) {
		return r.conn
	}
	next, err := connect(r.o)
	log := r.o.Logger.With("file", r.conn.files[0].path)
	switch {
	case err != nil:
		r.failed = seen
		log.Error("the kubeconfig or what it names changed and can't be used; the earlier one stays in use", "cause", err)
	case next.base.String() != r.conn.base.String():
		r.failed = seen
		log.Error("the kubeconfig names another server now; restart pawl to follow it", "server", r.conn.base.Host, "now", next.base.Host)
	default:
		closeIdle(r.conn.transport)
		r.conn, r.failed = next, nil
		log.Info("credentials and address of the cluster were read again")
	}
	return r.conn
}
