package source

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
)

// Held is what the fuse of one source holds: as much of it as was asked for.
type Held struct {
	Items  []HeldItem // by key
	Total  int
	BySink map[string]int
	Next   *record.Key // the last one of Items where more follow
	// Digest stands for the whole list. Who confirms gives it back.
	Digest string
	Why    string
	Since  time.Time // zero: nothing is held
}

// HeldItem is one deletion that waits.
type HeldItem struct {
	Key   record.Key
	Place string // where the source last had it; "" where that was before the start
}

// Held returns what the fuse holds of a source, from behind after, at most limit.
//
// # Errors
//
// ErrUnknown.
func (m *Manager) Held(name string, after *record.Key, limit int) (Held, error) {
	in, err := m.find(name)
	if err != nil {
		return Held{}, err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	h := Held{Total: len(in.held), BySink: map[string]int{}, Digest: in.digest(), Why: in.heldWhy, Since: in.heldAt}
	for key, k := range in.held {
		h.BySink[key.Sink]++
		if after == nil || key.Compare(*after) > 0 {
			h.Items = append(h.Items, HeldItem{key, k.place})
		}
	}
	slices.SortFunc(h.Items, func(a, b HeldItem) int { return a.Key.Compare(b.Key) })
	if len(h.Items) > limit {
		h.Items = h.Items[:limit]
		if limit > 0 {
			h.Next = &h.Items[limit-1].Key
		}
	}
	return h, nil
}

// digest stands for the set of held keys: the sum of their hashes, in whatever order.
// in.mu is held.
func (in *inlet) digest() string {
	var sum [4]uint64
	for key := range in.held {
		h := sha256.Sum256([]byte(key.Sink + "\x00" + key.Name))
		for i := range sum {
			sum[i] += binary.BigEndian.Uint64(h[8*i:])
		}
	}
	var out [32]byte
	for i, s := range sum {
		binary.BigEndian.PutUint64(out[8*i:], s)
	}
	return hex.EncodeToString(out[:])
}

// Confirm deletes exactly what is held, where digest is that of the list; it returns
// how many that were. What is confirmed does not count in the window, and the fuse is
// whole again.
//
// # Errors
//
// ErrUnknown; ErrNothingHeld; ErrChanged where the list is another one by now, and
// then nothing was deleted. Of what could not be deleted the first error, with what
// was deleted: the rest is held still.
func (m *Manager) Confirm(ctx context.Context, name, digest string) (deleted int, err error) {
	in, err := m.alone(name)
	if err != nil {
		return 0, err
	}
	defer in.turn.Unlock()
	in.mu.Lock()
	now, blown := in.digest(), in.fuse.Blown()
	dels := make([]engine.Delete, 0, len(in.held))
	for key, h := range in.held {
		dels = append(dels, in.deletion(key, h))
	}
	in.mu.Unlock()
	switch {
	case len(dels) == 0 && !blown:
		return 0, ErrNothingHeld
	case now != digest:
		return 0, fmt.Errorf("%w; there are %d now", ErrChanged, len(dels))
	}
	in.log.Warn("an operator confirmed deletions", "resources", len(dels))
	items := in.remove(context.WithoutCancel(ctx), dels) // a caller who hangs up has confirmed
	deleted, left, failed := outcome(items)
	in.mu.Lock()
	in.mended(true)
	in.fuse.Saw(time.Now(), in.owned.n)
	in.mu.Unlock()
	err = in.save()
	if left > 0 {
		err = errors.Join(fmt.Errorf("%d of %d could not be deleted and are held still: %w", left, len(dels), failed), err)
	}
	return deleted, err
}
