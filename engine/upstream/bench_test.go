package upstream

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"
)

// benchCallers is how many requests are under way at once.
const benchCallers = 64

var benchBody = bytes.Repeat([]byte("x"), 1024)

func benchTarget(b *testing.B) string {
	return serve(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("ETag", `"1"`)
		_, _ = w.Write(benchBody[:128])
	})
}

// throughUpstream returns a request of 1 KiB through Do, with a credential and
// the headers that the HTTP adapter sends.
func throughUpstream(b *testing.B, base string) func() {
	u := open(b, base, func(c *Config) {
		c.Credentials.Bearer = Secret{Value: canary}
		c.AllowedPathPrefixes = []string{"/v1"}
	})
	r := &Request{Method: "PUT", Path: "/v1/objects/some-key", Body: benchBody, HasBody: true,
		Header: []Field{{"Content-Type", "application/json"}, {"Idempotency-Key", "some-key/17"}}}
	return func() {
		if _, f := u.Do(context.Background(), r); f != nil {
			b.Error(f)
		}
	}
}

// throughClient returns the same request as a plain net/http client makes it.
func throughClient(b *testing.B, base string) func() {
	transport := &http.Transport{MaxIdleConnsPerHost: benchCallers}
	b.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	return func() {
		req, err := http.NewRequestWithContext(context.Background(), "PUT", base+"/v1/objects/some-key", bytes.NewReader(benchBody))
		if err != nil {
			b.Error(err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", "some-key/17")
		req.Header.Set("Authorization", "Bearer "+canary)
		res, err := client.Do(req)
		if err != nil {
			b.Error(err)
			return
		}
		defer res.Body.Close()
		if _, err := io.ReadAll(res.Body); err != nil {
			b.Error(err)
		}
	}
}

// timed runs do n times from benchCallers goroutines.
func timed(n int, do func()) time.Duration {
	start := time.Now()
	var wg sync.WaitGroup
	for i := range benchCallers {
		wg.Go(func() {
			for range (n + i) / benchCallers {
				do()
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

// BenchmarkDoBesidePlainClient reports how many requests Do makes for each of
// a plain client's, in rounds that alternate so that both meet the same machine.
func BenchmarkDoBesidePlainClient(b *testing.B) {
	base := benchTarget(b)
	ours, plain := throughUpstream(b, base), throughClient(b, base)
	timed(4*benchCallers, ours)
	timed(4*benchCallers, plain)
	const round = 16 * benchCallers
	var oursTook, plainTook time.Duration
	var rounds int
	for b.Loop() {
		oursTook += timed(round, ours)
		plainTook += timed(round, plain)
		rounds++
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(plainTook)/float64(oursTook), "x-plain-client")
	b.ReportMetric(float64(rounds*round)/oursTook.Seconds(), "do/s")
	b.ReportMetric(float64(rounds*round)/plainTook.Seconds(), "plain/s")
}

// BenchmarkOne shows what one request at a time costs and allocates.
func BenchmarkOne(b *testing.B) {
	base := benchTarget(b)
	for name, do := range map[string]func(){"do": throughUpstream(b, base), "plain": throughClient(b, base)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				do()
			}
		})
	}
}

// BenchmarkAdmit shows what the checks alone cost.
func BenchmarkAdmit(b *testing.B) {
	u := open(b, "http://127.0.0.1:1/api", func(c *Config) { c.AllowedPathPrefixes = []string{"/v1"} })
	for name, path := range map[string]string{"plain": "/v1/objects/some-key?x=y", "escaped": "/v1/objects/some%20key%3f"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			r := &Request{Method: "PUT", Path: path, Body: benchBody, HasBody: true,
				Header: []Field{{"Content-Type", "application/json"}, {"Idempotency-Key", "some-key/17"}}}
			for b.Loop() {
				if _, err := u.admit(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
