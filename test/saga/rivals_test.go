package saga

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/pawlsync/pawl/internal/api"
)

// Two callers create one object at the same time (S13): exactly one is told that it
// did, and is its owner; the other one is told of a conflict and gains nothing.
func TestRivals(t *testing.T) {
	w := open(t)
	d, other := running(t, w), running(t, w)
	for _, c := range []struct {
		name   string
		second *daemon
	}{{"one daemon", d}, {"two daemons", other}} {
		t.Run(c.name, func(t *testing.T) {
			var wg sync.WaitGroup
			const atATime = 8
			for lane := range atATime {
				wg.Go(func() {
					for i := lane; i < many(1000, 32)/2; i += atATime {
						if err := w.rivals(t.Context(), d, c.second, bothModes[i/atATime%2]); err != nil {
							t.Errorf("pair %d: %v", i, err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
	if held, err := w.rows(t.Context(), "lock"); err != nil || len(held) > 0 {
		t.Errorf("in the end there are locks or marks: %q %v", held, err)
	}
}

// rivals plays one pair.
func (w *world) rivals(ctx context.Context, a, b *daemon, mode string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	name := newName("rivals")
	trails, forget := w.watch(name, nil)
	defer forget()
	var wg sync.WaitGroup
	var won [2]bool
	var errs [2]error
	for i, d := range []*daemon{a, b} {
		wg.Go(func() {
			l := &load{play: &play{name: name}, op: hotCreate, mode: mode, user: fmt.Sprintf("u%d", i)}
			v, err := d.settle(ctx, l.request(name+l.user), &told{})
			switch code := api.CodeOf(err); {
			case code == api.CodeHeld || code == api.CodeBusy: // the other one has it
			case err != nil:
				errs[i] = err
			case v.Outcome == api.SagaCommitted:
				won[i] = true
			case v.Steps[v.FailedStep-1].Refusal == nil:
				errs[i] = fmt.Errorf("the loser is not told of a refusal: %+v", v)
			default:
				switch v.Steps[v.FailedStep-1].Refusal.Status {
				case "conflict", "already-exists":
				default:
					errs[i] = fmt.Errorf("the loser is told of %+v", v.Steps)
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	if won[0] == won[1] {
		return fmt.Errorf("%s, %s: told that they created it: %v", name, mode, won)
	}
	owner := "u0"
	if won[1] {
		owner = "u1"
	}
	return w.holds(ctx, name, of(name, []string{"#owner@user:" + owner}), map[string]string{"owner": owner}, "", trails)
}
