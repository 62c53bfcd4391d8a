package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox/badger"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/internal/bundled"
	"github.com/pawlsync/pawl/internal/relay"
	"github.com/pawlsync/pawl/internal/source"
)

// benchRelay has an agent send everything to a principal on the same machine, both
// with stores on disk, and then send nothing, since nothing has changed.
func benchRelay(r *report) error {
	n := 100_000
	if r.short {
		n = 20_000
	}
	before, err := localBatches(r, "local-before", n)
	if err != nil {
		return err
	}
	p, err := openPrincipal(r.ctx, filepath.Join(r.dir, "principal"))
	if err != nil {
		return err
	}
	defer p.close()
	a, err := p.openAgent(r, true)
	if err != nil {
		return err
	}
	if _, err := putBatches(r.ctx, a.Engine, n); err != nil {
		return err
	}
	began, used := time.Now(), cpuTime()
	if err := a.ResumeSink(r.ctx, sinkName); err != nil {
		return err
	}
	if err := a.acknowledged(r.ctx, n); err != nil {
		return err
	}
	rate := float64(n) / time.Since(began).Seconds()
	each := float64((cpuTime() - used).Microseconds()) / float64(n)
	sent, full := p.items.Load(), p.bytes.Load()
	if err := a.close(r.ctx); err != nil {
		return err
	}
	after, err := localBatches(r, "local-after", n)
	if err != nil {
		return err
	}
	compared, asked := p.compared.Load(), p.bytes.Load()
	if a, err = p.openAgent(r, false); err != nil {
		return err
	}
	defer a.close(r.ctx)
	for p.compared.Load() == compared {
		time.Sleep(10 * time.Millisecond)
	}
	again := p.bytes.Load() - asked
	if p.items.Load() != sent {
		return fmt.Errorf("%d items were sent although nothing had changed", p.items.Load()-sent)
	}
	local := (before + after) / 2
	r.line("local PutBatch %.0f/s; agent to principal %.0f/s, %.1f µs of the processors an item; %.1f MB to send %d, %d bytes to find that nothing changed", local, rate, each, float64(full)/1e6, n, again)
	r.atLeast("relay, persisted acks, or half of the local PutBatch rate", rate, min(20_000, local/2), "/s")
	r.under("items sent more than once, of 100", 100*float64(sent-int64(n))/float64(n), 1, "")
	r.under("bytes of a resync ÷ bytes of a full send, of 100", 100*float64(again)/float64(full), 1, "")
	return nil
}

// localBatches is how many Puts a second one engine takes in batches.
func localBatches(r *report, name string, n int) (float64, error) {
	eng, err := open(r.ctx, filepath.Join(r.dir, name), engine.SinkOptions{Name: sinkName, Sink: &null{}, Suspended: true})
	if err != nil {
		return 0, err
	}
	defer eng.Close(r.ctx)
	return putBatches(r.ctx, eng, n)
}

func putBatches(ctx context.Context, eng *engine.Engine, n int) (rate float64, err error) {
	const size = 1000
	began := time.Now()
	for from := 0; from < n; from += size {
		puts := make([]engine.Put, min(size, n-from))
		for i := range puts {
			puts[i] = engine.Put{Key: key(from + i), Payload: payload(from + i)}
		}
		items, err := eng.PutBatch(ctx, puts)
		if err != nil {
			return 0, err
		}
		for i := range items {
			if items[i].Err != nil {
				return 0, items[i].Err
			}
		}
	}
	return float64(n) / time.Since(began).Seconds(), nil
}

// principal is a pawl that takes in what others send.
type principal struct {
	engine  *engine.Engine
	sources *source.Manager
	address string
	server  *http.Server

	items, compared, bytes atomic.Int64
}

// RelayDone implements relay.Observer.
func (p *principal) RelayDone(_, _ string, items int) { p.items.Add(int64(items)) }

// RelayCompared implements relay.Observer.
func (p *principal) RelayCompared(string, int) { p.compared.Add(1) }

func openPrincipal(ctx context.Context, dir string) (p *principal, err error) {
	p = &principal{}
	if p.engine, err = open(ctx, dir, engine.SinkOptions{Name: sinkName, Sink: &null{}, Suspended: true}); err != nil {
		return nil, err
	}
	p.sources = source.New(source.Options{Engine: p.engine, Sources: []source.Spec{{Name: "edges", Kind: "pawl", Senders: []string{"edge"}}}})
	p.sources.Start()
	receiver := relay.New(relay.Options{Engine: p.engine, Observer: p, Sender: func(ctx context.Context, name string) (relay.Sender, error) {
		return p.sources.Sender(ctx, name)
	}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/relay", answering(receiver.Receive))
	mux.HandleFunc("/v1/relay/compare", answering(receiver.Compare))
	p.address, p.server = l.Addr().String(), &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go p.server.Serve(metered{l, &p.bytes})
	return p, nil
}

// answering is what the daemon's route does: internal/server would bring the whole
// daemon along.
func answering(answer func(context.Context, []byte) ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		out, err := relay.Answered(r.Body, r.ContentLength, 4<<20, func(request []byte) ([]byte, error) { return answer(r.Context(), request) })
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/vnd.pawl.relay")
		w.Write(out)
	}
}

func (p *principal) close() {
	p.server.Close()
	p.sources.Close()
	p.engine.Close(context.Background())
}

// metered counts the bytes of a listener's connections, both ways.
type metered struct {
	net.Listener
	n *atomic.Int64
}

func (c metered) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	return meteredConn{conn, c.n}, err
}

type meteredConn struct {
	net.Conn
	n *atomic.Int64
}

func (c meteredConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.n.Add(int64(n))
	return n, err
}

func (c meteredConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.n.Add(int64(n))
	return n, err
}

// agent is a pawl that sends to a principal.
type agent struct {
	*engine.Engine
	release func()
}

// openAgent opens the agent's store with a sink of the shipped plugin; held: it sends
// nothing before it is resumed.
func (p *principal) openAgent(r *report, held bool) (*agent, error) {
	host, err := wasmhost.New(r.ctx, wasmhost.Options{})
	if err != nil {
		return nil, err
	}
	wasm, err := bundled.Plugin("pawl")
	if err != nil {
		return nil, err
	}
	plugin, err := host.LoadTrusted(r.ctx, wasm, "pawl")
	if err != nil {
		return nil, err
	}
	up, err := upstream.Open(upstream.Config{Name: "up", BaseURL: "http://" + p.address}, upstream.Options{})
	if err != nil {
		return nil, err
	}
	s, err := plugin.Open(r.ctx, wasmhost.SinkConfig{
		Name: sinkName, Config: []byte(`{"sender":"edge","sink":"` + sinkName + `"}`), Upstreams: []wasmhost.Upstream{up},
	})
	if err != nil {
		return nil, err
	}
	eng, err := engine.Open(r.ctx, engine.Options{
		Store: badger.Opener(badger.Options{Dir: filepath.Join(r.dir, "agent")}),
		Sinks: []engine.SinkOptions{{Name: sinkName, Sink: s}},
		Prepare: func(e *engine.Engine) error {
			if held {
				return e.SuspendSink(r.ctx, sinkName)
			}
			return nil
		},
	})
	return &agent{eng, func() { plugin.Close(r.ctx); up.Close() }}, err
}

func (a *agent) close(ctx context.Context) error {
	defer a.release()
	return a.Close(ctx)
}

// acknowledged returns once n resources are.
func (a *agent) acknowledged(ctx context.Context, n int) error {
	for ctx.Err() == nil {
		for _, s := range a.Sinks() {
			if s.Counts[record.AckedPhase] == n {
				return nil
			}
			if s.LastError != "" {
				return fmt.Errorf("the principal does not take it: %s", s.LastError)
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	return ctx.Err()
}
