package kube

import (
	"testing"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/internal/kube"
)

func TestTheExamplesAreConfigurationsThatWork(t *testing.T) {
	for _, file := range []string{"kube", "statesync"} {
		c, err := config.Load(config.Options{File: "../../../examples/sources/" + file + "/pawl.yaml", Bundled: []string{"http"}})
		if err != nil {
			t.Fatal(err)
		}
		for name, s := range c.Sources {
			if k := s.Kube; k != nil {
				if _, err := New(Options{Server: nowhere{}, Labels: k.LabelSelector, Fields: k.FieldSelector, Key: k.Key, Payload: k.Payload}); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		if len(c.Sources) != 1 {
			t.Errorf("%s has %d sources", file, len(c.Sources))
		}
	}
}

// nowhere is a server that nobody asks anything.
type nowhere struct{ *kube.Cluster }

func (nowhere) BaseURL() string { return "https://127.0.0.1:1" }
