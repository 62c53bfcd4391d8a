package abi

import "github.com/pawlsync/pawl/engine/sink"

// AppendCompareRequest appends a CompareRequest of the sink's with c to b.
func AppendCompareRequest(b []byte, sinkName string, c *sink.Comparison, timeoutMS uint32) []byte {
	b = appendString(b, 1, sinkName)
	b = appendString(b, 2, c.Epoch)
	for i := range c.Nodes {
		n := &c.Nodes[i]
		b = appendHead(b, 3, sizeBytes(1, len(n.Prefix))+sizeUint(2, n.Count)+sizeBytes(3, len(n.Digest)))
		b = appendBytes(b, 1, n.Prefix)
		b = appendUint(b, 2, n.Count)
		b = appendBytes(b, 3, n.Digest)
	}
	for i := range c.Leaves {
		l := &c.Leaves[i]
		b = appendHead(b, 4, sizeLeaf(l))
		b = appendBytes(b, 1, l.Prefix)
		for j := range l.Items {
			it := &l.Items[j]
			b = appendHead(b, 2, sizeLeafItem(it))
			b = appendBytes(b, 1, it.Key)
			b = appendBytes(b, 2, it.Content)
		}
	}
	return appendUint(b, 5, uint64(timeoutMS))
}

func sizeLeaf(l *sink.Leaf) int {
	n := sizeBytes(1, len(l.Prefix))
	for i := range l.Items {
		n += sizeMessage(2, sizeLeafItem(&l.Items[i]))
	}
	return n
}

func sizeLeafItem(it *sink.LeafItem) int {
	return sizeBytes(1, len(it.Key)) + sizeBytes(2, len(it.Content))
}

// DecodeCompareResult decodes the answer to a comparison. Only where the result is
// OK there are differences.
func DecodeCompareResult(b []byte) (sink.Difference, sink.Result, error) {
	var d sink.Difference
	var res Result
	r := newReader("CompareResult", b)
	for r.next() {
		switch r.num {
		case 1:
			res = r.result()
		case 2:
			d.Nodes = append(d.Nodes, r.bytes())
		case 3:
			d.Items = append(d.Items, r.bytes())
		case 4:
			d.Extra = append(d.Extra, r.string())
		}
	}
	if err := r.answered(res); err != nil {
		return sink.Difference{}, sink.Result{}, err
	}
	if res.Status != sink.OK {
		d = sink.Difference{}
	}
	return d, res.Result, nil
}
