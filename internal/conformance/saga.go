package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// player plays the engine in one step of a saga's run, at one resource.
type player struct {
	t       *T
	o       *thing
	run     sink.Run
	payload []byte // empty: the step is a deletion
	mode    sink.Mode
	gen     uint64
	acked   *record.Acked // when the run began
}

// aStep is the place of a run's first step in its saga: any but 0, which is also
// what an adapter sends that forgot the step.
const aStep = 2

// play makes a step of a new run that wants payload at o; of nil, that it is gone.
func (t *T) play(o *thing, payload []byte, mode sink.Mode, locks ...string) *player {
	slices.Sort(locks)
	s := &player{t: t, o: o, payload: payload, mode: mode, gen: t.gen.Add(1), acked: o.acked,
		run: sink.Run{ID: hexID(), Step: aStep, Locks: locks}}
	t.runs = append(t.runs, s)
	return s
}

// creates makes a step of a new run that creates the object, and looks.
func (t *T) creates(o *thing, template []byte, locks ...string) *player {
	s := t.play(o, o.content(template), sink.CreateOnly, locks...)
	s.look()
	return s
}

// updates makes a step of a new run that replaces the object, and looks.
func (t *T) updates(o *thing, template []byte) *player {
	s := t.play(o, o.content(template), sink.Upsert)
	s.look()
	return s
}

// next makes the run's next step, at another resource, and looks. held says
// whether the run is to have its locks already.
func (s *player) next(o *thing, template []byte, held bool) *player {
	n := *s
	n.o, n.payload, n.gen, n.acked = o, o.content(template), s.t.gen.Add(1), o.acked
	n.run.Step++
	n.run.Held, n.run.Before = held, nil
	n.look()
	return &n
}

// as is the same step as another run, or another step, would ask about it.
func (s *player) as(id string, step int) *player {
	n := *s
	n.run.ID, n.run.Step = id, step
	return &n
}

// hexID is a name of a run, or a lock: 32 hexadecimal digits that no other has.
func hexID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func (s *player) request() *sink.Request {
	run := s.run
	return &sink.Request{
		Key: record.Key{Sink: s.t.name, Name: s.o.key}, Generation: s.gen, Payload: s.payload, Hash: record.HashOf(s.payload),
		IdempotencyKey: fmt.Sprintf("%s-%d", run.ID, run.Step), Conflict: record.SourceWins, Mode: s.mode,
		Acked: s.acked, Run: &run, Epoch: s.t.kit.nonce,
	}
}

// ask is Observe as the engine has it, without an image: it is to report one.
func (s *player) ask() (sink.Result, *sink.Image) {
	s.run.Before = nil
	res := s.t.sink.Observe(s.t.ctx, s.request())
	switch o := res.Observation; {
	case absent(res):
		return res, &sink.Image{}
	case res.Status == sink.OK && o != nil:
		return res, &sink.Image{Exists: true, CID: o.CID, UID: o.UID, Content: o.Content}
	}
	return res, nil
}

// look takes the image of what is there; the step's write is conditional on it.
func (s *player) look() *sink.Image {
	res, image := s.ask()
	if image == nil {
		s.t.Failf("asked by a saga for the image of the object, Observe answered %s", describe(res))
	}
	if image.Exists && image.CID == "" {
		s.t.Failf("the image that Observe gives has no cid, so that no write can be conditional on it: %s", describe(res))
	}
	s.run.Before = image
	return image
}

// now is the image of the object at this moment; the step's own stays.
func (s *player) now() *sink.Image {
	n := *s
	return n.look()
}

func (s *player) write() sink.Result {
	if len(s.payload) > 0 {
		return s.t.sink.Apply(s.t.ctx, s.request())
	}
	return s.t.sink.Delete(s.t.ctx, s.request())
}

func (s *player) restore() sink.Result { return s.t.sink.Restore(s.t.ctx, s.request()) }
func (s *player) unlock() sink.Result  { return s.t.sink.Unlock(s.t.ctx, s.request()) }

// ours asks whether the object bears the step's mark. A bare NOT_FOUND does not say.
func (s *player) ours() sink.Tri {
	res := s.t.sink.Observe(s.t.ctx, s.request())
	switch o := res.Observation; {
	case res.Status != sink.OK && res.Status != sink.NotFound:
		s.t.Failf("asked by a saga for its mark, Observe answered %s", describe(res))
	case o != nil:
		return o.Ours
	}
	return sink.Unknown
}

// mustWrite fails the check where the step is not written.
func (s *player) mustWrite(when string) {
	res := s.untilDone(s.write)
	if res.Status != sink.OK && (len(s.payload) > 0 || res.Status != sink.NotFound) {
		s.t.Failf("%s, the saga's write was answered %s", when, describe(res))
	}
}

// mustRestore fails the check where Restore does not undo the step, twice over.
func (s *player) mustRestore(what string) {
	for _, time := range []string{"", " a second time"} {
		if res := s.untilDone(s.restore); res.Status != sink.OK {
			s.t.Failf("Restore of %s%s answered %s", what, time, describe(res))
		}
	}
}

// mustUnlock fails the check where Unlock does not give all up.
func (s *player) mustUnlock(when string) {
	if res := s.unlock(); res.Status != sink.OK {
		s.t.Failf("%s, Unlock answered %s", when, describe(res))
	}
}

// untilDone makes a call again for as long as the target is at it.
func (s *player) untilDone(call func() sink.Result) sink.Result {
	res := call()
	for n := 0; res.Status == sink.InProgress && n < maxLooks; n++ {
		s.t.pause()
		res = call()
	}
	return res
}

// refused fails the check where a write was not refused for what it found, or has
// changed the object all the same; was is the object's image before it.
func (s *player) refused(res sink.Result, was *sink.Image, when string, want ...sink.Status) {
	if !slices.Contains(want, res.Status) {
		s.t.Failf("%s, %s is wanted, and the answer was %s", when, wordsOf(want), describe(res))
	}
	if now := s.now(); !sameObject(now, was) {
		s.t.Failf("%s, the answer was %s, and the object was changed all the same: its cid was %q, and is %q", when, describe(res), was.CID, now.CID)
	}
}

func sameObject(a, b *sink.Image) bool {
	return a.Exists == b.Exists && a.CID == b.CID && a.UID == b.UID
}

func wordsOf(list []sink.Status) (s string) {
	for i, status := range list {
		if i > 0 {
			s += " or "
		}
		s += status.String()
	}
	return s
}

// giveUp unlocks what the check's runs hold at a real target.
func (t *T) giveUp() {
	for _, s := range t.runs {
		t.sink.Unlock(context.WithoutCancel(t.ctx), s.request())
	}
}

// needsMark skips the check for an adapter that marks nothing.
func (t *T) needsMark() {
	if !t.sink.Manifest().Marks {
		t.Skipf("the manifest does not claim mark")
	}
}

// needsLock skips the check for an adapter that takes no locks.
func (t *T) needsLock() {
	if !t.sink.Manifest().Locks {
		t.Skipf("the manifest does not claim lock")
	}
}
