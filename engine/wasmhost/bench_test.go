package wasmhost_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
)

// share runs do b.N times over that many callers.
func share(b *testing.B, callers int, do func(caller int) error) {
	b.ReportAllocs()
	began := cpuTime(b)
	var wg sync.WaitGroup
	for i := range callers {
		n := b.N / callers
		if i < b.N%callers {
			n++
		}
		wg.Go(func() {
			for range n {
				if err := do(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64((cpuTime(b)-began).Microseconds())/float64(b.N), "cpu-µs/op")
}

// cpuTime is the CPU time of this process so far: on a busy machine it says more
// than the clock.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func apply(s *sink.Request, to *wasmhost.Sink) error {
	if r := to.Apply(context.Background(), s); r.Status != sink.OK {
		return fmt.Errorf("%v: %s", r.Status, r.Message)
	}
	return nil
}

// BenchmarkNullCall is the cost of a call that does no I/O.
func BenchmarkNullCall(b *testing.B) {
	s := open(b, load(b, newHost(b, nil), "null", goGuest(b, "null")), wasmhost.SinkConfig{})
	payload := string(make([]byte, 1024))
	for _, callers := range []int{1, 16, 256} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			share(b, callers, func(i int) error { return apply(request(fmt.Sprint(i), payload), s) })
		})
	}
}

// BenchmarkHTTPAdapter compares a delivery of 1 KiB through the http adapter
// with what a plain Go client needs for the same request: "host" answers in the
// host, "plugin" and "plain" go to a server over loopback.
func BenchmarkHTTPAdapter(b *testing.B) {
	const callers = 64
	payload := `{"a":"` + string(bytes.Repeat([]byte("x"), 1000)) + `"}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	real, err := upstream.Open(upstream.Config{Name: "target", BaseURL: server.URL}, upstream.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer real.Close()
	p := load(b, newHost(b, nil), "http", goGuest(b, "../http"))
	config := []byte(`{"path":"/objects/{key}"}`)
	local := open(b, p, wasmhost.SinkConfig{Config: config, Upstreams: upstreams(
		func(context.Context, *upstream.Request) (*upstream.Response, *upstream.Failure) {
			return &upstream.Response{Status: http.StatusNoContent}, nil
		})})
	plugin := open(b, p, wasmhost.SinkConfig{Config: config, Upstreams: []wasmhost.Upstream{real}})
	b.Run("host", func(b *testing.B) {
		share(b, callers, func(i int) error { return apply(request(fmt.Sprint(i), payload), local) })
	})
	b.Run("plugin", func(b *testing.B) {
		share(b, callers, func(i int) error { return apply(request(fmt.Sprint(i), payload), plugin) })
	})
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	b.Run("plain", func(b *testing.B) {
		share(b, callers, func(i int) error { return plainPut(client, server.URL+"/objects/"+fmt.Sprint(i), payload) })
	})
}

func plainPut(c *http.Client, url, payload string) error {
	q, err := http.NewRequest(http.MethodPut, url, bytes.NewReader([]byte(payload)))
	if err != nil {
		return err
	}
	q.Header.Set("Content-Type", "application/json")
	r, err := c.Do(q)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	_, err = io.Copy(io.Discard, r.Body)
	return err
}

// BenchmarkStartWarm is a start with the compile cache warm: a plugin is
// loaded, opened, and answers its first call.
func BenchmarkStartWarm(b *testing.B) {
	wasm := goGuest(b, "../http")
	load(b, newHost(b, nil), "http", wasm)
	b.ReportMetric(float64(len(wasm))/(1<<20), "MiB")
	for b.Loop() {
		p := load(b, newHost(b, nil), "http", wasm)
		s := open(b, p, wasmhost.SinkConfig{Config: []byte(`{"path":"/objects/{key}"}`), Upstreams: upstreams(
			func(context.Context, *upstream.Request) (*upstream.Response, *upstream.Failure) {
				return &upstream.Response{Status: http.StatusNoContent}, nil
			})})
		if err := apply(request("k", "{}"), s); err != nil {
			b.Fatal(err)
		}
	}
}
