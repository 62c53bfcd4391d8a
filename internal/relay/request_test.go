package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/relay/wire"
)

// The memory of a request is the next one's: what was stored of it is a copy.
func TestWhatIsStoredOfARequestOutlivesItsMemory(t *testing.T) {
	receiving(t, nil, func(p *principal) {
		a := p.agent("e1")
		memory := make([]byte, 1<<10)
		overwritten := func(ctx context.Context, request []byte) ([]byte, error) {
			b := append(memory[:0], request...)
			answer, err := p.Receive(ctx, b)
			for i := range b {
				b[i] = 'x'
			}
			return answer, err
		}
		item := wire.Item{Kind: wire.Put, Key: "web/a", Number: 1, Payload: []byte(`"what was sent"`)}
		if state, _ := a.say(overwritten, encodeItem(&item)); state != wire.Present {
			t.Fatalf("the receiver answered with state %v", state)
		}
		want(t, "a look at it", a.look("web/a", `"what was sent"`), "done")
		found, err := p.engine.Get(t.Context(), record.Key{Sink: "web", Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		want(t, "the payload", string(found.Desired.Payload), `"what was sent"`)
	})
}

func TestARequestIsReadToItsEnd(t *testing.T) {
	echo := func(b []byte) ([]byte, error) { return []byte("got " + string(b)), nil }
	for _, c := range []struct {
		what         string
		body         string
		length, most int64
		want         string
		err          error
	}{
		{what: "of a length", body: "abc", length: 3, most: 10, want: "got abc"},
		{what: "a shorter one after it", body: "z", length: 1, most: 10, want: "got z"},
		{what: "of no length", body: "abcdef", length: -1, most: 10, want: "got abcdef"},
		{what: "said to be too long", body: "abcdef", length: 60, most: 10, want: "got abcdef"},
		{what: "empty", length: 0, most: 10, want: "got "},
		{what: "cut off", body: "ab", length: 3, most: 10, err: io.ErrUnexpectedEOF},
	} {
		got, err := Answered(strings.NewReader(c.body), c.length, c.most, echo)
		if string(got) != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v; want %q, %v", c.what, got, err, c.want, c.err)
		}
	}
	if _, err := Answered(strings.NewReader("a"), 1, 1, func([]byte) ([]byte, error) { return nil, fmt.Errorf("no") }); err == nil {
		t.Error("the error of the answer is lost")
	}
}
