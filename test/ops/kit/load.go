package kit

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
)

// Load is clients that put to the sink web until they are told to end or the daemon is
// gone. Each has keys of its own, so that it knows what each of them must be.
type Load struct {
	d       *Daemon
	stop    chan struct{}
	clients sync.WaitGroup
	puts    atomic.Int64

	mu         sync.Mutex
	granted    map[string]Object // newest that was answered
	unanswered map[string]string // body whose Put got no answer
	refusals   []error           // answers that were no success
}

// StartLoad starts n clients, each of which cycles over keys keys.
func StartLoad(d *Daemon, n, keys int) *Load {
	l := &Load{d: d, stop: make(chan struct{}), granted: map[string]Object{}, unanswered: map[string]string{}}
	for c := range n {
		l.clients.Go(func() {
			for i := 0; l.put(fmt.Sprintf("load/%d/%d", c, i%keys), i); i++ {
			}
		})
	}
	return l
}

// put puts, and reports whether to go on.
func (l *Load) put(key string, i int) bool {
	select {
	case <-l.stop:
		return false
	default:
	}
	body := fmt.Sprintf(`{"n":%d}`, i)
	res, err := l.d.Put(context.Background(), record.Key{Sink: "web", Name: key}, api.PutRequest{Payload: json.RawMessage(body)})
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case api.CodeOf(err) == api.CodeNoSpace:
		l.refusals = append(l.refusals, err)
		return true
	case api.CodeOf(err) != "":
		l.refusals = append(l.refusals, err)
		return false
	case err != nil: // the daemon is gone; it may have stored this, or not
		l.unanswered[key] = body
		return false
	}
	l.granted[key] = Object{res.Generation, body}
	l.puts.Add(1)
	return true
}

// Puts counts the answers so far.
func (l *Load) Puts() int64 { return l.puts.Load() }

// Busy waits until n more Puts were answered.
func (l *Load) Busy(n int64) {
	l.d.t.Helper()
	until := l.Puts() + n
	Approaches(l.d.t, "clients get on", func() float64 { return float64(max(0, until-l.Puts())) })
}

// Granted is the newest of each key that was answered, as of now.
func (l *Load) Granted() map[string]Object {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[string]Object, len(l.granted))
	for k, o := range l.granted {
		out[k] = o
	}
	return out
}

// End ends the clients and returns what was refused.
func (l *Load) End() []error {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.clients.Wait()
	return l.refusals
}

// Unanswered is what was asked for and got no answer, by key. Only after End.
func (l *Load) Unanswered() map[string]string { return l.unanswered }
