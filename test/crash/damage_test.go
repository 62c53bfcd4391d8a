package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
)

// TestDamagedFilesAreNeverTakenForEmptyOnes damages each kind of file in a store
// in several ways. The daemon either starts and has everything, or names what it
// can't read, or refuses and says what was lost and how to go on; --accept-loss
// then goes on with what is there.
func TestDamagedFilesAreNeverTakenForEmptyOnes(t *testing.T) {
	rng := random(t)
	target := newTarget(t, rng.Uint64())
	defer target.books.histories()
	s := newSite(t, folder(t), target)
	x := &damaged{site: s, whole: filepath.Join(s.dir, "whole"), objects: populate(t, s)}
	x.promises = target.books.promises()
	must(t, os.Rename(s.store, x.whole))
	t.Run("a payload", x.payload)
	for _, kind := range []string{"journal/*.log", "mark", "data/MANIFEST", "data/*.mem", "data/*.vlog", "data/*.sst", "data/KEYREGISTRY", "data/DISCARD"} {
		for _, d := range damages[:many(len(damages), 2)] {
			t.Run(fmt.Sprintf("%s %s", strings.ReplaceAll(kind, "/", " "), d.name), func(t *testing.T) {
				x.run(t, rng, kind, d.do)
			})
		}
	}
}

// payload damages one resource's payload where it stands, and checks that this
// one alone is missed, by name.
func (x *damaged) payload(t *testing.T) {
	const key = "k/062" // put before the shutdown, large enough for the value log, and never since
	must(t, copyTree(x.whole, x.store))
	body := []byte(x.promises[key].body)
	paths, err := filepath.Glob(filepath.Join(x.store, "data", "*.vlog"))
	must(t, err)
	damaged := false
	for _, path := range paths {
		b, err := os.ReadFile(path)
		must(t, err)
		if at := bytes.Index(b, body); at >= 0 {
			b[at+len(body)/2] ^= 1
			must(t, os.WriteFile(path, b, 0o600))
			damaged = true
		}
	}
	if !damaged {
		t.Fatalf("%s is in no value log", key)
	}
	x.target.restore(x.objects)
	s := &site{t: t, dir: x.dir, store: x.store, target: x.target, runs: x.runs}
	defer func() { x.runs = s.runs }()
	if report, err := s.command("store", "check", x.store); err == nil || !mentions(report, key) {
		t.Errorf("`pawl store check` does not name %s:\n%s", key, report)
	}
	d := s.open()
	defer d.kill()
	if lost := x.missing(t, d); !slices.Equal(lost, []string{key}) {
		t.Errorf("%v can't be read, want %s alone", lost, key)
	}
}

// populate makes a store with something in every kind of file: what was stored
// before a shutdown is in tables, what came since in logs, and some of it waits.
func populate(t *testing.T, s *site) (objects map[string]string) {
	t.Helper()
	put := func(d *daemon, n, size int) {
		for i := range n {
			c := &worker{load: &load{d: d, books: s.target.books}, rng: rand.New(rand.NewPCG(uint64(i), uint64(size)))}
			key, body := fmt.Sprintf("k/%03d", i), fmt.Sprintf(`{"n":%d,"pad":%q}`, number.Add(1), strings.Repeat("x", size*(1+i%3)))
			q := c.books.ask(key, body)
			res, err := d.Put(t.Context(), web(key), api.PutRequest{Payload: json.RawMessage(body)})
			must(t, c.answer(q, res, err))
		}
	}
	d := s.open()
	put(d, 90, 600)
	converge(t, d, s.target)
	must(t, d.terminate())
	d = s.open()
	put(d, 60, 500)
	converge(t, d, s.target)
	s.target.set(down)
	put(d, 30, 400)
	d.kill()
	return s.target.holds()
}

// damages are what happens to a file, of which written bytes hold something.
var damages = []struct {
	name string
	do   func(f *os.File, written int64, rng *rand.Rand) error
}{
	{"with a bit flipped", flip},
	{"cut short", func(f *os.File, written int64, rng *rand.Rand) error { return f.Truncate(rng.Int64N(written)) }},
	{"with another bit flipped", flip},
	{"overwritten with zeros", func(f *os.File, written int64, rng *rand.Rand) error {
		from := rng.Int64N(written)
		_, err := f.WriteAt(make([]byte, min(4096, written-from)), from)
		return err
	}},
	{"without a byte", func(f *os.File, _ int64, _ *rand.Rand) error { return f.Truncate(0) }},
}

func flip(f *os.File, written int64, rng *rand.Rand) error {
	at, b := rng.Int64N(written), make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		return err
	}
	b[0] ^= 1 << rng.IntN(8)
	_, err := f.WriteAt(b, at)
	return err
}

// damaged is a store that is damaged again and again.
type damaged struct {
	*site
	whole    string // what the store was
	promises map[string]state
	objects  map[string]string // of the target
}

func (x *damaged) run(t *testing.T, rng *rand.Rand, kind string, damage func(*os.File, int64, *rand.Rand) error) {
	must(t, copyTree(x.whole, x.store))
	path := largest(t, x.store, kind)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	must(t, damage(f, written(t, path), rng))
	must(t, f.Close())
	x.target.restore(x.objects)

	s := &site{t: t, dir: x.dir, store: x.store, target: x.target, runs: x.runs}
	defer func() { x.runs = s.runs }()
	report, checkErr := s.command("store", "check", x.store)
	d := s.start()
	if err := d.wait(); err != nil {
		if checkErr == nil {
			t.Errorf("the daemon refuses, and `pawl store check` found nothing:\n%s\n%s", report, d.log)
		}
		t.Logf("refused: %s", lastLine(d.log.String()))
		x.refused(t, s, d)
		return
	}
	lost := x.missing(t, d)
	if len(lost) > 0 && checkErr == nil {
		t.Errorf("%d resources can't be read, and `pawl store check` found nothing:\n%s", len(lost), report)
	}
	t.Logf("started; %d can't be read", len(lost))
	d.kill()
}

// missing returns the keys that can't be read, and fails the test for those that
// are wrong without a word.
func (x *damaged) missing(t *testing.T, d *daemon) (lost []string) {
	t.Helper()
	for key, p := range x.promises {
		r, err := d.Get(t.Context(), web(key), client.GetOptions{Payload: true})
		switch why := x.target.books.broken(key, p, state{generation: r.Generation, body: string(r.Payload)}); {
		case err == nil && why == "":
		case err == nil:
			t.Errorf("%s: lost without a word: %s", key, why)
		case api.CodeOf(err) == api.CodeNotFound:
			t.Errorf("%s: it is gone without a word", key)
		case !mentions(err.Error(), "damaged") || !mentions(err.Error(), key):
			t.Errorf("%s: %q does not say that it is damaged, and which", key, err)
		default:
			lost = append(lost, key)
		}
	}
	return lost
}

// refused checks what a daemon says that does not start, and goes on as it says.
func (x *damaged) refused(t *testing.T, s *site, d *daemon) {
	t.Helper()
	_ = d.end()
	said := d.log.String()
	if !mentions(said, "lost", "damaged", "can't be read") || !mentions(said, x.store) || !mentions(said, "--accept-loss", "store check", "restore a backup") {
		t.Errorf("the daemon does not say what is lost, where, and how to go on:\n%s", said)
	}
	if !mentions(said, "--accept-loss") {
		return
	}
	d = s.start("--accept-loss")
	if err := d.wait(); err != nil {
		t.Errorf("--accept-loss: %v\n%s", err, d.log)
		return
	}
	defer d.kill()
	sinks, err := d.Sinks(t.Context())
	must(t, err)
	if len(sinks) != 1 || !sinks[0].Suspended || sinks[0].SuspendReason != record.ReasonRestored {
		t.Errorf("after an accepted loss the sink is %+v, want it suspended as restored", sinks)
	}
	before := x.target.writes()
	x.target.set(fair)
	if out, err := s.command("resume", "--sink", "web", "--address", d.address); err != nil {
		t.Errorf("pawl resume: %v: %s", err, out)
	}
	x.left(t, d)
	t.Logf("with the loss accepted: %d writes", x.target.writes()-before)
}

// left checks that what is there after an accepted loss was put once, goes out,
// and that nothing else at the target is touched.
func (x *damaged) left(t *testing.T, d *daemon) {
	t.Helper()
	settled(t, d)
	// What is acked already is looked at by and by (R34).
	eventually(t, "the target holds what is stored", func(ctx context.Context) error {
		holds := x.target.holds()
		for r, err := range d.All(ctx, client.ListOptions{Payloads: true, Limit: 1000}) {
			if err != nil {
				return err
			}
			if holds[r.Key] != string(r.Payload) {
				return fmt.Errorf("%s differs", r.Key)
			}
		}
		return nil
	})
	left := x.target.holds()
	there := map[string]bool{}
	for r, err := range d.All(t.Context(), client.ListOptions{Payloads: true, Limit: 1000}) {
		must(t, err)
		there[r.Key] = true
		if left[r.Key] != string(r.Payload) {
			t.Errorf("%s: generation %d, %s, is acked, and the target holds %s", r.Key, r.Generation, short(string(r.Payload)), orDeletion(left[r.Key]))
		}
		if !slices.Contains(x.target.books.bodies(r.Key), string(r.Payload)) {
			t.Errorf("%s: %s is stored, which nobody ever put", r.Key, orDeletion(string(r.Payload)))
		}
	}
	for key, was := range x.objects {
		if !there[key] && left[key] != was {
			t.Errorf("%s: it was lost, and the target's object was touched", key)
		}
	}
}

func mentions(text string, any ...string) bool {
	return slices.ContainsFunc(any, func(part string) bool { return strings.Contains(text, part) })
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// largest returns the file of that kind with the most in it.
func largest(t *testing.T, store, kind string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(store, kind))
	must(t, err)
	if len(paths) == 0 {
		t.Skip("the store has no such file")
	}
	return slices.MaxFunc(paths, func(a, b string) int { return int(written(t, a) - written(t, b)) })
}

// written returns up to where a file holds anything; its end are often zeros.
func written(t *testing.T, path string) int64 {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	n := len(b)
	for n > 0 && b[n-1] == 0 {
		n--
	}
	return max(int64(n), 1)
}
