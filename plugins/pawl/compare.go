package main

import (
	"context"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

const hashBytes = 16

// Compare asks the other pawl which of many resources differ there.
func (a *adapter) Compare(ctx context.Context, c *pawl.Comparison) (pawl.Difference, error) {
	rest, err := a.say(ctx, "/v1/relay/compare", c.Epoch, 0, func(b []byte) []byte { return appendComparison(b, c) })
	if err != nil {
		return pawl.Difference{}, err
	}
	msg, _, err := next(rest)
	var d difference
	if err == nil {
		d, err = readDifference(msg)
	}
	if err == nil && len(d.items)%hashBytes != 0 {
		err = errAnswer
	}
	if err != nil {
		return pawl.Difference{}, pawl.Retry(err.Error())
	}
	out := pawl.Difference{Nodes: d.nodes, Extra: d.extra}
	for i := 0; i < len(d.items); i += hashBytes {
		out.Items = append(out.Items, d.items[i:i+hashBytes])
	}
	return out, nil
}

// appendComparison appends c behind its length.
func appendComparison(b []byte, c *pawl.Comparison) []byte {
	var msg, sub []byte
	for i := range c.Nodes {
		n := &c.Nodes[i]
		sub = appendText(sub[:0], 1, n.Prefix)
		sub = appendNumber(sub, 2, n.Count)
		sub = appendText(sub, 3, n.Digest)
		msg = appendText(msg, 1, sub)
	}
	for i := range c.Leaves {
		l := &c.Leaves[i]
		sub = appendText(sub[:0], 1, l.Prefix)
		if size := 2 * hashBytes * len(l.Items); size > 0 {
			sub = appendVarint(append(sub, 2<<3|2), uint64(size))
			for _, it := range l.Items {
				sub = append(append(sub, it.Key...), it.Content...)
			}
		}
		msg = append(appendVarint(append(msg, 2<<3|2), uint64(len(sub))), sub...) // the root's leaf may be empty, and is one all the same
	}
	return append(appendVarint(b, uint64(len(msg))), msg...)
}
