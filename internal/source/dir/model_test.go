package dir

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

var seedFlag = flag.Uint64("seed", 0, "seed of random choices; 0: a new one each time")

// world is a tree, and what it should come to.
type world struct {
	t     *testing.T
	r     *rand.Rand
	root  string
	files map[string]map[string]string // payloads by file and key; a key is in one file
	n     int
}

// save writes a file as it should be, another one that takes its place.
func (w *world) save(name string) {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(w.files[name])) {
		all = append(all, key+"="+w.files[name][key])
	}
	content := docs(all...)
	if len(all) == 0 {
		content = "# nothing\n"
	}
	write(w.t, w.root, ".new", content)
	must(w.t, os.MkdirAll(filepath.Dir(filepath.Join(w.root, name)), 0o755))
	must(w.t, os.Rename(filepath.Join(w.root, ".new"), filepath.Join(w.root, name)))
}

func (w *world) any() string {
	names := slices.Sorted(maps.Keys(w.files))
	return names[w.r.IntN(len(names))]
}

func (w *world) newName() string {
	w.n++
	return fmt.Sprintf("d%d/%d.yaml", w.r.IntN(4), w.n)
}

// step does something to the tree, and returns the keys that went with it.
func (w *world) step() (gone []string) {
	switch name := w.any(); w.r.IntN(6) {
	case 0: // a new file
		name := w.newName()
		w.files[name] = map[string]string{}
		for range w.r.IntN(4) {
			w.n++
			w.files[name][fmt.Sprintf("k%d", w.n)] = "1"
		}
		w.save(name)
	case 1: // other contents
		for key := range w.files[name] {
			w.n++
			w.files[name][key] = fmt.Sprint(w.n)
		}
		w.save(name)
	case 2: // a file is renamed
		to := w.newName()
		must(w.t, os.MkdirAll(filepath.Dir(filepath.Join(w.root, to)), 0o755))
		must(w.t, os.Rename(filepath.Join(w.root, name), filepath.Join(w.root, to)))
		w.files[to] = w.files[name]
		delete(w.files, name)
	case 3: // documents move to another file
		to := w.any()
		if to != name {
			maps.Copy(w.files[to], w.files[name])
			w.files[name] = map[string]string{}
			w.save(to)
			w.save(name)
		}
	case 4: // a file goes
		if len(w.files) > 5 {
			must(w.t, os.Remove(filepath.Join(w.root, name)))
			gone = slices.Collect(maps.Keys(w.files[name]))
			delete(w.files, name)
		}
	case 5: // a directory is renamed
		from := filepath.Dir(name)
		w.n++
		to := fmt.Sprintf("d%d-%d", w.r.IntN(4), w.n)
		must(w.t, os.Rename(filepath.Join(w.root, from), filepath.Join(w.root, to)))
		for _, name := range slices.Sorted(maps.Keys(w.files)) {
			if rest, ok := strings.CutPrefix(name, from+"/"); ok {
				w.files[to+"/"+rest] = w.files[name]
				delete(w.files, name)
			}
		}
	}
	return gone
}

func (w *world) want() (all []string) {
	for _, docs := range w.files {
		for key, payload := range docs {
			all = append(all, key+"="+payload)
		}
	}
	return all
}

// Whatever happens to a tree, what is told comes to what is in it, and what was in it all
// the time is never deleted on the way.
func TestWhateverHappensToATreeNothingIsForgottenAndNothingDeletedByMistake(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64() >> 20
	}
	t.Logf("played again by: go test ./internal/source/dir -run '^%s$' -seed %d", t.Name(), seed)
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 1)), root: t.TempDir(), files: map[string]map[string]string{}}
	for range 8 {
		name := w.newName()
		w.n++
		w.files[name] = map[string]string{fmt.Sprintf("k%d", w.n): "1"}
		w.save(name)
	}
	d := newDesk(t)
	s, _ := run(t, w.root, d, patiently)
	rounds := 25
	if testing.Short() {
		rounds = 5
	}
	gone := map[string]bool{}
	for range rounds {
		for range 1 + w.r.IntN(15) {
			for _, key := range w.step() {
				gone["web/"+key] = true
			}
			if w.r.IntN(20) == 0 {
				s.Rescan()
			}
		}
		d.wants(w.want()...)
		d.well()
	}
	for key := range d.deleted {
		if !gone[key] {
			t.Errorf("%s was deleted, though it was always there", key)
		}
	}
}

func TestWhatIsRememberedOfADocumentIsLittle(t *testing.T) {
	const files, perFile = 1000, 20
	root, d := t.TempDir(), newDesk(t)
	for i := range files {
		var all []string
		for j := range perFile {
			all = append(all, fmt.Sprintf("team-%d/service-%d=%q", i, j, strings.Repeat("x", 1000)))
		}
		write(t, root, fmt.Sprintf("%d.yaml", i), docs(all...))
	}
	s, stop := run(t, root, d, nil)
	stop()
	with := heap()
	s.index, s.list = newIndex(), nil
	if each := (with - heap()) / (files * perFile); each < 50 || each > 400 {
		t.Errorf("%d bytes are remembered of a document, want some 200", each)
	} else {
		t.Logf("%d bytes are remembered of a document", each)
	}
}

func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
