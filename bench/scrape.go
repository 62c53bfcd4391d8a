package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/memory"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/saga"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/metrics"
	"github.com/pawlsync/pawl/internal/source"
)

// benchScrape asks for the metrics of a thousand sinks, each of which has delivered.
func benchScrape(r *report) error {
	sinks := 1000
	if r.short {
		sinks = 100
	}
	registry := prometheus.NewRegistry()
	observer := metrics.New(registry)
	options := engine.Options{Observer: observer}
	options.Store = func(o outbox.Observer) (outbox.Store, error) { return memory.New(memory.Options{Observer: o}), nil }
	for i := range sinks {
		options.Sinks = append(options.Sinks, engine.SinkOptions{Name: fmt.Sprintf("sink-%04d", i), Sink: &null{}})
	}
	plugins := metrics.Plugins{}
	for i := range sinks {
		plugins.Sinks = append(plugins.Sinks, metrics.PluginStats{Sink: fmt.Sprintf("sink-%04d", i), Plugin: "http",
			Stats: wasmhost.Stats{Instances: 1, MemoryBytes: 3 << 20, CPU: time.Second}})
	}
	eng, err := engine.Open(r.ctx, options)
	if err != nil {
		return err
	}
	defer eng.Close(r.ctx)
	gatherer := metrics.NewGatherer(registry, eng, saga.New(saga.Options{}).Stats,
		func() []source.Status { return nil }, func() metrics.Plugins { return plugins }, api.Version{})
	for i := range sinks {
		key := record.Key{Sink: fmt.Sprintf("sink-%04d", i), Name: "resource"}
		put, err := eng.Put(r.ctx, engine.Put{Key: key, Payload: payload(i)})
		if err != nil {
			return err
		}
		if _, err := eng.Wait(r.ctx, key, put.Generation); err != nil {
			return err
		}
	}
	handler := promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{EnableOpenMetrics: true})
	return measureScrapes(r, sinks, handler)
}

// measureScrapes asks as Prometheus does, packed.
func measureScrapes(r *report, sinks int, handler http.Handler) error {
	size := 0
	us, err := perCall(5*time.Second, func() error {
		request := httptest.NewRequestWithContext(r.ctx, http.MethodGet, "/metrics", nil)
		request.Header.Set("Accept", "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2")
		request.Header.Set("Accept-Encoding", "gzip")
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		size = answer.Body.Len()
		if answer.Code != http.StatusOK {
			return fmt.Errorf("a scrape answers %d: %s", answer.Code, answer.Body)
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.under(fmt.Sprintf("processor time of a scrape, %d sinks", sinks), us/1000, 50, " ms")
	r.under(fmt.Sprintf("what a scrape of %d sinks sends, packed", sinks), float64(size)/1e6, 2, " MB")
	return nil
}
