package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlsync/pawl/internal/bubble"
)

// slowCluster knows the runner by tokens that begin with good, and takes its time over all others, of
// which it knows none.
type slowCluster struct {
	t         *testing.T
	takes     time.Duration
	away      atomic.Bool // does not answer at all
	asked     atomic.Int64
	underWay  atomic.Int64
	mostAbout atomic.Int64 // others under way at once
}

const good = jwt + "-good"

const testTimeout = 5 * time.Second

func (c *slowCluster) RoundTrip(r *http.Request) (*http.Response, error) {
	var question tokenReview
	if err := json.NewDecoder(r.Body).Decode(&question); err != nil {
		c.t.Error(err)
	}
	if deadline, ok := r.Context().Deadline(); !ok || time.Until(deadline) != testTimeout {
		c.t.Errorf("a question has until %v; want %v for it", deadline, testTimeout)
	}
	c.asked.Add(1)
	if c.away.Load() {
		return nil, errors.New("connection refused")
	}
	status := runner
	if !strings.HasPrefix(question.Spec.Token, good) {
		if n := c.underWay.Add(1); n > c.mostAbout.Load() {
			c.mostAbout.Store(n)
		}
		defer c.underWay.Add(-1)
		select {
		case <-time.After(c.takes):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		status = `{}`
	}
	w := httptest.NewRecorder()
	fmt.Fprintf(w, `{"status":%s}`, status)
	return w.Result(), nil
}

func (c *slowCluster) review() *Review {
	return NewReview(ReviewOptions{
		Transport: c, BaseURL: "https://cluster", Audiences: []string{"pawl"}, Timeout: testTimeout,
		Clients: []ReviewClient{{Users: []string{"system:serviceaccount:ci:runner"}}},
	})
}

// outcome is how a request was answered.
type outcome struct {
	id    *Identity
	err   error
	after time.Duration
}

// isBusy reports whether the token found no place.
func (o outcome) isBusy() bool { return o.id == nil && errors.Is(o.err, errBusy) }

func send(v *Review, address, token string) outcome {
	began := time.Now()
	id, err := v.Authenticate(bearerFrom(address, token))
	return outcome{id, err, time.Since(began)}
}

// rubbish has n made-up tokens under way from an address, which %d makes many. The outcomes
// are there when all has been waited for.
func rubbish(v *Review, all *sync.WaitGroup, address string, n int) []outcome {
	out := make([]outcome, n)
	for i := range n {
		from := address
		if strings.Contains(from, "%d") {
			from = fmt.Sprintf(from, i+1)
		}
		all.Go(func() { out[i] = send(v, from, fmt.Sprintf("%s-%x-%d", jwt, address, i)) })
	}
	synctest.Wait()
	return out
}

func TestRubbishFromOneAddressKeepsNobodyElseOut(t *testing.T) {
	for name, address := range map[string]string{"IPv4": "203.0.113.9:%d", "IPv6, of one network": "[2001:db8::%d]:1", "a socket": "@"} {
		bubble.Test(t, func(t *testing.T) {
			c := &slowCluster{t: t, takes: time.Hour}
			v := c.review()
			var all sync.WaitGroup
			rubbish(v, &all, address, 3*reviewsAtOnce)
			if n := c.underWay.Load(); n != reviewsAnAddress {
				t.Errorf("%s: %d questions are under way, want %d", name, n, reviewsAnAddress)
			}
			for _, other := range []string{"198.51.100.1:1", "[2001:db8:0:1::1]:1"} {
				if o := send(v, other, good+strings.ReplaceAll(other, ".", "-")); o.id == nil || o.after != 0 {
					t.Errorf("%s: somebody at %s: %+v", name, other, o)
				}
			}
			all.Wait()
			if len(v.places.addresses) != 0 || v.places.waiting != 0 {
				t.Errorf("%s: places are not given back: %v, %d", name, v.places.addresses, v.places.waiting)
			}
		})
	}
}

func TestWhoFindsNoPlaceIsToldSo(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &slowCluster{t: t, takes: time.Hour}
		v := c.review()
		var all sync.WaitGroup
		sent := [][]outcome{rubbish(v, &all, "203.0.113.9:1", reviewsWaiting)}
		if o := send(v, "203.0.113.9:2", good); !o.isBusy() || o.after != 0 || !strings.Contains(o.err.Error(), "from your address") {
			t.Errorf("one too many from an address: %+v", o)
		}
		for i := range reviewsWaitingAll/reviewsWaiting - 1 {
			sent = append(sent, rubbish(v, &all, fmt.Sprintf("192.0.2.%d:1", i), reviewsWaiting))
		}
		if o := send(v, "198.51.100.1:1", good); !o.isBusy() || o.after != 0 || strings.Contains(o.err.Error(), "your address") {
			t.Errorf("one too many: %+v", o)
		}
		all.Wait()
		if n := c.mostAbout.Load(); n != reviewsAtOnce {
			t.Errorf("%d questions were under way at once, want %d", n, reviewsAtOnce)
		}
		waited := 0
		for _, o := range slices.Concat(sent...) {
			switch {
			case o.isBusy() && o.after == reviewPatience:
				waited++
			case o.isBusy() || o.id != nil || o.after != testTimeout:
				t.Errorf("%+v", o)
			}
		}
		if waited != reviewsWaitingAll-reviewsAtOnce {
			t.Errorf("%d found no place, want all but %d of %d", waited, reviewsAtOnce, reviewsWaitingAll)
		}
		if o := send(v, "203.0.113.9:2", good); o.id == nil {
			t.Errorf("after it: %+v", o)
		}
	})
}

// TestWhoFindsNoPlaceIsInNobodysWay: not in that of others from the same address either.
func TestWhoFindsNoPlaceIsInNobodysWay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &slowCluster{t: t, takes: time.Hour}
		v := c.review()
		var all sync.WaitGroup
		for i := range reviewsAtOnce / reviewsAnAddress {
			rubbish(v, &all, fmt.Sprintf("192.0.2.%d:1", i), reviewsAnAddress)
		}
		rubbish(v, &all, "198.51.100.1:1", reviewsAnAddress)
		time.Sleep(reviewPatience / 2)
		out := rubbish(v, &all, "198.51.100.1:2", reviewsAnAddress)
		all.Wait()
		for _, o := range out {
			if !o.isBusy() || errors.Is(o.err, errBusyAddress) {
				t.Errorf("it was not those of all that they waited for in the end: %+v", o)
			}
		}
	})
}

// TestWhoWaitsForAPlaceIsAskedAbout: with the whole time for the question, as the cluster
// sees.
func TestWhoWaitsForAPlaceIsAskedAbout(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &slowCluster{t: t, takes: reviewPatience / 2}
		var all sync.WaitGroup
		out := rubbish(c.review(), &all, "203.0.113.9:1", 2*reviewsAnAddress)
		all.Wait()
		for i, o := range out {
			if _, refused := errors.AsType[*Refusal](o.err); !refused {
				t.Errorf("%d: %+v", i, o)
			}
		}
	})
}

func TestWhoWasLetInHasPlacesOfTheirOwn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &slowCluster{t: t}
		v := c.review()
		mine := func(what string, asked int64) {
			t.Helper()
			before := c.asked.Load()
			if o := send(v, "198.51.100.1:1", good); o.id == nil || o.after != 0 || c.asked.Load()-before != asked {
				t.Errorf("%s: %+v; asked %d times, want %d", what, o, c.asked.Load()-before, asked)
			}
		}
		mine("at first", 1)
		mine("then", 0)
		for i := range answersMax + 1 { // rubbish that is answered
			send(v, "203.0.113.9:1", fmt.Sprintf("%s-%d", jwt, i))
		}
		mine("beside rubbish", 0)

		// The answer is over, and the cluster away when it is asked again.
		time.Sleep(11 * time.Second)
		for i := range answersMax + 1 {
			send(v, "203.0.113.9:1", fmt.Sprintf("%s-again-%d", jwt, i))
		}
		c.away.Store(true)
		if o := send(v, "198.51.100.1:1", good); o.id != nil || o.err == nil {
			t.Errorf("while the cluster is away: %+v", o)
		}
		c.away.Store(false)

		c.takes = time.Hour
		var all sync.WaitGroup
		for i := range 2 * reviewsAtOnce / reviewsAnAddress {
			rubbish(v, &all, fmt.Sprintf("192.0.2.%d:1", i), 2*reviewsAnAddress)
		}
		rubbish(v, &all, "198.51.100.1:1", reviewsWaiting) // from the same address
		if n := c.underWay.Load(); n != reviewsAtOnce {
			t.Errorf("%d questions are under way, want %d", n, reviewsAtOnce)
		}
		mine("with all other places taken", 1)
		all.Wait()

		// Who is not let in any more has those places no more.
		time.Sleep(11 * time.Second)
		v.o.Clients = nil
		if o := send(v, "198.51.100.1:1", good); o.id != nil {
			t.Errorf("no longer a client: %+v", o)
		}
		time.Sleep(11 * time.Second)
		rubbish(v, &all, "198.51.100.1:1", reviewsWaiting)
		if o := send(v, "198.51.100.1:1", good); !o.isBusy() {
			t.Errorf("no longer known: %+v", o)
		}
		all.Wait()
	})
}

// TestAnswersThatAreOverMakeRoom for those that count, where many are let in.
func TestAnswersThatAreOverMakeRoom(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &slowCluster{t: t}
		v := c.review()
		for i := range answersMax - 1 {
			send(v, "192.0.2.1:1", fmt.Sprintf("%s-%d", good, i))
		}
		time.Sleep(11 * time.Second)
		for _, token := range []string{good, good + "-another", good} {
			if o := send(v, "192.0.2.1:1", token); o.id == nil {
				t.Errorf("%+v", o)
			}
		}
		if n := c.asked.Load(); n != answersMax+1 {
			t.Errorf("asked %d times, want %d: once about each", n, answersMax+1)
		}
	})
}
