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
	if _, ok := a.(Unlocker); ok {
		ops = append(ops, OpUnlock)
	}
	if _, ok := a.(Restorer); ok {
		ops = append(ops, OpRestore)
	}
	if _, ok := a.(Poller); ok {
		ops = append(ops, OpPoll)
	}
	if _, ok := a.(Comparer); ok {
		ops = append(ops, OpCompare)
	}
	return ops
}

// answer is what a call ends with: a manifest, items of a batch, what a poll or a
// comparison found, or a result.
type answer struct {
	manifest   *Manifest
	changes    *Changes
	difference *Difference
	items      []answer
	batch      bool // items, or the answer itself for the whole batch

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
	case a.changes != nil:
		return appendPollResult(b, a.changes, a.err)
	case a.difference != nil:
		return appendCompareResult(b, a.difference, a.err)
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

// serve runs one call. r is where a single request is decoded to, a where the
// answer goes: both live with the call and not on the goroutine's stack, which
// thousands of parked calls hold. For the same reason the rarer operations have
// functions of their own.
func (p *plugin) serve(ctx context.Context, op Op, input []byte, r *Request, a *answer) {
	switch op {
	case OpDescribe:
		a.manifest = &p.manifest
		return
	case OpConfigure:
		p.configure(ctx, input, a)
		return
	case OpApplyBatch:
		p.applyBatch(ctx, input, a)
		return
	case OpPoll:
		p.poll(ctx, input, r, a)
		return
	case OpCompare:
		p.compare(ctx, input, r, a)
		return
	}
	d := decoder{b: input}
	decodeRequest(&d, r)
	if d.err != nil {
		a.err = malformed(d.err)
		return
	}
	a.finish(op, r, p.call(ctx, op, r, &a.observation))
}

func (p *plugin) call(ctx context.Context, op Op, r *Request, o *Observation) (err error) {
	switch op {
	case OpObserve:
		*o, err = p.adapter.Observe(ctx, r)
	case OpApply:
		*o, err = p.adapter.Apply(ctx, r)
	case OpDelete:
		err = p.adapter.Delete(ctx, r)
	default:
		err = p.callOfSaga(ctx, op, r, o)
	}
	return err
}

//go:noinline
func (p *plugin) callOfSaga(ctx context.Context, op Op, r *Request, o *Observation) (err error) {
	restorer, restores := p.adapter.(Restorer)
	unlocker, unlocks := p.adapter.(Unlocker)
	switch {
	case op != OpRestore && op != OpUnlock:
		return Rejected("the plugin does not know operation " + strconv.Itoa(int(op)))
	case r.Saga == nil:
		return Rejected("the host's request names no saga, which this operation needs")
	case op == OpRestore && r.Saga.Before == nil:
		return Rejected("the host's request says nothing of the object before the saga, which restore needs")
	case op == OpRestore && restores:
		*o, err = restorer.Restore(ctx, r)
	case op == OpUnlock && unlocks:
		err = unlocker.Unlock(ctx, r)
	default:
		return notImplemented(op)
	}
	return err
}

// finish turns what an adapter returned into an answer, after the rules that
// the package comment gives. The observation is in place.
func (a *answer) finish(op Op, r *Request, err error) {
	switch o := &a.observation; {
	case len(o.AdapterState) > MaxAdapterStateBytes:
		a.err = &Error{Status: StatusRejected, Message: "the adapter returned " +
			strconv.Itoa(len(o.AdapterState)) + " bytes of state, more than the " +
			strconv.Itoa(MaxAdapterStateBytes) + " allowed"}
		*o = Observation{}
	case len(o.Content) > MaxImageBytes && r.Saga != nil && r.Saga.Before == nil:
		a.err = &Error{Status: StatusRejected, Message: "the object has " + strconv.Itoa(len(o.Content)) +
			" bytes, more than the " + strconv.Itoa(MaxImageBytes) + " that a saga keeps to bring it back"}
		*o = Observation{}
	case err != nil:
		a.err = AsError(err)
	case op == OpObserve && !o.Exists:
		a.err = &Error{Status: StatusNotFound}
	}
}

func (p *plugin) configure(ctx context.Context, input []byte, a *answer) {
	c, err := decodeConfig(input)
	if err != nil {
		a.err = malformed(err)
		return
	}
	var done Configured
	if ad, ok := p.adapter.(Configurer); ok {
		if done, err = ad.Configure(ctx, c); err != nil {
			if a.err = AsError(err); a.err.Status == StatusRetry { // a plain error about the config: no later try will mend it
				a.err = &Error{Status: StatusRejected, Message: a.err.Message}
			}
			return
		}
	}
	if a.target = done.Target; a.target == "" {
		a.target = targetOf(c.Upstreams)
	}
	if done.Manifest != nil {
		m := *done.Manifest
		if m.Ops == nil {
			m.Ops = defaultOps(m, p.adapter)
		}
		a.observation.Content = appendManifest([]byte{}, &m)
	}
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

func (p *plugin) applyBatch(ctx context.Context, input []byte, a *answer) {
	a.batch = true
	rs, err := decodeBatch(input)
	if err != nil {
		a.err = malformed(err)
		return
	}
	ad, ok := p.adapter.(ApplyBatcher)
	if !ok {
		a.err = &Error{Status: StatusRejected, Message: "the plugin does not implement apply_batch"}
		return
	}
	items, err := ad.ApplyBatch(ctx, rs)
	if err != nil {
		a.err = AsError(err)
		return
	}
	if len(items) != len(rs) {
		a.err = &Error{Status: StatusRetry, Message: "the adapter answered " +
			strconv.Itoa(len(items)) + " items to a batch of " + strconv.Itoa(len(rs))}
		return
	}
	a.items = make([]answer, len(items))
	for i := range items {
		a.items[i].observation = items[i].Observation
		a.items[i].finish(OpApply, rs[i], items[i].Err)
	}
}

// malformed is the answer to a request that can't be decoded. The host is then
// newer or older than it should be; another try won't mend it.
func malformed(err error) *Error {
	return &Error{Status: StatusRejected, Message: "the plugin can't decode the host's request: " + err.Error()}
}
