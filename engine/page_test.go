package engine_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
)

// A page begins after the key that it was given: what Page.Next says, or what somebody
// says who has seen that key last. Whatever comes and goes meanwhile, what is there
// throughout is in exactly one page, and in order.
func TestPagesThatFollowAKeyShowWhatStaysOnceWhateverComesAndGoes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	inBubble(t, nil, func(b *bench) {
		const staying = 60
		b.many(staying, nobody)
		stop := make(chan struct{})
		var others sync.WaitGroup
		for w := range 3 {
			r := rand.New(rand.NewPCG(seed, uint64(w+1)))
			others.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					key := web(fmt.Sprintf("r%04d-%d", r.IntN(staying), w)) // between those that stay, behind each
					if n%2 == 0 {
						_, _ = b.Put(b.t.Context(), engine.Put{Key: key, Payload: []byte("1")})
					} else {
						_, _ = b.Delete(b.t.Context(), engine.Delete{Key: key})
					}
					_, _ = b.Put(b.t.Context(), engine.Put{Key: web(fmt.Sprintf("r%04d", r.IntN(staying))), Payload: fmt.Append(nil, n)})
					time.Sleep(time.Microsecond)
				}
			})
		}
		defer others.Wait()
		defer close(stop)
		for range 30 {
			o := engine.ListOptions{Sink: "web", Limit: 1 + random.IntN(9)}
			seen, last := map[string]int{}, record.Key{}
			for {
				page, err := b.List(b.t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				for i := range page.Items {
					k := page.Items[i].Key
					if k.Name <= last.Name {
						t.Fatalf("%s comes after %s", k, last)
					}
					last = k
					seen[k.Name]++
				}
				if page.Next == "" {
					break
				}
				o.Page = page.Next
				if random.IntN(2) == 0 {
					o.Page = engine.PageAfter(last)
				}
				time.Sleep(time.Microsecond)
			}
			for i := range staying {
				if name := fmt.Sprintf("r%04d", i); seen[name] != 1 {
					t.Errorf("in pages of %d, %s was shown %d times", o.Limit, name, seen[name])
				}
			}
		}
	})
}

func TestAPageMayFollowAKeyThatIsNotThere(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.many(4, nobody)
		for after, want := range map[string]string{"r0001": "r0002", "r0001x": "r0002", "a": "r0000", "r0003": ""} {
			page, err := b.List(b.t.Context(), engine.ListOptions{Limit: 1, Page: engine.PageAfter(web(after))})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if len(page.Items) > 0 {
				got = page.Items[0].Key.Name
			}
			if got != want {
				t.Errorf("after %s comes %q, want %q", after, got, want)
			}
		}
	})
}
