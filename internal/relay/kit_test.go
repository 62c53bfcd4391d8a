package relay

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/digest"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/memory"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/internal/bubble"
	"github.com/pawlsync/pawl/internal/relay/wire"
	"github.com/pawlsync/pawl/internal/source"
)

// principal is a receiver on an engine with two sinks, web and db.
type principal struct {
	*Receiver
	t       *testing.T
	disk    *memory.Disk
	engine  *engine.Engine
	manager *source.Manager
	web     *target
	told    *told
	fuse    source.FuseOptions
	sinks   []string
}

// told counts what the receiver reports.
type told struct {
	mu    sync.Mutex
	items map[string]int
	found int
}

func (c *told) RelayDone(sender, outcome string, items int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.items[sender+" "+outcome] += items
}

func (c *told) RelayCompared(_ string, differing int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found += differing
}

// target is the receiver's own sink's: it takes everything after latency, unless
// answer says otherwise.
type target struct {
	mu      sync.Mutex
	latency time.Duration
	objects map[string]string
	answer  func(key string) *sink.Result
}

func (x *target) Manifest() sink.Manifest {
	return sink.Manifest{Name: "fake", Target: "t", Deletes: true, ApplyConfirms: true, ApplyIdempotent: true}
}
func (x *target) Close(context.Context) error { return nil }
func (x *target) Observe(context.Context, *sink.Request) sink.Result {
	return sink.Result{Status: sink.Rejected}
}

func (x *target) Apply(_ context.Context, r *sink.Request) sink.Result {
	x.mu.Lock()
	latency, answer := x.latency, x.answer
	x.mu.Unlock()
	time.Sleep(latency)
	x.mu.Lock()
	defer x.mu.Unlock()
	if answer != nil {
		if res := answer(r.Key.Name); res != nil {
			return *res
		}
	}
	x.objects[r.Key.Name] = string(r.Payload)
	return sink.Result{Status: sink.OK}
}

func (x *target) Delete(_ context.Context, r *sink.Request) sink.Result {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.objects, r.Key.Name)
	return sink.Result{Status: sink.OK}
}

func (x *target) get(key string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.objects[key]
}

// receiving runs test with a principal that takes from edge-*.
func receiving(t *testing.T, tweak func(*principal), test func(p *principal)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		p := &principal{t: t, disk: memory.NewDisk(), web: &target{objects: map[string]string{}}, fuse: source.FuseOptions{Window: time.Hour, Share: 1, AtLeast: 1000}}
		if tweak != nil {
			tweak(p)
		}
		p.open()
		defer p.close()
		test(p)
	})
}

func (p *principal) open() {
	p.t.Helper()
	var err error
	p.engine, err = engine.Open(p.t.Context(), engine.Options{
		Store: func(o outbox.Observer) (outbox.Store, error) {
			return memory.Open(p.disk, memory.Options{Observer: o})
		},
		Sinks: []engine.SinkOptions{{Name: "web", Sink: p.web}, {Name: "db", Sink: &target{objects: map[string]string{}}}},
		Seed:  1,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.manager = source.New(source.Options{Engine: p.engine, Seed: 1, Sources: []source.Spec{
		{Name: "edges", Kind: "pawl", Senders: []string{"edge-*"}, Sinks: p.sinks, Fuse: p.fuse},
	}})
	p.manager.Start()
	p.told = &told{items: map[string]int{}}
	p.Receiver = New(Options{Engine: p.engine, Observer: p.told, Sender: func(ctx context.Context, name string) (Sender, error) {
		s, err := p.manager.Sender(ctx, name)
		if err != nil {
			return nil, err
		}
		return s, nil
	}})
}

func (p *principal) close() {
	p.manager.Close()
	if err := p.engine.Close(context.Background()); err != nil {
		p.t.Error(err)
	}
	time.Sleep(2 * snapshotLife) // snapshots go by a timer
}

func (p *principal) reopen() {
	p.t.Helper()
	p.close()
	p.open()
}

// agent speaks for one sender, as the plugin does.
type agent struct {
	p     *principal
	hello wire.Hello
}

func (p *principal) agent(epoch string) *agent {
	return &agent{p, wire.Hello{Sender: "edge-1", Epoch: epoch, From: "up"}}
}

// say sends a request, and begins the sender's life where it must.
func (a *agent) say(answer func(context.Context, []byte) ([]byte, error), body []byte) (wire.State, []byte) {
	a.p.t.Helper()
	h := a.hello
	for {
		state, ticket, rest := a.once(&h, answer, body)
		if state != wire.Begin || ticket == h.Ticket {
			return state, rest
		}
		h.Ticket = ticket
	}
}

// once makes one request.
func (a *agent) once(h *wire.Hello, answer func(context.Context, []byte) ([]byte, error), body []byte) (wire.State, string, []byte) {
	a.p.t.Helper()
	out, err := answer(a.p.t.Context(), append(encodeHello(h), body...))
	if err != nil {
		a.p.t.Fatal(err)
	}
	msg, rest, err := wire.Next(out)
	if err != nil {
		a.p.t.Fatal(err)
	}
	f := decode(msg)
	return wire.State(f.number(1)), f.text(2), rest
}

// ask sends items and returns their results, such as "done" or "stale: …".
func (a *agent) ask(items ...wire.Item) (outcomes []string) {
	a.p.t.Helper()
	var body []byte
	for i := range items {
		body = append(body, encodeItem(&items[i])...)
	}
	state, rest := a.say(a.p.Receive, body)
	if state != wire.Present {
		return []string{fmt.Sprint("state ", state)}
	}
	for len(rest) > 0 {
		var msg []byte
		msg, rest, _ = wire.Next(rest)
		outcomes = append(outcomes, outcomeNames[wire.Outcome(decode(msg).number(1))])
	}
	if len(outcomes) != len(items) {
		a.p.t.Errorf("%d answers to %d items", len(outcomes), len(items))
	}
	return outcomes
}

func (a *agent) put(key, payload string, number uint64) string {
	a.p.t.Helper()
	return a.ask(wire.Item{Kind: wire.Put, Key: key, Number: number, Payload: []byte(payload)})[0]
}

func (a *agent) delete(key string, number uint64) string {
	a.p.t.Helper()
	return a.ask(wire.Item{Kind: wire.Delete, Key: key, Number: number})[0]
}

func (a *agent) look(key, payload string) string {
	a.p.t.Helper()
	h := record.HashOf([]byte(payload))
	return a.ask(wire.Item{Kind: wire.Look, Key: key, Hash: h[:]})[0]
}

// compare goes down with what the agent holds, and returns what differs.
func (a *agent) compare(holds map[string]string) (differing int, extra []string) {
	a.p.t.Helper()
	var items []digest.Item
	for key, payload := range holds {
		items = append(items, digest.Item{Key: digest.Key(key), Content: digest.Content(record.HashOf([]byte(payload)))})
	}
	tree := digest.NewTree(items)
	root := tree.Sum(nil)
	if nodes, _, _ := a.difference(encodeNode(nil, root)); len(nodes) == 0 {
		return 0, nil
	}
	var leaf []byte
	for _, it := range tree.Below(nil) {
		leaf = append(append(leaf, it.Key[:]...), it.Content[:]...)
	}
	_, found, extra := a.difference(encodeLeaf(nil, leaf))
	return len(found) / digest.HashBytes, extra
}

func (a *agent) difference(comparison []byte) (nodes [][]byte, items []byte, extra []string) {
	a.p.t.Helper()
	state, rest := a.say(a.p.Compare, wire.Append(nil, comparison))
	if state != wire.Present {
		a.p.t.Fatalf("state %d", state)
	}
	msg, _, err := wire.Next(rest)
	if err != nil {
		a.p.t.Fatal(err)
	}
	for _, v := range decode(msg)[1] {
		nodes = append(nodes, v.b)
	}
	for _, v := range decode(msg)[3] {
		extra = append(extra, string(v.b))
	}
	if v := decode(msg)[2]; len(v) > 0 {
		items = v[0].b
	}
	return nodes, items, extra
}

// The encoders of the sending side, and a decoder for its answers.

type value struct {
	n uint64
	b []byte
}

type decoded map[protowire.Number][]value

func decode(msg []byte) decoded {
	d := decoded{}
	for len(msg) > 0 {
		num, typ, n := protowire.ConsumeTag(msg)
		msg = msg[n:]
		var v value
		if typ == protowire.VarintType {
			v.n, n = protowire.ConsumeVarint(msg)
		} else {
			v.b, n = protowire.ConsumeBytes(msg)
		}
		msg, d[num] = msg[n:], append(d[num], v)
	}
	return d
}

func (d decoded) number(num protowire.Number) uint64 {
	if v := d[num]; len(v) > 0 {
		return v[0].n
	}
	return 0
}

func (d decoded) text(num protowire.Number) string {
	if v := d[num]; len(v) > 0 {
		return string(v[0].b)
	}
	return ""
}

func field[T string | []byte](b []byte, num protowire.Number, v T) []byte {
	return append(protowire.AppendVarint(protowire.AppendTag(b, num, protowire.BytesType), uint64(len(v))), v...)
}

func count(b []byte, num protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), v)
}

func encodeHello(h *wire.Hello) []byte {
	m := field(nil, 1, h.Sender)
	m = field(m, 2, h.Epoch)
	m = count(m, 3, uint64(h.Ack))
	for num, v := range map[protowire.Number]string{4: h.Ticket, 5: h.Sink, 6: h.Prefix, 7: h.Conflict, 8: h.Deletion, 10: h.From} {
		m = field(m, num, v)
	}
	return wire.Append(nil, count(m, 9, h.Millis))
}

func encodeItem(it *wire.Item) []byte {
	m := field(count(nil, 1, uint64(it.Kind)), 2, it.Key)
	m = count(m, 3, it.Number)
	return wire.Append(nil, field(field(m, 4, it.Payload), 5, it.Hash))
}

func encodeNode(prefix []byte, s digest.Sum) []byte {
	return field(nil, 1, field(count(field(nil, 1, prefix), 2, s.Count), 3, s.Digest[:]))
}

func encodeLeaf(prefix, items []byte) []byte {
	return field(nil, 2, field(field(nil, 1, prefix), 2, items))
}

// state is a resource of the principal: its payload, or why there is none.
func (p *principal) state(sinkName, name string) string {
	r, err := p.engine.Get(p.t.Context(), record.Key{Sink: sinkName, Name: name})
	switch {
	case err != nil:
		return "none"
	case r.Desired.Tombstone:
		return "tombstone"
	}
	return string(r.Desired.Payload)
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if !strings.HasPrefix(got, want) {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// digestByte is the first byte of the hash of a key.
func digestByte(key string) byte {
	h := digest.Key(key)
	return h[0]
}
