package bubble

import (
	"runtime"
	"testing"
	"time"
)

// With synctest.Test in place of Test, this dies within a second on two
// processors under the race detector.
func TestManyTimersThatNobodyWaitedFor(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	Test(t, func(t *testing.T) {
		const callers, rounds = 16, 1000
		ended := make(chan struct{})
		for range callers {
			go func() {
				for range rounds {
					late := time.NewTimer(time.Millisecond)
					time.Sleep(2 * time.Millisecond)
					select {
					case <-late.C:
					default:
						t.Error("a timer's time has come, and it did not fire")
					}
					fired := make(chan struct{})
					time.AfterFunc(time.Millisecond, func() { close(fired) })
					<-fired
				}
				ended <- struct{}{}
			}()
		}
		for range callers {
			<-ended
		}
	})
	if after := runtime.GOMAXPROCS(0); after != before {
		t.Errorf("%d processors after the bubble, %d before", after, before)
	}
}
