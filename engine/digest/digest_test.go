package digest

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

var seed = flag.Uint64("seed", 0, "of the random sets; 0: a new one")

func item(key, content string) Item {
	return Item{Key: Key(key), Content: Content(sha256.Sum256([]byte(content)))}
}

func TestSumsAreEqualExactlyWhereTheSetsAre(t *testing.T) {
	a := NewTree([]Item{item("a", "1"), item("b", "2"), item("c", "3")})
	for name, c := range map[string]struct {
		items []Item
		same  bool
	}{
		"another order":      {[]Item{item("c", "3"), item("a", "1"), item("b", "2")}, true},
		"one content":        {[]Item{item("a", "1"), item("b", "2"), item("c", "4")}, false},
		"contents exchanged": {[]Item{item("a", "2"), item("b", "1"), item("c", "3")}, false},
		"one missing":        {[]Item{item("a", "1"), item("b", "2")}, false},
		"one more":           {[]Item{item("a", "1"), item("b", "2"), item("c", "3"), item("d", "4")}, false},
	} {
		if got := NewTree(c.items).Sum(nil) == a.Sum(nil); got != c.same {
			t.Errorf("%s: sums are equal: %v, want %v", name, got, c.same)
		}
	}
}

func TestASumIsThatOfItsChildren(t *testing.T) {
	tree := NewTree(random(rand.New(rand.NewPCG(1, 1)), 3000))
	for _, prefix := range [][]byte{nil, {7}, {7, 9}} {
		var count uint64
		n := 0
		tree.Children(prefix, func(child []byte, s Sum) {
			if want := tree.Sum(child); s != want {
				t.Errorf("child %x: %v, and by itself %v", child, s, want)
			}
			if !bytes.Equal(child[:len(prefix)], prefix) || int(child[len(prefix)]) != n {
				t.Errorf("child %d of %x is %x", n, prefix, child)
			}
			count += s.Count
			n++
		})
		if n != 256 || count != tree.Sum(prefix).Count {
			t.Errorf("%x: %d children with %d items, want 256 with %d", prefix, n, count, tree.Sum(prefix).Count)
		}
	}
}

func TestAWholeHashHasNoChildren(t *testing.T) {
	it := item("a", "1")
	tree := NewTree([]Item{it})
	if tree.Sum(it.Key[:]).Count != 1 {
		t.Error("the item is not below its own hash")
	}
	tree.Children(it.Key[:], func(prefix []byte, _ Sum) { t.Errorf("child %x", prefix) })
}

// Whatever two sets are: going down where sums differ finds exactly what differs, and
// leaves alone what is equal.
func TestGoingDownFindsExactlyWhatDiffers(t *testing.T) {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("-seed %d", s)
	r := rand.New(rand.NewPCG(s, s))
	for range 40 {
		ours := random(r, r.IntN(4000))
		theirs := slices.Clone(ours)
		want := map[Hash]bool{}
		for range r.IntN(20) {
			switch n := len(theirs); {
			case n > 0 && r.IntN(3) == 0:
				i := r.IntN(n)
				want[theirs[i].Key] = true
				theirs = slices.Delete(theirs, i, i+1)
			case n > 0 && r.IntN(2) == 0:
				i := r.IntN(n)
				theirs[i].Content[3]++
				want[theirs[i].Key] = true
			default:
				it := item(fmt.Sprint("new", r.Uint64()), "x")
				theirs = append(theirs, it)
				want[it.Key] = true
			}
		}
		a, b := NewTree(slices.Clone(ours)), NewTree(theirs)
		got := map[Hash]bool{}
		var down func(prefix []byte)
		down = func(prefix []byte) {
			if a.Sum(prefix) == b.Sum(prefix) {
				return
			}
			if a.Sum(prefix).Count > 16 {
				a.Children(prefix, func(child []byte, _ Sum) { down(child) })
				return
			}
			differing, extra := Compare(a.Below(prefix), b.Below(prefix))
			for _, k := range append(differing, extra...) {
				got[k] = true
			}
		}
		down(nil)
		if len(got) != len(want) {
			t.Fatalf("found %d differences, want %d", len(got), len(want))
		}
		for k := range want {
			if !got[k] {
				t.Fatalf("%x differs and was not found", k)
			}
		}
	}
}

func TestCompareTellsTheSidesApart(t *testing.T) {
	a := NewTree([]Item{item("both", "1"), item("changed", "1"), item("ours", "1")})
	b := NewTree([]Item{item("both", "1"), item("changed", "2"), item("theirs", "1")})
	differing, extra := Compare(a.Below(nil), b.Below(nil))
	if !slices.Contains(differing, Key("changed")) || !slices.Contains(differing, Key("ours")) || len(differing) != 2 {
		t.Errorf("differing: %x", differing)
	}
	if !slices.Equal(extra, []Hash{Key("theirs")}) {
		t.Errorf("extra: %x", extra)
	}
}

func random(r *rand.Rand, n int) []Item {
	items := make([]Item, n)
	for i := range items {
		items[i] = item(fmt.Sprint("key", i, r.Uint32()), fmt.Sprint(r.Uint64()))
	}
	return items
}

func BenchmarkSum(b *testing.B) {
	tree := NewTree(random(rand.New(rand.NewPCG(1, 1)), 100_000))
	for b.Loop() {
		tree.Sum(nil)
	}
}
