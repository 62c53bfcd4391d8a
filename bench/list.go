package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/server"
)

// choosy refuses a few resources for good.
type choosy struct{ *null }

func (c *choosy) Apply(ctx context.Context, r *sink.Request) sink.Result {
	if strings.HasSuffix(r.Key.Name, "7999") {
		return sink.Result{Status: sink.Rejected, Message: "refused"}
	}
	return c.null.Apply(ctx, r)
}

// benchList asks the API for pages of a million resources, as the web page does: with
// and without filters, from the start and from the middle.
func benchList(r *report) error {
	n, rounds := 1_000_000, 15
	if r.short {
		n, rounds = 100_000, 5
	}
	eng, err := open(r.ctx, r.dir, engine.SinkOptions{Name: sinkName, Sink: &choosy{&null{}}, MaxInFlight: 1024})
	if err != nil {
		return err
	}
	defer eng.Close(r.ctx)
	if err := settleMany(r.ctx, eng, n); err != nil {
		return err
	}
	s, err := server.New(server.Options{Engine: eng, Sagas: struct{ server.Sagas }{}})
	if err != nil {
		return err
	}
	r.line("%d resources, %d of them failed", n, countOf(eng, record.Failed))
	for _, c := range []struct{ what, query string }{
		{"first page", ""},
		{"first page below a prefix", "prefix=apps/team-500/"},
		{"first page of a phase that most have", "phase=Acked"},
		{"first page of a phase that few have", "phase=Failed"},
		{"first page of a phase that none has", "phase=Drifted"},
		{"first page of two phases and a prefix", "phase=Failed&phase=Stalled&prefix=apps/team-9"},
		{"first answer about an owner who has none", "owner=nobody"},
	} {
		took, next, err := listing(s, c.query, rounds)
		if err != nil {
			return err
		}
		r.line("%s, in ms: %v", c.what, took)
		r.under(c.what, took.median(), 200, " ms")
		if next == "" {
			continue
		}
		if took, _, err = listing(s, c.query+"&page="+url.QueryEscape(next), rounds); err != nil {
			return err
		}
		r.under("    the page after it", took.median(), 200, " ms")
	}
	return nil
}

// settleMany puts n resources and waits until each is acked or refused.
func settleMany(ctx context.Context, eng *engine.Engine, n int) error {
	const batch = 1000
	for i := 0; i < n; i += batch {
		puts := make([]engine.Put, batch)
		for j := range puts {
			puts[j] = engine.Put{Key: key(i + j), Payload: payload(i + j), Owner: "somebody"}
		}
		if _, err := eng.PutBatch(ctx, puts); err != nil {
			return err
		}
	}
	for countOf(eng, record.AckedPhase)+countOf(eng, record.Failed) < n {
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}

// listing asks for a page several times, and returns how long the answers took, in ms,
// and the page's next.
func listing(s *server.Server, query string, rounds int) (took sample, next string, err error) {
	for range rounds {
		request := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/v1/resources?limit=100&"+query, nil)
		answer := httptest.NewRecorder()
		began := time.Now()
		s.Handler().ServeHTTP(answer, request)
		took = append(took, float64(time.Since(began).Microseconds())/1000)
		var page api.Page
		if err := json.Unmarshal(answer.Body.Bytes(), &page); err != nil || answer.Code != http.StatusOK {
			return nil, "", fmt.Errorf("%s: %d %s", query, answer.Code, answer.Body)
		}
		next = page.Next
	}
	return took, next, nil
}
