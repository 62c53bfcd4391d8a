package source

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/pawlsync/pawl/engine/record"
)

func TestAKeyOfTheBooksTakesAHundredBytesBesideItsNameAndPlace(t *testing.T) {
	const n = 100_000
	keys := make([]record.Key, n)
	places := make([]string, n)
	for i := range keys {
		keys[i] = record.Key{Sink: "web", Name: fmt.Sprintf("users/%06d", i)}
		places[i] = fmt.Sprintf("users.yaml:%d", i)
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	set := newKeySet()
	for i, key := range keys {
		set.put(key, mark{1, places[i]})
	}
	each := float64(heap()-before) / n
	t.Logf("%.0f bytes a key", each)
	if each > 100 {
		t.Errorf("a key takes %.0f bytes, more than 100", each)
	}
	for i, key := range keys {
		if m, ok := set.get(key); !ok || m.place != places[i] {
			t.Fatalf("%s is %+v, %v", key, m, ok)
		}
		set.remove(key)
		set.remove(key)
	}
	if set.n != 0 {
		t.Errorf("an emptied set counts %d", set.n)
	}
}
