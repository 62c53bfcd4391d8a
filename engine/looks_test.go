package engine

import (
	"testing"
	"testing/synctest"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/bubble"
)

// A look waits for the delivery that departed before it. If that one waited for the
// look in turn, neither would ever go on.
func TestTheDeliveryThatALookWaitsForDoesNotWaitForTheLook(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		key := record.Key{Sink: "web", Name: "a"}
		f, l := newFlights(), looks{byKey: map[record.Key]*look{}}
		before := f.depart(key)
		begun := make(chan func())
		go func() {
			end, err := l.begin(t.Context(), key, &f)
			if err != nil {
				t.Error(err)
			}
			begun <- end
		}()
		synctest.Wait()
		if l.over(key, before) != nil {
			t.Error("the delivery waits for the look that waits for it")
		}
		close(before.landed)
		end := <-begun
		over := l.over(key, f.depart(key))
		if over == nil {
			t.Fatal("a later delivery does not wait")
		}
		end()
		<-over
		if l.over(key, nil) != nil {
			t.Error("the look never ends")
		}
	})
}
