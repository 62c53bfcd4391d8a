package access

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// What bounds the questions to the cluster: whoever sends us rubbish must neither turn us
// against the API server, nor keep others from being let in.
const (
	// reviewsAtOnce are the questions under way about tokens of which nothing is known,
	// and as many more about tokens that were let in before.
	reviewsAtOnce = 16
	// reviewsAnAddress are those of the former about tokens from one address.
	reviewsAnAddress = 4
	// reviewsWaiting are the tokens from one address that have or await a place, and
	// reviewsWaitingAll those of all addresses.
	reviewsWaiting, reviewsWaitingAll = 64, 1024
	// reviewPatience is how long a token awaits its place.
	reviewPatience = time.Second
)

// places are what a question about a token needs, one each. Tokens that were let in before
// have places of their own, which nobody else can take: each has at most one question under
// way, and who makes tokens up has none of them.
type places struct {
	unknown, known chan struct{}

	mu        sync.Mutex
	addresses map[string]*addressPlaces // that have or await a place
	waiting   int                       // the tokens of all of them
}

// addressPlaces are those of one address.
type addressPlaces struct {
	taken   chan struct{}
	waiting int // with those that have a place
}

// A token that found no place, because of all others or of those of its own address.
var (
	errBusy        = errors.New("the Kubernetes cluster is being asked about too many other tokens")
	errBusyAddress = fmt.Errorf("%w from your address", errBusy)
)

func newPlaces() *places {
	return &places{
		unknown: make(chan struct{}, reviewsAtOnce), known: make(chan struct{}, reviewsAtOnce),
		addresses: map[string]*addressPlaces{},
	}
}

// take waits for a place for a token that address sent, which leave gives back. It does not
// wait where too many do so already.
func (p *places) take(address string, known bool) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), reviewPatience)
	defer cancel()
	if known {
		return takeOne(ctx, p.known)
	}
	a, err := p.queue(address)
	if err != nil {
		return nil, err
	}
	// First one of the address's own, so that few of each address wait for those of all.
	leaveAddress, err := takeOne(ctx, a.taken)
	if err != nil {
		p.unqueue(address)
		return nil, errBusyAddress
	}
	leaveAll, err := takeOne(ctx, p.unknown)
	if err != nil {
		leaveAddress()
		p.unqueue(address)
		return nil, err
	}
	return func() { leaveAll(); leaveAddress(); p.unqueue(address) }, nil
}

func takeOne(ctx context.Context, place chan struct{}) (leave func(), err error) {
	select {
	case place <- struct{}{}:
		return func() { <-place }, nil
	case <-ctx.Done():
		return nil, errBusy
	}
}

// queue counts one more token from address.
func (p *places) queue(address string) (*addressPlaces, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.addresses[address]
	switch {
	case p.waiting >= reviewsWaitingAll:
		return nil, errBusy
	case a == nil:
		a = &addressPlaces{taken: make(chan struct{}, reviewsAnAddress)}
		p.addresses[address] = a
	case a.waiting >= reviewsWaiting:
		return nil, errBusyAddress
	}
	a.waiting++
	p.waiting++
	return a, nil
}

func (p *places) unqueue(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting--
	if p.addresses[address].waiting--; p.addresses[address].waiting == 0 {
		delete(p.addresses, address)
	}
}
