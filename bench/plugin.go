package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/internal/bundled"
)

// target is a local HTTP server that takes anything.
type target struct {
	*http.Server
	url      string
	requests atomic.Int64
	latency  time.Duration
}

func serveTarget(latency time.Duration) (*target, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t := &target{url: "http://" + l.Addr().String(), latency: latency}
	t.Server = &http.Server{Handler: t, ReadHeaderTimeout: time.Minute}
	go t.Serve(l)
	return t, nil
}

func (t *target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	t.requests.Add(1)
	if t.latency > 0 {
		time.Sleep(t.latency)
	}
	w.WriteHeader(http.StatusNoContent)
}

// openHTTP opens a sink of the shipped http adapter that talks to t.
func openHTTP(ctx context.Context, t *target, inFlight int) (*wasmhost.Sink, func(), error) {
	host, err := wasmhost.New(ctx, wasmhost.Options{})
	if err != nil {
		return nil, nil, err
	}
	wasm, err := bundled.Plugin("http")
	if err != nil {
		return nil, nil, err
	}
	plugin, err := host.LoadTrusted(ctx, wasm, "http")
	if err != nil {
		return nil, nil, err
	}
	up, err := upstream.Open(upstream.Config{Name: "target", BaseURL: t.url, MaxConcurrent: inFlight}, upstream.Options{})
	if err != nil {
		return nil, nil, err
	}
	s, err := plugin.Open(ctx, wasmhost.SinkConfig{
		Name: sinkName, Config: []byte(`{"path":"/objects/{key}"}`), Upstreams: []wasmhost.Upstream{up},
		Limits: wasmhost.Limits{MaxCalls: inFlight},
	})
	return s, func() { plugin.Close(ctx); up.Close() }, err
}

// benchHTTP sends every resource with one request, both ways, by turns: the
// machine's mood changes within a run.
func benchHTTP(r *report) error {
	const concurrency, rounds = 64, 5
	n := 20_000
	if r.short {
		n = 5_000
	}
	t, err := serveTarget(0)
	if err != nil {
		return err
	}
	defer t.Close()
	s, done, err := openHTTP(r.ctx, t, concurrency)
	if err != nil {
		return err
	}
	defer done()
	eng, err := open(r.ctx, r.dir, engine.SinkOptions{Name: sinkName, Sink: s, MaxInFlight: concurrency})
	if err != nil {
		return err
	}
	defer eng.Close(r.ctx)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: concurrency}}
	var plain, ours time.Duration
	for round := range rounds {
		took, err := plainPuts(r.ctx, client, t.url, concurrency, n)
		if err != nil {
			return err
		}
		plain += took
		if took, err = enginePuts(r.ctx, eng, concurrency, round*n, n); err != nil {
			return err
		}
		ours += took
	}
	if got := t.requests.Load(); got != int64(2*rounds*n) {
		return fmt.Errorf("%d requests reached the target, want %d", got, 2*rounds*n)
	}
	total := float64(rounds * n)
	r.line("plain client %.0f/s; from Put to acknowledged %.0f/s", total/plain.Seconds(), total/ours.Seconds())
	r.atLeast("end to end ÷ plain HTTP client, one Apply each", plain.Seconds()/ours.Seconds(), 0.35, " ×")
	return nil
}

func plainPuts(ctx context.Context, client *http.Client, url string, concurrency, n int) (time.Duration, error) {
	began := time.Now()
	_, err := times(concurrency, n, func(i int) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, url+"/objects/"+key(i).Name, bytes.NewReader(payload(i)))
		if err != nil {
			return err
		}
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		io.Copy(io.Discard, res.Body)
		return res.Body.Close()
	})
	return time.Since(began), err
}

// enginePuts puts n resources from base on and returns when all are acknowledged.
func enginePuts(ctx context.Context, eng *engine.Engine, concurrency, base, n int) (time.Duration, error) {
	began := time.Now()
	_, err := times(concurrency, n, func(i int) error {
		_, err := eng.Put(ctx, engine.Put{Key: key(base + i), Payload: payload(base + i)})
		return err
	})
	for err == nil && countOf(eng, record.AckedPhase) < base+n {
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(began), err
}

// benchParked holds 5,000 calls in one instance while their target thinks, from
// the engine to the target's socket, and then 10,000 up to where the host would
// send their requests.
func benchParked(r *report) error {
	const calls = 5000
	t, err := serveTarget(time.Second)
	if err != nil {
		return err
	}
	defer t.Close()
	s, done, err := openHTTP(r.ctx, t, calls)
	if err != nil {
		return err
	}
	defer done()
	eng, err := open(r.ctx, r.dir, engine.SinkOptions{Name: sinkName, Sink: s, MaxInFlight: calls})
	if err != nil {
		return err
	}
	defer eng.Close(r.ctx)
	n := 4 * calls
	if _, err := times(256, n, func(i int) error {
		_, err := eng.Put(r.ctx, engine.Put{Key: key(i), Payload: payload(i)})
		return err
	}); err != nil {
		return err
	}
	var flying, instances int
	var memory int64
	for countOf(eng, record.AckedPhase) < n {
		st := s.Stats()
		flying, instances, memory = max(flying, st.InFlight), max(instances, st.Instances), max(memory, st.MemoryBytes)
		time.Sleep(time.Millisecond)
	}
	r.line("%d calls in flight at the most, in %d instance(s)", flying, instances)
	r.atLeast("calls in flight in one instance", float64(flying)/float64(instances), calls*0.98, "")
	r.under("guest memory with them", float64(memory)/(1<<20), 64, " MiB")
	return parkAll(r)
}
