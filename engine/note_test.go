package engine_test

import "testing"

func TestANoteOutlivesTheEngine(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.must(b.SetNote("relay/edge", []byte("one")))
		b.must(b.SetNote("relay/other", []byte("two")))
		b.must(b.SetNote("relay/other", nil))
		b.reopen()
		got, err := b.Note("relay/edge")
		b.must(err)
		if string(got) != "one" {
			t.Errorf("the note is %q", got)
		}
		if got, err = b.Note("relay/other"); err != nil || got != nil {
			t.Errorf("a removed note is %q, %v", got, err)
		}
	})
}
