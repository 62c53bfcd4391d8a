package pawl

import (
	"context"
	"strconv"
	"strings"
)

// plugin runs calls, apart from how they come in and go out.
type plugin struct {
	manifest Manifest
	adapter  Adapter
}

func newPlugin(m Manifest, a Adapter) *plugin {
	if m.Ops == nil {
		m.Ops = defaultOps(m, a)
	}
	return &plugin{manifest: m, adapter: a}
}

func defaultOps(m Manifest, a Adapter) []Op {
	ops := []Op{OpObserve, OpApply, OpDelete}
	if _, ok := a.(ApplyBatcher); ok && m.BatchMax > 1 {
		ops = append(ops, OpApplyBatch)
	}
	return ops
}

// answer is what a call ends with: a manifest, or items of a batch, or a result.
type answer struct {
	manifest *Manifest
	items    []answer
	batch    bool // items, or the answer itself for the whole batch

	observation Observation
	err         *Error // nil: OK
	target      string
}

// append encodes the answer.
func (a *answer) append(b []byte) []byte {
	var start int
	switch {
	case a.manifest != nil:
		return appendManifest(b, a.manifest)
	case a.batch && a.err != nil:
		b, start = openMessage(b, 2)
		return closeMessage(appendResult(b, nil, a.err, ""), start)
	case a.batch:
		for i := range a.items {
			b, start = openMessage(b, 1)
			b = closeMessage(a.items[i].append(b), start)
		}
		return b
	}
	return appendResult(b, &a.observation, a.err, a.target)
}

// serve runs one call. r is where a single request is decoded to.
func (p *plugin) serve(ctx context.Context, op Op, input []byte, r *Request) answer {
	switch op {
	case OpDescribe:
		return answer{manifest: &p.manifest}
	case OpConfigure:
		return p.configure(ctx, input)
	case OpApplyBatch:
		return p.applyBatch(ctx, input)
	}
	d := decoder{b: input}
	decodeRequest(&d, r)
	if d.err != nil {
		return answer{err: malformed(d.err)}
	}
	o, err := p.call(ctx, op, r)
	return outcome(op, o, err)
}

func (p *plugin) call(ctx context.Context, op Op, r *Request) (o Observation, err error) {
	switch op {
	case OpObserve:
		return p.adapter.Observe(ctx, r)
	case OpApply:
		return p.adapter.Apply(ctx, r)
	case OpDelete:
		return o, p.adapter.Delete(ctx, r)
	}
	return o, Rejected("the plugin does not know operation " + strconv.Itoa(int(op)))
}

// outcome turns what an adapter returned into an answer, after the rules that
// the package comment gives.
func outcome(op Op, o Observation, err error) answer {
	a := answer{observation: o}
	switch {
	case len(o.AdapterState) > MaxAdapterStateBytes:
		return answer{err: &Error{Status: StatusRejected, Message: "the adapter returned " +
			strconv.Itoa(len(o.AdapterState)) + " bytes of state, more than the " +
			strconv.Itoa(MaxAdapterStateBytes) + " allowed"}}
	case err != nil:
		a.err = AsError(err)
	case op == OpObserve && !o.Exists:
		a.err = &Error{Status: StatusNotFound}
	}
	return a
}

func (p *plugin) configure(ctx context.Context, input []byte) answer {
	c, err := decodeConfig(input)
	if err != nil {
		return answer{err: malformed(err)}
	}
	var done Configured
	if a, ok := p.adapter.(Configurer); ok {
		if done, err = a.Configure(ctx, c); err != nil {
			e := AsError(err)
			if e.Status == StatusRetry { // a plain error about the config: no later try will mend it
				e = &Error{Status: StatusRejected, Message: e.Message}
			}
			return answer{err: e}
		}
	}
	a := answer{target: done.Target}
	if a.target == "" {
		a.target = targetOf(c.Upstreams)
	}
	if done.Manifest != nil {
		m := *done.Manifest
		if m.Ops == nil {
			m.Ops = defaultOps(m, p.adapter)
		}
		a.observation.Content = appendManifest([]byte{}, &m)
	}
	return a
}

func targetOf(us []UpstreamRef) string {
	var b strings.Builder
	for i := range us {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(us[i].BaseURL)
	}
	return b.String()
}

func (p *plugin) applyBatch(ctx context.Context, input []byte) answer {
	whole := func(e *Error) answer { return answer{batch: true, err: e} }
	rs, err := decodeBatch(input)
	if err != nil {
		return whole(malformed(err))
	}
	ad, ok := p.adapter.(ApplyBatcher)
	if !ok {
		return whole(&Error{Status: StatusRejected, Message: "the plugin does not implement apply_batch"})
	}
	items, err := ad.ApplyBatch(ctx, rs)
	if err != nil {
		return whole(AsError(err))
	}
	if len(items) != len(rs) {
		return whole(&Error{Status: StatusRetry, Message: "the adapter answered " +
			strconv.Itoa(len(items)) + " items to a batch of " + strconv.Itoa(len(rs))})
	}
	a := answer{batch: true, items: make([]answer, len(items))}
	for i := range items {
		a.items[i] = outcome(OpApply, items[i].Observation, items[i].Err)
	}
	return a
}

// malformed is the answer to a request that can't be decoded. The host is then
// newer or older than it should be; another try won't mend it.
func malformed(err error) *Error {
	return &Error{Status: StatusRejected, Message: "the plugin can't decode the host's request: " + err.Error()}
}
