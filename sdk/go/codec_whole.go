package pawl

// decodePoll returns the cursor of a PollRequest; sink and deadline go to r.
func decodePoll(b []byte, r *Request) (cursor string, err error) {
	d := decoder{b: b}
	for f, ok := d.next(); ok; f, ok = d.next() {
		switch f {
		case 1:
			r.Sink = d.string()
		case 2:
			cursor = d.string()
		case 3:
			r.TimeoutMillis = uint32(d.uint())
		default:
			d.skip()
		}
	}
	return cursor, d.err
}

// decodeComparison decodes a CompareRequest; the deadline goes to r.
func decodeComparison(b []byte, r *Request) (*Comparison, error) {
	c := new(Comparison)
	d := decoder{b: b}
	for f, ok := d.next(); ok; f, ok = d.next() {
		switch f {
		case 1:
			c.Sink = d.string()
		case 2:
			c.Epoch = d.string()
		case 3:
			sub := d.message()
			c.Nodes = append(c.Nodes, decodeCompareNode(&sub))
			d.done(&sub)
		case 4:
			sub := d.message()
			c.Leaves = append(c.Leaves, decodeCompareLeaf(&sub))
			d.done(&sub)
		case 5:
			r.TimeoutMillis = uint32(d.uint())
		default:
			d.skip()
		}
	}
	return c, d.err
}

func decodeCompareNode(d *decoder) (n CompareNode) {
	for f, ok := d.next(); ok; f, ok = d.next() {
		switch f {
		case 1:
			n.Prefix = d.bytes()
		case 2:
			n.Count = d.uint()
		case 3:
			n.Digest = d.bytes()
		default:
			d.skip()
		}
	}
	return n
}

func decodeCompareLeaf(d *decoder) (l CompareLeaf) {
	for f, ok := d.next(); ok; f, ok = d.next() {
		switch f {
		case 1:
			l.Prefix = d.bytes()
		case 2:
			sub := d.message()
			l.Items = append(l.Items, decodeCompareItem(&sub))
			d.done(&sub)
		default:
			d.skip()
		}
	}
	return l
}

func decodeCompareItem(d *decoder) (it CompareItem) {
	for f, ok := d.next(); ok; f, ok = d.next() {
		switch f {
		case 1:
			it.Key = d.bytes()
		case 2:
			it.Content = d.bytes()
		default:
			d.skip()
		}
	}
	return it
}

func appendPollResult(b []byte, c *Changes, e *Error) []byte {
	b, start := openMessage(b, 1)
	b = closeMessage(appendResult(b, nil, e, ""), start)
	for i := range c.Seen {
		s := &c.Seen[i]
		b, start = openMessage(b, 2)
		b = appendString(b, 1, s.Key)
		if !s.Observation.isZero() {
			var inner int
			b, inner = openMessage(b, 2)
			b = closeMessage(appendObservation(b, &s.Observation), inner)
		}
		b = closeMessage(b, start)
	}
	b = appendString(b, 3, c.Cursor)
	b = appendBool(b, 4, c.More)
	return appendBool(b, 5, c.Reset)
}

func appendCompareResult(b []byte, d *Difference, e *Error) []byte {
	b, start := openMessage(b, 1)
	b = closeMessage(appendResult(b, nil, e, ""), start)
	for _, n := range d.Nodes {
		b = append(appendHead(b, 2, len(n)), n...)
	}
	for _, it := range d.Items {
		b = append(appendHead(b, 3, len(it)), it...)
	}
	for _, k := range d.Extra {
		b = appendEntry(b, 4, k)
	}
	return b
}
