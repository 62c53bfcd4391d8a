package schedule

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/record"
)

func TestHeap_StaysOrdered(t *testing.T) {
	r := rand.New(rand.NewPCG(seed(t), 0))
	s := &slab{free: none}
	h := &idHeap{}
	var ids []uint32
	for range 3 * heapChunk {
		id, e := s.take()
		e.t[byAge] = r.Int64N(1000)
		h.push(s, byAge, id)
		ids = append(ids, id)
	}
	for len(ids) > 0 {
		for range min(len(ids), 100) {
			i := r.IntN(len(ids))
			if r.IntN(3) == 0 {
				s.at(ids[i]).t[byAge] = r.Int64N(1000)
				h.fix(s, byAge, ids[i])
				continue
			}
			h.remove(s, byAge, ids[i])
			if s.at(ids[i]).queued(byAge) {
				t.Fatal("removed and still queued")
			}
			ids[i] = ids[len(ids)-1]
			ids = ids[:len(ids)-1]
		}
		if h.n != len(ids) {
			t.Fatalf("%d in the heap, want %d", h.n, len(ids))
		}
		for i := range h.n {
			if got := s.at(h.get(i)).pos[byAge]; got != uint32(i) {
				t.Fatalf("the entry at %d says that it is at %d", i, got)
			}
			if i > 0 && before(s, byAge, h.get(i), h.get((i-1)/4)) {
				t.Fatalf("%d comes before its parent", i)
			}
		}
	}
	if len(h.chunks) > 2 {
		t.Errorf("an empty heap keeps %d chunks", len(h.chunks))
	}
}

func TestNames_TheEndOfAChunkIsUsed(t *testing.T) {
	n := &names{}
	perChunk := namesChunk / 1000
	for range perChunk + 1 {
		n.put(strings.Repeat("x", 1000))
	}
	if a := n.put(strings.Repeat("y", namesChunk%1000)); a>>namesBits != 0 || len(n.chunks) != 2 {
		t.Errorf("put at %#x of %d chunks", a, len(n.chunks))
	}
}

func TestNames_KeepWhatIsPut(t *testing.T) {
	r := rand.New(rand.NewPCG(seed(t), 0))
	n := &names{}
	kept := map[uint32]string{}
	for i := range 20_000 {
		name := fmt.Sprintf("%0*d", r.IntN(60), i)
		if i%100 == 0 {
			name = strings.Repeat("z", r.IntN(record.MaxKeyBytes+1))
		}
		a := n.put(name)
		if old, ok := kept[a]; ok {
			t.Fatalf("%#x is taken by %q", a, old)
		}
		kept[a] = name
		for a, name := range kept {
			if r.IntN(3) == 0 {
				break
			}
			if got := string(n.bytes(a, len(name))); got != name {
				t.Fatalf("%q became %q", name, got)
			}
			n.drop(a, len(name))
			delete(kept, a)
		}
	}
}

func TestTable_FindsWhatIsThereAndNothingElse(t *testing.T) {
	r := rand.New(rand.NewPCG(seed(t), 0))
	s := with("a", "b")
	there := map[string]bool{}
	for range 60_000 {
		n := fmt.Sprint(r.IntN(10_000))
		if there[n] = r.IntN(3) > 0; there[n] {
			s.Set(key("a", n), Plan{})
		} else {
			s.Remove(key("a", n))
		}
	}
	for i := range 10_000 {
		n := fmt.Sprint(i)
		if _, ok := s.Lookup(key("a", n)); ok != there[n] {
			t.Fatalf("%s: found %v, want %v", n, ok, there[n])
		}
	}
	s.Set(key("a", "x"), Plan{})
	if _, ok := s.lookup(s.byName["b"], "x", s.hash(s.byName["a"], "x")); ok {
		t.Error("found in another sink whose key has the same hash")
	}
}
