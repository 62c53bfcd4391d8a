package conformance

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// pollChecks are about what resources rely on that take in what the target has.
var pollChecks = []Check{
	{
		ID:    "content",
		Wants: "Of an adapter that claims reports_content, Observe gives the content of an object that exists, with and without a payload. It could be a payload: with it as the desired one, Observe says that the target matches. As long as nobody changes the object it stays the same.",
		Fix:   "Put into content what of the object a payload can say: with a payload the fields that are ours, else all of them, without what the target adds by itself.",
		Run:   contentReported,
	},
	{
		ID:    "poll-changes",
		Wants: "Poll tells of each object that was created or changed since its cursor, with its content, and of each that was deleted; to the end, page by page, under the keys that the resources have.",
		Fix:   "Name objects as Request.key does, and tell of deletions, or begin with the whole again (reset) where the target does not say them.",
		Run:   pollChanges,
	},
	{
		ID:    "poll-cursor",
		Wants: "The cursor goes on: while nothing changes nothing is told again, unless the whole is. The same cursor may come twice, and an older one too: nothing that changed after it is left out.",
		Fix:   "Keep in the cursor all that is needed to go on from there, and nothing in the instance: it may be another one next time.",
		Run:   pollCursor,
	},
	{
		ID:    "poll-reset",
		Wants: "A cursor that the target knows no more is no error for ever: Poll says reset and begins with the whole again.",
		Fix:   "Where the target refuses the cursor, or it can't be read, ask from the beginning and set reset.",
		Run:   pollReset,
	},
}

func (t *T) needsContent() {
	if !t.sink.Manifest().ReportsContent {
		t.Skipf("the adapter does not claim reports_content")
	}
}

func (t *T) needsPoll() {
	if !t.sink.Manifest().Polls {
		t.Skipf("the adapter has no op poll")
	}
}

func contentReported(t *T) {
	t.needsContent()
	o := t.thing()
	o.apply(t.fixture.Payloads.Create)
	reported := func(r *sink.Request, how string) []byte {
		res := t.sink.Observe(t.ctx, r)
		if res.Status != sink.OK || res.Observation == nil || res.Observation.Content == nil {
			t.Failf("%s, Observe of an object that exists answered %s, and no content", how, describe(res))
		}
		return res.Observation.Content
	}
	r := o.want(o.content(t.fixture.Payloads.Create))
	content := reported(r, "with a payload")
	bare := *r
	bare.Payload, bare.Hash, bare.Acked = nil, record.Hash{}, nil
	whole := reported(&bare, "without a payload")
	if again := reported(&bare, "without a payload"); !sameContent(whole, again) {
		t.Failf("nobody changed the object, and its content was %.200q, then %.200q", whole, again)
	}
	for how, c := range map[string][]byte{"with a payload": content, "without one": whole} {
		as := *r
		as.Payload, as.Hash = c, record.HashOf(c)
		if res := t.sink.Observe(t.ctx, &as); !t.matches(&as, res) {
			t.Failf("the content that was reported %s is the desired one, and Observe does not say that the target matches: %s", how, describe(res))
		}
	}
}

// sameContent compares as the engine does: JSON by value.
func sameContent(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return string(a) == string(b)
	}
	return reflect.DeepEqual(x, y)
}

// mirror is what polls told so far.
type mirror struct {
	t      *T
	cursor string
	there  map[string][]byte // contents by key
	told   int               // objects that the last follow was told of
	whole  bool              // the last follow began with the whole
}

// maxPages bounds the polls of one follow.
const maxPages = 1000

// follow polls until there is no more. After a reset what was not told again is gone.
func (m *mirror) follow() {
	m.told, m.whole = 0, m.cursor == ""
	again := map[string]bool{}
	for page := 0; ; page++ {
		c, res := m.t.sink.Poll(m.t.ctx, m.cursor)
		switch {
		case res.Status != sink.OK:
			m.t.Failf("Poll from %q answered %s", m.cursor, describe(res))
		case c.More && c.Cursor == m.cursor, page == maxPages:
			m.t.Failf("Poll from %q says that there is more, and does not come to an end", m.cursor)
		}
		if c.Reset {
			m.whole, again = true, map[string]bool{}
		}
		for _, s := range c.Seen {
			m.see(s)
			again[s.Key.Name] = true
		}
		m.told += len(c.Seen)
		if m.cursor = c.Cursor; !c.More {
			break
		}
	}
	for key := range m.there {
		if m.whole && !again[key] {
			delete(m.there, key)
		}
	}
}

func (m *mirror) see(s sink.Seen) {
	if !s.Observation.Exists {
		delete(m.there, s.Key.Name)
		return
	}
	if s.Observation.Content == nil {
		m.t.Failf("Poll tells of %q, which exists, without its content", s.Key.Name)
	}
	m.there[s.Key.Name] = s.Observation.Content
}

// must fails the check where what was told of o is not what Observe says.
func (m *mirror) must(o *thing, when string) {
	r := o.generation()
	res := m.t.sink.Observe(m.t.ctx, r)
	told, there := m.there[o.key]
	switch {
	case absent(res) && there:
		m.t.Failf("%s, polls say that %q exists, and Observe that it does not", when, o.key)
	case !absent(res) && !there:
		m.t.Failf("%s, polls do not tell of %q, which exists", when, o.key)
	case !absent(res) && !sameContent(told, res.Observation.Content):
		m.t.Failf("%s, polls told another content of %q than Observe does", when, o.key)
	}
}

func pollChanges(t *T) {
	t.needsPoll()
	m := &mirror{t: t, there: map[string][]byte{}}
	m.follow()
	var all []*thing
	for range 12 {
		o := t.thing()
		o.apply(t.fixture.Payloads.Create)
		all = append(all, o)
	}
	check := func(when string) {
		m.follow()
		for _, o := range all {
			m.must(o, when)
		}
	}
	check("when objects were created")
	all[3].apply(t.fixture.Payloads.Update)
	all[5].apply(t.fixture.Payloads.Update)
	check("when two of them were changed")
	if t.sink.Manifest().Deletes {
		all[5].delete()
		all[7].delete()
		check("when two of them were deleted")
	}
}

func pollCursor(t *T) {
	t.needsPoll()
	o, other := t.thing(), t.thing()
	o.apply(t.fixture.Payloads.Create)
	m := &mirror{t: t, there: map[string][]byte{}}
	m.follow()
	if t.store != nil { // at a real target others may change things
		if m.follow(); m.told > 0 && !m.whole {
			t.Failf("nothing changed, and Poll tells of %d objects again", m.told)
		}
	}
	old := *m
	o.apply(t.fixture.Payloads.Update)
	other.apply(t.fixture.Payloads.Create)
	for _, when := range []string{"asked from a cursor", "asked from the same cursor again"} {
		again := &mirror{t: t, cursor: old.cursor, there: map[string][]byte{}}
		again.follow()
		again.must(o, fmt.Sprintf("%s, after it was changed", when))
		again.must(other, fmt.Sprintf("%s, after it was created", when))
	}
}

func pollReset(t *T) {
	t.needsPoll()
	o := t.thing()
	o.apply(t.fixture.Payloads.Create)
	m := &mirror{t: t, cursor: "a cursor of nobody's", there: map[string][]byte{"an object of long ago": nil}}
	m.follow()
	if !m.whole {
		t.Failf("a cursor that nobody gave is taken for one, and Poll says no reset")
	}
	m.must(o, "after a reset")
}
