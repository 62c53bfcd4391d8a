package saga_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/pawlsync/pawl/engine/saga"
	"github.com/pawlsync/pawl/internal/bubble"
)

// An outcome that a crash could still take back is told to nobody.
func TestAnOutcomeIsToldOnlyOnceItIsDurable(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		disk := errors.New("the disk is full")
		var full atomic.Bool
		full.Store(true)
		r := newRig(t, saga.Options{Failpoint: func(point string) error {
			if full.Load() && point == "before-journal adopt 1" {
				return disk
			}
			return nil
		}})
		defer r.close()
		if _, err := r.sagas.Start(t.Context(), pair("s", saga.Optimistic)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		v, err := r.sagas.Get("s")
		if err != nil || v.State.Outcome != "" || v.State.Phase != saga.Forward || r.b.content("foo") == "" {
			t.Fatalf("both are written and the journal can't be: %+v, %v", v.State, err)
		}
		full.Store(false)
		if v, err = r.sagas.Wait(t.Context(), "s"); err != nil || v.State.Outcome != saga.Committed {
			t.Errorf("%+v, %v", v.State, err)
		}
	})
}
