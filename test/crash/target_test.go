package crash

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// target is an HTTP object store that remembers every state it ever took, and
// holds each request against P3 and P5. It offers no ETags: nothing but the
// daemon's own care keeps an old request from undoing a newer one.
type target struct {
	t      *testing.T
	server *httptest.Server
	seed   uint64
	books  *ledger // for histories

	mu      sync.Mutex
	weather weather
	run     int // newest daemon that is alive; 0: none is
	objects map[string]string
	keys    map[string]*dealings
	landing sync.WaitGroup // writes that are under way, answered or not
	served  int            // writes that took effect
	next    *plan          // what becomes of the next write; nil: as the weather is
}

// plan is what becomes of one write.
type plan struct {
	way     int
	pause   time.Duration
	arrived chan struct{} // closed when it came
}

// delayNext has the next write land late: pause after it came, answered to
// whoever waits still or, where it is cut, to nobody.
func (x *target) delayNext(cut bool) (arrived <-chan struct{}) {
	p := &plan{pause: callTimeout / 2, arrived: make(chan struct{})}
	if cut {
		p.way = late
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.next = p
	return p.arrived
}

// weather is how a target behaves.
type weather int

const (
	fair   weather = iota
	slow           // dawdles
	stormy         // refuses, dawdles, loses answers
	down           // cuts every connection
)

// dealings are what a target had to do with one key.
type dealings struct {
	calls       uint64
	busy        map[int]*request // under way, by run
	run         int              // of the newest request
	newest      uint64           // its generation
	answered    uint64           // newest generation whose write was answered
	idempotency map[uint64]string
	states      map[uint64]string // every state that was taken, by generation
}

func newTarget(t *testing.T, seed uint64) *target {
	x := &target{t: t, seed: seed, objects: map[string]string{}, keys: map[string]*dealings{}}
	x.books = newLedger(t)
	x.server = httptest.NewServer(x)
	t.Cleanup(func() {
		x.server.CloseClientConnections()
		x.server.Close()
	})
	return x
}

func (x *target) url() string { return x.server.URL }

func (x *target) set(w weather) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.weather = w
}

// alive says which daemon may be answered; 0: all are dead. What a dead one
// sent counts as never answered.
func (x *target) alive(run int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.run = run
}

// request is one that arrived.
type request struct {
	method, key, body string
	run               int
	generation        uint64
	began             time.Time
	context           context.Context // ends when the daemon hangs up
	rng               *rand.Rand
}

func (r *request) String() string {
	return fmt.Sprintf("%s of generation %d %s by daemon %d", r.method, r.generation, short(r.body), r.run)
}

func (r *request) writes() bool { return r.method != http.MethodGet }

// ways in which a request can go.
const (
	well    = iota
	refused // 500, nothing done
	torn    // done, and 500
	lost    // done, and the connection is cut
	cut     // the connection is cut, nothing done
	late    // the connection is cut, and it is done some time later
	ways
)

func (x *target) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	body, err := io.ReadAll(hr.Body)
	if err != nil {
		return // a dead daemon's request that was never whole
	}
	r, way, pause, err := x.enter(hr, string(body))
	if err != nil {
		x.t.Error(err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if way == late && r.writes() {
		x.leave(r)
		hangUp(w)
		go func() {
			defer x.landing.Done()
			time.Sleep(pause)
			x.do(r, "landed late")
		}()
		return
	}
	defer func() {
		if r.writes() {
			x.landing.Done()
		}
	}()
	time.Sleep(pause) // whether or not anybody waits still
	x.answer(w, r, way)
}

// answer does what r asks for, in its way. The request counts as over before
// the daemon can know that it is.
func (x *target) answer(w http.ResponseWriter, r *request, way int) {
	status, found := http.StatusInternalServerError, "not now"
	switch way {
	case well:
		status, found = x.do(r, "done")
	case torn:
		x.do(r, "done, and answered with 500")
	case lost:
		x.do(r, "done, and the answer lost")
	}
	x.leave(r)
	if way == lost || way == cut || way == late {
		hangUp(w)
		return
	}
	if way == well && r.writes() && r.context.Err() == nil {
		x.answered(r)
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, found)
}

// enter notes that a request arrived and checks what must hold of each one.
func (x *target) enter(hr *http.Request, body string) (*request, int, time.Duration, error) {
	r := &request{method: hr.Method, key: strings.TrimPrefix(hr.URL.Path, "/o/"), body: body, began: time.Now(), context: hr.Context()}
	var err error
	if r.run, err = strconv.Atoi(hr.Header.Get("X-Run")); err != nil {
		return nil, 0, 0, fmt.Errorf("%s %s: header X-Run: %w", r.method, hr.URL, err)
	}
	if r.generation, err = strconv.ParseUint(hr.Header.Get("X-Generation"), 10, 64); err != nil {
		return nil, 0, 0, fmt.Errorf("%s %s: header X-Generation: %w", r.method, hr.URL, err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	k := x.keys[r.key]
	if k == nil {
		k = &dealings{busy: map[int]*request{}, idempotency: map[uint64]string{}, states: map[uint64]string{}}
		x.keys[r.key] = k
	}
	x.check(k, r, hr.Header.Get("Idempotency-Key"))
	k.calls++
	k.busy[r.run] = r
	if r.writes() {
		x.landing.Add(1)
	}
	r.rng = rand.New(rand.NewPCG(x.seed^hash(r.key), k.calls))
	way, pause := x.choose(r)
	return r, way, pause, nil
}

func (x *target) check(k *dealings, r *request, idempotency string) {
	if other := k.busy[r.run]; other != nil && other.context.Err() == nil { // else it was given up
		x.books.failf(r.key, "P3: two requests at once: %s and %s", other, r)
	}
	if r.run < k.run {
		return // the last words of a dead daemon
	}
	if r.generation < k.newest {
		x.books.failf(r.key, "P3: %s arrived after one of generation %d", r, k.newest)
	}
	k.run, k.newest = r.run, r.generation
	if !r.writes() {
		return
	}
	if was := k.idempotency[r.generation]; was != "" && was != idempotency || idempotency == "" {
		x.books.failf(r.key, "P5: %s has idempotency key %q, it was %q", r, idempotency, was)
	}
	k.idempotency[r.generation] = idempotency
}

func (x *target) choose(r *request) (way int, pause time.Duration) {
	switch {
	case x.next != nil && r.writes():
		p := x.next
		x.next = nil
		close(p.arrived)
		return p.way, p.pause
	case x.weather == down:
		return cut, 0
	case x.weather == fair:
		return well, 0
	}
	if r.rng.IntN(3) == 0 {
		pause = time.Duration(r.rng.Float64() * r.rng.Float64() * float64(callTimeout/3))
	}
	if x.weather == stormy && r.rng.IntN(4) == 0 {
		way = 1 + r.rng.IntN(ways-1)
	}
	if way == late {
		pause = time.Duration(r.rng.Float64() * float64(callTimeout/2))
	}
	return way, pause
}

// do lets r take effect, unless it is too late for that.
func (x *target) do(r *request, how string) (status int, found string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	k := x.keys[r.key]
	old, ok := x.objects[r.key]
	switch {
	case r.method == http.MethodGet && ok:
		return http.StatusOK, old
	case r.method == http.MethodGet:
		return http.StatusNotFound, ""
	case time.Since(r.began) > callTimeout*3/4:
		return http.StatusInternalServerError, "" // this machine stalled: past its deadline it must not land
	case r.method == http.MethodPut:
		x.objects[r.key] = r.body
		k.states[r.generation] = r.body
		status = http.StatusNoContent
	case r.method == http.MethodDelete:
		delete(x.objects, r.key)
		k.states[r.generation] = ""
		status = http.StatusNoContent
		if !ok {
			status = http.StatusNotFound
		}
	}
	x.served++
	if x.run != r.run {
		how += ", and that daemon is dead"
	}
	x.books.note(r.key, "target: %s %s", r, how)
	return status, ""
}

// answered checks the order of writes that are answered (P3).
func (x *target) answered(r *request) {
	x.mu.Lock()
	defer x.mu.Unlock()
	k := x.keys[r.key]
	if r.run != x.run {
		return
	}
	if r.generation < k.answered {
		x.books.failf(r.key, "P3: %s was answered after generation %d", r, k.answered)
	}
	k.answered = r.generation
}

func (x *target) leave(r *request) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if busy := x.keys[r.key].busy; busy[r.run] == r {
		delete(busy, r.run)
	}
}

// took returns the state of that generation, as it was taken.
func (x *target) took(key string, generation uint64) (body string, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if k := x.keys[key]; k != nil {
		body, ok = k.states[generation]
	}
	return body, ok
}

// holds returns a copy of all objects.
func (x *target) holds() map[string]string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.objects)
}

// restore makes x hold what it held once, as an old copy does, and nobody to have
// been there.
func (x *target) restore(objects map[string]string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.objects, x.keys, x.weather = maps.Clone(objects), map[string]*dealings{}, down
}

// writes returns how many took effect.
func (x *target) writes() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.served
}

// hangUp ends the connection without an answer.
func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// hash must not differ between runs, so that a seed means the same in all.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range []byte(s) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// short is enough of a payload to tell it from others.
func short(body string) string {
	if len(body) > 24 {
		return body[:24] + "…"
	}
	return body
}
