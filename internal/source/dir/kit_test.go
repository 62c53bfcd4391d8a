package dir

import (
	"context"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/source"
)

// desk is an Inlet that keeps what it is told, as the engine would: what a full set
// lacks goes, unless something in it can't be read. Package source tests the real one.
type desk struct {
	t        *testing.T
	late     bool // the test is about to run out of time
	mu       sync.Mutex
	news     *sync.Cond
	has      map[string]string // payloads by "sink/key"
	places   map[string]string // by "sink/key"
	problems map[string]string // messages by "sink/key" or place
	trouble  error
	fulls    int
	puts     []string        // keys, since the first full set, in their order
	last     source.Item     // of them
	deleted  map[string]bool // whatever was, ever
	drops    []string        // keys that Delete was called with
}

func newDesk(t *testing.T) *desk {
	d := &desk{t: t, has: map[string]string{}, places: map[string]string{}, problems: map[string]string{}, deleted: map[string]bool{}}
	d.news = sync.NewCond(&d.mu)
	if end, ok := t.Deadline(); ok {
		timer := time.AfterFunc(time.Until(end)-2*time.Second, func() { d.change(func() { d.late = true }) })
		t.Cleanup(func() { timer.Stop() })
	}
	return d
}

func id(key record.Key, place string) string {
	if key == (record.Key{}) {
		return place
	}
	return key.Sink + "/" + key.Name
}

func (d *desk) change(fn func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fn()
	d.news.Broadcast()
}

func (d *desk) Full(_ context.Context, items iter.Seq2[source.Item, error], kept func() []source.Kept) error {
	has, places, problems := map[string]string{}, map[string]string{}, map[string]string{}
	for it, err := range items {
		if err != nil {
			return nil // cut off
		}
		k := id(it.Key, "")
		if first, twice := places[k]; twice {
			problems[k] = fmt.Sprintf("%s is at %s already", it.Place, first)
			continue
		}
		has[k], places[k] = string(it.Payload), it.Place
	}
	blind := false
	for _, k := range kept() {
		problems[id(k.Key, k.Place)] = k.Place + " " + k.Err.Error()
		blind = blind || k.Key == record.Key{}
	}
	d.change(func() {
		for k, v := range d.has {
			switch _, kept := problems[k]; {
			case has[k] != "":
			case blind || kept:
				has[k] = v
			default:
				d.deleted[k] = true
			}
		}
		d.has, d.problems = has, problems
		maps.Copy(d.places, places)
		d.fulls++
	})
	return nil
}

func (d *desk) Put(_ context.Context, items []source.Item) []error {
	d.change(func() {
		for _, it := range items {
			k := id(it.Key, "")
			d.has[k], d.places[k] = string(it.Payload), it.Place
			d.puts, d.last = append(d.puts, k), it
			delete(d.problems, k)
			delete(d.problems, it.Place)
		}
	})
	return make([]error, len(items))
}

func (d *desk) Keep(kept []source.Kept) {
	d.change(func() {
		for _, k := range kept {
			if k.Err == nil {
				delete(d.problems, id(k.Key, k.Place))
			} else {
				d.problems[id(k.Key, k.Place)] = k.Place + " " + k.Err.Error()
			}
		}
	})
}

func (d *desk) Delete(_ context.Context, keys []record.Key) []error {
	d.change(func() {
		for _, k := range keys {
			delete(d.has, id(k, ""))
			d.deleted[id(k, "")] = true
			d.drops = append(d.drops, id(k, ""))
		}
	})
	return make([]error, len(keys))
}

func (d *desk) DeleteEach(ctx context.Context, keys []record.Key) []error { return d.Delete(ctx, keys) }

func (d *desk) Trouble(err error) { d.change(func() { d.trouble = err }) }

// await waits until ok, which is asked whenever something was told.
func (d *desk) await(ok func() bool) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for !ok() {
		if d.late {
			d.t.Fatalf("what should come does not; there is %d: %.1000v\nproblems: %v\ntrouble: %v", len(d.has), d.has, d.problems, d.trouble)
		}
		d.news.Wait()
	}
}

// wants waits until exactly these are wanted, as "key=payload".
func (d *desk) wants(want ...string) {
	d.t.Helper()
	want = slices.Sorted(slices.Values(want))
	d.await(func() bool {
		var got []string
		for k, v := range d.has {
			got = append(got, strings.TrimPrefix(k, "web/")+"="+v)
		}
		slices.Sort(got)
		return slices.Equal(got, want)
	})
}

// says waits until a problem of that name has the text in it.
func (d *desk) says(name, text string) {
	d.t.Helper()
	d.await(func() bool { return strings.Contains(d.problems[name], text) })
}

// well waits until there are no problems.
func (d *desk) well() {
	d.t.Helper()
	d.await(func() bool { return len(d.problems) == 0 && d.trouble == nil })
}

// neverDeleted fails the test if any of keys was.
func (d *desk) neverDeleted(t *testing.T, keys ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(keys) == 0 && len(d.deleted) > 0 {
		t.Errorf("deleted: %v", slices.Sorted(maps.Keys(d.deleted)))
	}
	for _, k := range keys {
		if d.deleted["web/"+k] {
			t.Errorf("%s was deleted", k)
		}
	}
}

// settle is quick enough for tests, and slower than what they do by half.
const settle = 30 * time.Millisecond

// run runs a source of root until the test ends, or stop is called.
func run(t *testing.T, root string, d *desk, change func(*Source)) (s *Source, stop func()) {
	t.Helper()
	s, err := New(Options{Path: root, Rescan: time.Hour, Settle: settle})
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(s)
	}
	d.mu.Lock()
	fulls := d.fulls
	d.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	var out sync.WaitGroup
	out.Go(func() {
		if err := s.Run(ctx, d); err != nil {
			t.Error(err)
		}
	})
	stop = func() { cancel(); out.Wait() }
	t.Cleanup(stop)
	d.await(func() bool { return d.fulls > fulls || d.trouble != nil })
	return s, stop
}

// doc is a document of the sink web.
func doc(key, payload string) string {
	return "sink: web\nkey: " + key + "\npayload: " + payload + "\n"
}

// docs are documents of the sink web, of "key=payload".
func docs(all ...string) string {
	var out []string
	for _, d := range all {
		key, payload, _ := strings.Cut(d, "=")
		out = append(out, doc(key, payload))
	}
	return strings.Join(out, "---\n")
}

// write writes a file of root, with its directories.
func write(t *testing.T, root, name, content string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// logTo makes a source log to w.
func logTo(w io.Writer) func(*Source) {
	return func(s *Source) { s.log = slog.New(slog.NewTextHandler(w, nil)) }
}

// noWatch is the fault of a system that can watch no more.
func noWatch(*fsnotify.Watcher, string) error { return syscall.ENOSPC }
