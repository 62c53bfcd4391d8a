package wasmhost_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost"
)

func TestAPollTellsWhatChanged(t *testing.T) {
	s := open(t, load(t, newHost(t, nil), "whole", goGuest(t, "whole")), wasmhost.SinkConfig{Name: "web"})
	if m := s.Manifest(); !m.Polls || !m.Compares || !m.ReportsContent || m.Deletes {
		t.Errorf("%+v", m)
	}
	c, res := s.Poll(t.Context(), "a/b,c")
	if res.Status != sink.OK || len(c.Seen) != 2 || c.Cursor != "a/b,c+" || !c.More || !c.Reset {
		t.Fatalf("%+v, %+v", res, c)
	}
	if seen := c.Seen[0]; seen.Key.Sink != "web" || seen.Key.Name != "a/b" || !seen.Observation.Exists || string(seen.Observation.Content) != "of a/b" {
		t.Errorf("%+v", seen)
	}
	if c, res := s.Poll(t.Context(), "refused"); res.Status != sink.Retry || res.RetryAfter != time.Second || !res.RetryAfterTarget || c.Seen != nil {
		t.Errorf("%+v, %+v", res, c)
	}
	// No resource can have the key that this tells of.
	if c, res := s.Poll(t.Context(), "a\nb"); res.Status != sink.Fault || !strings.Contains(res.Message, "control character") || c.Seen != nil {
		t.Errorf("%+v, %+v", res, c)
	}
	if _, res := s.Poll(t.Context(), "c"); res.Status != sink.OK {
		t.Errorf("after a fault: %+v", res)
	}
}

func TestAComparisonSaysWhereTheTargetDiffers(t *testing.T) {
	s := open(t, load(t, newHost(t, nil), "whole", goGuest(t, "whole")), wasmhost.SinkConfig{Name: "web"})
	ask := &sink.Comparison{Epoch: "e", Nodes: []sink.Node{{Count: 7}, {Prefix: []byte{1, 0}, Digest: make([]byte, 16)}}}
	leaf := sink.Leaf{Prefix: []byte{2}}
	for i := range 2000 { // more than a small buffer
		leaf.Items = append(leaf.Items, sink.LeafItem{Key: fmt.Appendf(nil, "%016d", i), Content: make([]byte, 16)})
	}
	ask.Leaves = []sink.Leaf{leaf, {Prefix: []byte{3}}}
	d, res := s.Compare(t.Context(), ask)
	if res.Status != sink.OK || !reflect.DeepEqual(d.Nodes, [][]byte{{}, {1, 0}}) || !reflect.DeepEqual(d.Extra, []string{"web", "e"}) ||
		len(d.Items) != 2000 || string(d.Items[1999]) != "0000000000001999" {
		t.Errorf("%+v, %v, %v, %d items", res, d.Nodes, d.Extra, len(d.Items))
	}
}

func TestAPollEndsWithItsContextAndItsDeadline(t *testing.T) {
	s := open(t, load(t, newHost(t, nil), "whole", goGuest(t, "whole")), wasmhost.SinkConfig{Limits: wasmhost.Limits{CallTimeout: 300 * time.Millisecond}})
	if _, res := s.Poll(t.Context(), "parked"); res.Status.Answered() {
		t.Errorf("%+v", res)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, res := s.Poll(ctx, "a"); res.Status != sink.Unreachable || !res.NotSent {
		t.Errorf("%+v", res)
	}
}

func TestWhatAPluginDoesNotListIsNotCalled(t *testing.T) {
	p := load(t, newHost(t, nil), "whole", goGuest(t, "whole"))
	s := open(t, p, wasmhost.SinkConfig{Config: []byte(`{"modest":true}`)})
	if m := s.Manifest(); m.Polls || m.Compares || m.ReportsContent {
		t.Errorf("%+v", m)
	}
	if _, res := s.Poll(t.Context(), ""); res.Status != sink.Rejected || !strings.Contains(res.Message, "no op poll") {
		t.Errorf("%+v", res)
	}
	if _, res := s.Compare(t.Context(), &sink.Comparison{}); res.Status != sink.Rejected || !strings.Contains(res.Message, "no op compare") {
		t.Errorf("%+v", res)
	}
	if _, err := p.Open(t.Context(), wasmhost.SinkConfig{Name: "web", Config: []byte(`{"empty":true}`)}); !errors.Is(err, wasmhost.ErrInvalid) || !strings.Contains(err.Error(), "does not claim reports_content") {
		t.Errorf("%v", err)
	}
}
