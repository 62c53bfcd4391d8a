package wasmhost_test

import (
	"testing"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost"
)

func TestGoGuestAnswersACall(t *testing.T) {
	p := load(t, newHost(t, nil), "null", goGuest(t, "null"))
	s := open(t, p, wasmhost.SinkConfig{})
	r := s.Apply(t.Context(), request("a", "{}"))
	if r.Status != sink.OK {
		t.Fatalf("%v: %s", r.Status, r.Message)
	}
	t.Logf("%+v", s.Stats())
}
