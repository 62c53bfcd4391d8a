// Command whole is a plugin that tells what it was asked of the whole target, for
// tests of the host: a poll tells of objects that its cursor names, by commas, and a
// comparison answers with what it was given.
package main

import (
	"context"
	"strings"
	"time"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

type adapter struct{ pawl.Unimplemented }

// Configure claims no more than it must under the config {"modest": true}.
func (adapter) Configure(_ context.Context, c pawl.Config) (pawl.Configured, error) {
	m := manifest()
	switch string(c.JSON) {
	case `{"modest":true}`:
		m.ReportsContent, m.Ops = false, []pawl.Op{pawl.OpObserve, pawl.OpApply}
	case `{"empty":true}`: // polls that would tell of no content
		m.ReportsContent = false
	}
	return pawl.Configured{Manifest: &m}, nil
}

func (adapter) Poll(ctx context.Context, cursor string) (c pawl.Changes, err error) {
	switch cursor {
	case "refused":
		return c, pawl.TargetRetryAfter(time.Second, "later")
	case "parked":
		err = pawl.Sleep(ctx, time.Hour)
		return c, err
	}
	for key := range strings.SplitSeq(cursor, ",") {
		c.Seen = append(c.Seen, pawl.Seen{Key: key, Observation: pawl.Observation{Exists: true, Content: []byte("of " + key)}})
	}
	c.Cursor, c.More, c.Reset = cursor+"+", true, true
	return c, nil
}

func (adapter) Compare(_ context.Context, c *pawl.Comparison) (d pawl.Difference, err error) {
	for _, n := range c.Nodes {
		d.Nodes = append(d.Nodes, n.Prefix)
	}
	for _, l := range c.Leaves {
		for _, it := range l.Items {
			d.Items = append(d.Items, it.Key)
		}
	}
	d.Extra = []string{c.Sink, c.Epoch}
	return d, nil
}

func manifest() pawl.Manifest {
	return pawl.Manifest{Name: "whole", Version: "1", FindsByKey: true, ReportsContent: true,
		Ops: []pawl.Op{pawl.OpObserve, pawl.OpApply, pawl.OpPoll, pawl.OpCompare}}
}

func init() { pawl.Register(manifest(), adapter{}) }

func main() {}
