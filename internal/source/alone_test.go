package source

import (
	"io"
	"log/slog"
	"runtime"
	"testing"
)

// What an operator confirms or hands over is the source's that is there when its turn
// comes: a list of deletions that is past is not carried out for its successor.
func TestASourceThatIsEndedInTheWaitForItsTurnIsNotTakenForItsSuccessor(t *testing.T) {
	m := New(Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	defer m.Close()
	old, successor := newInlet(m, Spec{Name: "files"}, ""), newInlet(m, Spec{Name: "files"}, "")
	m.inlets["files"] = old
	old.turn.RLock()
	got := make(chan *inlet)
	go func() {
		in, err := m.alone("files")
		if err != nil {
			t.Error(err)
		}
		got <- in
	}()
	for old.turn.TryRLock() { // until somebody waits for it
		old.turn.RUnlock()
		runtime.Gosched()
	}
	m.mu.Lock()
	m.inlets["files"] = successor
	m.mu.Unlock()
	old.over = true // nobody has the turn but this test
	old.turn.RUnlock()
	if in := <-got; in != successor {
		t.Error("it got the one that was ended")
	}
}

// The set that a sender completed is its successor's to hear of, which reads the books
// anew: one that was ended writes them no more.
func TestASenderThatIsEndedCompletesNothing(t *testing.T) {
	m := New(Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	defer m.Close()
	in := newInlet(m, Spec{Name: "edge-1"}, "edges")
	in.over = true
	(&Sender{in}).Complete() // there is no engine to keep books in
	if !in.fullAt.IsZero() {
		t.Errorf("its set is complete at %v", in.fullAt)
	}
}
