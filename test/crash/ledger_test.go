package crash

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// ledger holds what clients asked for and what they were answered. A change
// whose answer was lost may have been stored or not, until somebody looks.
type ledger struct {
	t     *testing.T
	began time.Time

	mu     sync.Mutex
	newest uint64 // generation of any change that was answered
	keys   map[string]*account
	failed map[string]bool
}

// account is one key's part. A body of "" is a deletion, or nothing.
type account struct {
	base     state             // what was there when somebody looked last
	answered map[uint64]string // since then, by generation
	open     map[string]int    // bodies that were asked for since then, without any answer
	lines    []line
}

// state is what is stored of a key.
type state struct {
	generation uint64
	body       string
	gone       bool // there is no record; generation is that of what was known last
}

type line struct {
	at   time.Duration
	text string
}

func newLedger(t *testing.T) *ledger {
	return &ledger{t: t, began: time.Now(), keys: map[string]*account{}, failed: map[string]bool{}}
}

// account returns key's; l.mu is held.
func (l *ledger) account(key string) *account {
	a := l.keys[key]
	if a == nil {
		a = &account{base: state{gone: true}, answered: map[uint64]string{}, open: map[string]int{}}
		l.keys[key] = a
	}
	return a
}

// note adds a line to key's history.
func (l *ledger) note(key, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(key, fmt.Sprintf(format, args...))
}

func (l *ledger) write(key, text string) {
	a := l.account(key)
	a.lines = append(a.lines, line{time.Since(l.began), text})
}

// failf fails the test, and prints key's history at its end.
func (l *ledger) failf(key, format string, args ...any) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	l.write(key, "FAILED: "+text)
	if !l.failed[key] && len(l.failed) < 5 {
		l.t.Errorf("%s: %s", key, text)
	}
	l.failed[key] = true
}

// histories prints those of the first keys that failed.
func (l *ledger) histories() {
	l.mu.Lock()
	defer l.mu.Unlock()
	printed := 0
	for key := range l.failed {
		if printed++; printed > 3 {
			return
		}
		var b strings.Builder
		lines := l.keys[key].lines
		for _, x := range lines[max(0, len(lines)-60):] {
			fmt.Fprintf(&b, "\n  %9s %s", x.at.Round(time.Millisecond), x.text)
		}
		l.t.Logf("history of %s:%s", key, b.String())
	}
}

// asking is a change on its way to the daemon.
type asking struct {
	l     *ledger
	key   string
	body  string
	floor uint64 // newest generation that had been answered before it was asked for
}

func (l *ledger) ask(key, body string) *asking {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.account(key).open[body]++
	l.write(key, "asked for "+orDeletion(body))
	return &asking{l: l, key: key, body: body, floor: l.newest}
}

func orDeletion(body string) string {
	if body == "" {
		return "deletion"
	}
	return short(body)
}

// granted notes that the change was stored under generation. Generations grow,
// over all keys and all daemons.
func (q *asking) granted(generation uint64) {
	q.l.mu.Lock()
	a := q.l.account(q.key)
	was, twice := a.answered[generation]
	a.answered[generation] = q.body
	a.open[q.body]--
	q.l.newest = max(q.l.newest, generation)
	q.l.write(q.key, fmt.Sprintf("answered %s: generation %d", orDeletion(q.body), generation))
	q.l.mu.Unlock()
	if generation <= q.floor {
		q.l.failf(q.key, "generation %d was given out after %d had been", generation, q.floor)
	}
	if twice {
		q.l.failf(q.key, "generation %d was given to %s and to %s", generation, orDeletion(was), orDeletion(q.body))
	}
}

// unanswered notes that nobody knows what became of the change.
func (q *asking) unanswered(err error) {
	q.l.note(q.key, "no answer to %s: %v", orDeletion(q.body), err)
}

// refused notes that nothing is stored of the change, and why.
func (q *asking) refused(why any) {
	q.l.mu.Lock()
	defer q.l.mu.Unlock()
	q.l.account(q.key).open[q.body]--
	q.l.write(q.key, fmt.Sprintf("%s changed nothing: %v", orDeletion(q.body), why))
}

// promises returns, of this moment and by key, the newest state that was
// answered: it, or a newer one, is to be found from now on.
func (l *ledger) promises() map[string]state {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]state{}
	for key, a := range l.keys {
		newest := a.base
		for generation, body := range a.answered {
			if generation > newest.generation {
				newest = state{generation: generation, body: body}
			}
		}
		out[key] = newest
	}
	return out
}

// broken says how what is stored of key breaks the promise of newest, or nothing (P1).
func (l *ledger) broken(key string, newest, stored state) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, n := l.account(key), newest
	deleted := n.gone || n.body == "" || a.open[""] > 0
	for generation, body := range a.answered {
		deleted = deleted || generation > n.generation && body == ""
	}
	body, known := a.answered[stored.generation]
	switch {
	case stored.gone && deleted:
		return ""
	case stored.gone:
		return fmt.Sprintf("nothing is stored, though generation %d, %s, was answered", n.generation, short(n.body))
	case stored.generation < n.generation:
		return fmt.Sprintf("generation %d, %s, is stored, though %d, %s, was answered", stored.generation, orDeletion(stored.body), n.generation, orDeletion(n.body))
	case stored.generation == n.generation && !n.gone:
		body, known = n.body, true
	}
	if known && stored.body != body {
		return fmt.Sprintf("generation %d is stored as %s, and was answered as %s", stored.generation, orDeletion(stored.body), orDeletion(body))
	}
	if !known && a.open[stored.body] <= 0 {
		return fmt.Sprintf("generation %d is stored as %s, which nobody asked for since", stored.generation, orDeletion(stored.body))
	}
	return ""
}

// settle checks what is stored while nobody asks for changes (P1) and makes it
// the base of what follows: what was not stored by now never will be.
func (l *ledger) settle(stored map[string]state) {
	l.t.Helper()
	promises := l.promises()
	for key := range stored {
		if _, known := promises[key]; !known {
			l.failf(key, "P1: it is stored, and nobody ever asked for it")
		}
	}
	for key, p := range promises {
		s, ok := stored[key]
		if !ok {
			s = state{generation: p.generation, gone: true}
		}
		if why := l.broken(key, p, s); why != "" {
			l.failf(key, "P1: %s", why)
		}
		l.mu.Lock()
		a := l.account(key)
		a.base, a.answered, a.open = s, map[uint64]string{}, map[string]int{}
		l.newest = max(l.newest, s.generation)
		l.mu.Unlock()
	}
}

// bodies returns all that were answered since somebody looked.
func (l *ledger) bodies(key string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.account(key).answered))
}
