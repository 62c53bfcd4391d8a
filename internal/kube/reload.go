package kube

import (
	"net/http"
	"sync"
	"time"
)

// lookEvery is how often the kubeconfig is looked at, at most.
const lookEvery = time.Second

// reloader carries requests over the newest connection that the kubeconfig gave.
type reloader struct {
	o   Options
	now func() time.Time

	mu     sync.Mutex
	conn   *connection
	read   stamp // of the file that conn is from
	failed stamp // of the newest one that could not be used
	looked time.Time
}

func newReloader(o Options, first *connection) *reloader {
	r := &reloader{o: o, now: time.Now, conn: first}
	if o.Kubeconfig != "" {
		r.read = stampOf(o.Kubeconfig)
	}
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

func closeIdle(t http.RoundTripper) {
	if c, ok := t.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// current returns the newest connection. A file that can't be used leaves the
// one that is there: its credentials may still be good.
func (r *reloader) current() *connection {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if r.o.Kubeconfig == "" || now.Sub(r.looked) < lookEvery {
		return r.conn
	}
	r.looked = now
	seen := stampOf(r.o.Kubeconfig)
	if seen == r.read || seen == r.failed {
		return r.conn
	}
	next, err := connect(r.o)
	switch {
	case err != nil:
		r.failed = seen
		r.o.Logger.Error("the kubeconfig changed and can't be used; the earlier one stays in use", "file", r.o.Kubeconfig, "cause", err)
	case next.base.String() != r.conn.base.String():
		r.failed = seen
		r.o.Logger.Error("the kubeconfig names another server now; restart pawl to follow it",
			"file", r.o.Kubeconfig, "server", r.conn.base.Host, "now", next.base.Host)
	default:
		closeIdle(r.conn.transport)
		r.conn, r.read, r.failed = next, seen, stamp{}
		r.o.Logger.Info("the kubeconfig was read again", "file", r.o.Kubeconfig)
	}
	return r.conn
}
