package schedule

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/race"
)

// heapBytes is what lives after a collection.
func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// name returns one of 30 bytes, the length of a namespace and a name in Kubernetes.
func name(buf []byte, i int) []byte {
	return fmt.Appendf(buf[:0], "namespace-%02d/deployment-%07d", i%100, i)[:30]
}

func TestMemory_UnderAHundredBytesAnEntry(t *testing.T) {
	sizes := []int{1_000_000, 5_000_000}
	switch {
	case testing.Short():
		sizes = []int{200_000}
	case race.Enabled: // the sizes are the same, only slower
		sizes = sizes[:1]
	}
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			before := heapBytes()
			s := with("kube")
			var slowest time.Duration
			var most float64
			var buf []byte
			for i := range n {
				buf = name(buf, i)
				k := record.Key{Sink: "kube", Name: string(buf)}
				start := time.Now()
				s.Set(k, Plan{At: t0, Class: Fresh, Phase: record.Pending, Since: t0}) // all pending: the most that an entry can take
				slowest = max(slowest, time.Since(start))
				if i%(1<<14) == 0 && i >= 1<<16 { // also where tables have just grown
					most = max(most, float64(s.Bytes())/float64(i+1))
				}
			}
			heap := heapBytes() - before
			start := time.Now()
			runtime.GC()
			gc := time.Since(start)
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			pause := time.Duration(m.PauseNs[(m.NumGC+255)%256])
			t.Logf("%d entries: %.1f bytes each by Bytes, at most %.1f on the way, %.1f of heap; slowest Set %v; a collection %v, its pause %v",
				n, float64(s.Bytes())/float64(n), most, float64(heap)/float64(n), slowest, gc, pause)
			if per := float64(heap) / float64(n); per >= 100 || most >= 100 {
				t.Errorf("%.1f bytes of heap each, at most %.1f on the way; want under 100", per, most)
			}
			if diff := float64(heap)/float64(s.Bytes()) - 1; diff > 0.05 || diff < -0.05 {
				t.Errorf("Bytes says %d, the heap %d", s.Bytes(), heap)
			}
			runtime.KeepAlive(s)
		})
	}
}

// A schedule that resources come to and leave must not grow.
func TestMemory_SpaceOfRemovedEntriesIsUsedAgain(t *testing.T) {
	s := with("a")
	var full int64
	for round := range 12 {
		for i := range 6_000 {
			s.Set(key("a", fmt.Sprintf("%d-%0*d", round, i%60, i)), plan(t0, Fresh))
		}
		if round == 0 {
			full = s.Bytes()
		}
		for i := range 6_000 {
			s.Remove(key("a", fmt.Sprintf("%d-%0*d", round, i%60, i)))
		}
	}
	if s.Len() != 0 || s.Bytes() > full+full/20 {
		t.Fatalf("%d entries, %d bytes; %d after the first round", s.Len(), s.Bytes(), full)
	}
}

var sizes = []int{1000, 1_000_000}

func loaded(n int) (*Schedule, []record.Key) {
	s := New(Options{})
	s.ConfigureSink("kube", Limits{MaxInFlight: n})
	keys := make([]record.Key, n)
	for i := range keys {
		keys[i] = record.Key{Sink: "kube", Name: string(name(nil, i))}
		s.Set(keys[i], plan(t0.Add(time.Duration(i*7919%n)), Fresh)) // due in another order than put
	}
	return s, keys
}

func BenchmarkSetNew(b *testing.B) {
	s := with("kube")
	var buf []byte
	i := 0
	for b.Loop() {
		buf = name(buf, i)
		s.Set(record.Key{Sink: "kube", Name: string(buf)}, plan(t0.Add(time.Duration(i)), Fresh))
		i++
	}
}

func BenchmarkSetAgain(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, keys := loaded(n)
			i := 0
			for b.Loop() {
				s.Set(keys[i*7919%n], plan(t0.Add(time.Duration(n+i)), Fresh))
				i++
			}
		})
	}
}

// A delivery's whole way: Next, Done, Settle.
func BenchmarkDelivery(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, _ := loaded(n)
			now, i := sec(1e6), 0
			for b.Loop() {
				d, ok := s.Next(now)
				if !ok {
					b.Fatal("nothing due")
				}
				s.Done(d.Key, now, answered)
				s.Settle(d.Key, plan(t0.Add(time.Duration(n+i)), Retry))
				i++
			}
		})
	}
}

func BenchmarkPop(b *testing.B) {
	s, _ := loaded(1_000_000)
	now := sec(1e6)
	for b.Loop() {
		d, ok := s.Next(now)
		if !ok {
			b.StopTimer()
			s, _ = loaded(1_000_000)
			b.StartTimer()
			continue
		}
		_ = d
	}
}

// A thousand sinks, of which ten have work and the rest is idle or blocked.
func BenchmarkThousandSinks(b *testing.B) {
	s := New(Options{})
	for i := range 1000 {
		n := fmt.Sprintf("s%03d", i)
		s.ConfigureSink(n, Limits{})
		at := t0
		switch {
		case i%100 == 0:
		case i%2 == 0:
			s.PauseSink(n, sec(1e9))
		default:
			at = sec(1e8 + float64(i))
		}
		fill(s, n, 100, at, Fresh)
	}
	now := sec(1e6)
	for b.Loop() {
		s.Wake(now)
		d, ok := s.Next(now)
		if !ok {
			b.Fatal("nothing due")
		}
		s.Done(d.Key, now, answered)
		s.Settle(d.Key, plan(now, Fresh))
	}
}
