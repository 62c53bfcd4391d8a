package relay

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/pawlsync/pawl/internal/relay/wire"
)

// maxRetired is how many past lives of a sender are remembered. One that is
// forgotten can't come back by itself either: it would have to answer with a ticket.
const maxRetired = 256

// maxTickets is how many lives of a sender may be about to begin at once.
const maxTickets = 16

// life is which incarnation of one sender speaks. A sender's epoch is new after its
// store was restored; from then on nothing that an earlier life has sent may change
// anything, however late it arrives.
//
// A new life begins with a ticket that it must bring back: a request that was on its
// way when its process died can't.
type life struct {
	mu      sync.RWMutex // held for reading while a request of the present life changes something
	loaded  bool
	books   books
	tickets map[string]string // by epoch
}

// books are the durable part: the note "relay/SENDER".
type books struct {
	Current string   `json:"current"`
	Retired []string `json:"retired,omitempty"` // oldest first
}

// enter admits a request of the present life; leave is called when it has changed
// what it does. Where the answer's state is another one there is nothing to leave.
func (r *Receiver) enter(h *wire.Hello) (w wire.Welcome, leave func(), err error) {
	l := r.life(h.Sender)
	if err := l.load(r.o.Engine, h.Sender); err != nil {
		return w, nil, err
	}
	l.mu.RLock()
	if l.books.Current == h.Epoch {
		return wire.Welcome{State: wire.Present}, l.mu.RUnlock, nil
	}
	l.mu.RUnlock()

	l.mu.Lock()
	w, err = l.begin(r.o.Engine, h)
	l.mu.Unlock()
	if err != nil || w.State != wire.Present {
		return w, nil, err
	}
	r.o.Logger.Info("a sender begins a new life; what it has sent in an earlier one counts no more", "sender", h.Sender, "epoch", h.Epoch)
	return r.enter(h)
}

// begin makes h's epoch the present one, if it brings the ticket that it was given.
// No request is within, and none comes in.
func (l *life) begin(e Engine, h *wire.Hello) (wire.Welcome, error) {
	switch {
	case l.books.Current == h.Epoch:
		return wire.Welcome{State: wire.Present}, nil
	case slices.Contains(l.books.Retired, h.Epoch):
		return wire.Welcome{State: wire.Retired, Message: fmt.Sprintf(
			"epoch %s of sender %q is of the past, %s is the present one: another pawl sends under this name; give one of them another name, or end it", h.Epoch, h.Sender, l.books.Current)}, nil
	case h.Ticket == "" || l.tickets[h.Epoch] != h.Ticket:
		return wire.Welcome{State: wire.Begin, Ticket: l.ticket(h.Epoch), Message: "this life of the sender is not known yet"}, nil
	}
	next := books{Current: h.Epoch, Retired: slices.Clone(l.books.Retired)}
	if l.books.Current != "" {
		next.Retired = append(next.Retired, l.books.Current)
		next.Retired = next.Retired[max(0, len(next.Retired)-maxRetired):]
	}
	raw, err := json.Marshal(next)
	if err == nil {
		err = e.SetNote(noteOf(h.Sender), raw)
	}
	if err != nil {
		return wire.Welcome{}, fmt.Errorf("note the new life of sender %q: %w", h.Sender, err)
	}
	l.books, l.tickets = next, nil
	return wire.Welcome{State: wire.Present}, nil
}

// ticket is the one that a life must bring back to begin.
func (l *life) ticket(epoch string) string {
	if t, ok := l.tickets[epoch]; ok {
		return t
	}
	if l.tickets == nil || len(l.tickets) >= maxTickets {
		l.tickets = map[string]string{}
	}
	l.tickets[epoch] = rand.Text()
	return l.tickets[epoch]
}

// load reads the books once.
func (l *life) load(e Engine, sender string) error {
	l.mu.RLock()
	loaded := l.loaded
	l.mu.RUnlock()
	if loaded {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.loaded {
		return nil
	}
	raw, err := e.Note(noteOf(sender))
	if err == nil && raw != nil {
		err = json.Unmarshal(raw, &l.books)
	}
	if err != nil {
		return fmt.Errorf("read the lives of sender %q: %w", sender, err)
	}
	l.loaded = true
	return nil
}

func noteOf(sender string) string { return "relay/" + sender }

// life returns that of a sender, which is a declared one.
func (r *Receiver) life(sender string) *life {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.lives[sender]
	if l == nil {
		l = &life{}
		r.lives[sender] = l
	}
	return l
}
