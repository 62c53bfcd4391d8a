package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/bubble"
	"github.com/pawlsync/pawl/internal/kube"
)

func (c *cluster) thousand(t *testing.T) {
	const n = 1000
	c.namespace(t, "thousand")
	o := engine.SinkOptions{DriftInterval: time.Second}
	r := c.rig(t, `{}`, o)
	generations := make([]uint64, n)
	key := func(i int) string { return fmt.Sprintf("v1/ConfigMap/thousand/c%d", i) }
	payload := func(i int) string {
		return configMap("thousand", fmt.Sprintf("c%d", i), fmt.Sprintf(`{"n":"%d","more":"x"}`, i))
	}
	for i := range n {
		generations[i] = r.put(t, key(i), payload(i))
	}
	for i, g := range generations {
		if res := r.settle(t, key(i), g); !res.Done {
			t.Fatalf("%s: %+v", key(i), res)
		}
	}
	before := c.versions(t, "thousand")
	if len(before) != n {
		t.Fatalf("%d objects", len(before))
	}
	// The same again, and drift checks: not one write.
	for i := range n {
		if g := r.put(t, key(i), payload(i)); g != generations[i] {
			t.Fatal("the same content is a new generation")
		}
	}
	r.seenBy(t, 2*n)
	for name, v := range c.versions(t, "thousand") {
		if before[name] != v {
			t.Fatalf("%s was written", name)
		}
	}
}

// day lives through a whole day of hourly drift checks. Pawl's clock is fake, and
// stands still while the real API server works, so that a day takes as long as its
// requests do. By every object's version, and by what the server counts, none of
// them is a write.
func (c *cluster) day(t *testing.T) {
	const n, interval = 1000, time.Hour
	c.namespace(t, "day")
	k, err := kube.Open(kube.Options{Kubeconfig: c.Kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	out := newOutside(ctx, 16, k)
	var looks, applies int64
	var before, after snapshot
	bubble.Test(t, func(t *testing.T) {
		look := func() (s snapshot) {
			var err error
			out.do(func() { s, err = c.snapshot(ctx, "day") })
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		inside := &cluster{c.Kube, shippedPlugin(t, "kube")}
		r := start(t, inside.connectOver(t, k.BaseURL(), out, `{}`), engine.SinkOptions{DriftInterval: interval})
		for i := range n {
			r.put(t, fmt.Sprintf("v1/ConfigMap/day/c%d", i), configMap("day", fmt.Sprintf("c%d", i), fmt.Sprintf(`{"n":"%d"}`, i)))
		}
		for r.Sinks()[0].Counts[record.AckedPhase] < n {
			time.Sleep(time.Millisecond)
		}
		before = look()
		looks, applies = -r.sink.observes.Load(), -r.sink.applies.Load()
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		looks, applies = looks+r.sink.observes.Load(), applies+r.sink.applies.Load()
		after = look()
	})
	// The checks are jittered: an interval is shorter or longer than it should be.
	if least := int64(n * (24 * time.Hour / interval) * 8 / 10); looks < least || after.reads-before.reads < looks {
		t.Errorf("%d looks, of which the server saw %d; want %d at least", looks, after.reads-before.reads, least)
	}
	if after.writes != before.writes || before.writes < n || applies != 0 {
		t.Errorf("the server counts %d writes more, after %d; there were %d applies", after.writes-before.writes, before.writes, applies)
	}
	for name, v := range before.versions {
		if after.versions[name] != v {
			t.Fatalf("%s was written", name)
		}
	}
	if len(before.versions) != n || len(after.versions) != n {
		t.Errorf("%d objects, then %d", len(before.versions), len(after.versions))
	}
	t.Logf("%d looks in a day", looks)
}

// snapshot is what the API server shows of ConfigMaps.
type snapshot struct {
	versions      map[string]string // their resourceVersions, of one namespace, by name
	reads, writes int64             // requests so far, by its own count, of all namespaces
}

func (c *cluster) snapshot(ctx context.Context, ns string) (s snapshot, err error) {
	status, answer, err := c.send(ctx, http.MethodGet, "/api/v1/namespaces/"+ns+"/configmaps", "", "")
	if err != nil || status != http.StatusOK {
		return s, errors.Join(err, fmt.Errorf("the list was answered %d", status))
	}
	var list struct{ Items []object }
	if err := json.Unmarshal(answer, &list); err != nil {
		return s, err
	}
	s.versions = map[string]string{}
	for _, o := range list.Items {
		s.versions[o.at("metadata", "name").(string)] = o.version()
	}
	if status, answer, err = c.send(ctx, http.MethodGet, "/metrics", "", ""); err != nil || status != http.StatusOK {
		return s, errors.Join(err, fmt.Errorf("the metrics were answered %d", status))
	}
	for line := range strings.Lines(string(answer)) {
		labels, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if !ok || !strings.HasPrefix(labels, "apiserver_request_total{") || !strings.Contains(labels, `resource="configmaps"`) {
			continue
		}
		count, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return s, err
		}
		_, verb, _ := strings.Cut(labels, `verb="`)
		switch verb, _, _ = strings.Cut(verb, `"`); verb {
		case "GET", "LIST", "WATCH":
			s.reads += int64(count)
		default:
			s.writes += int64(count)
		}
	}
	return s, nil
}

// versions returns the resourceVersions of a namespace's ConfigMaps by name.
func (c *cluster) versions(t *testing.T, ns string) map[string]string {
	t.Helper()
	s, err := c.snapshot(t.Context(), ns)
	if err != nil {
		t.Fatal(err)
	}
	return s.versions
}

// outside is an http.RoundTripper that carries requests out of a synctest bubble:
// who waits for a connection never comes to rest, and the bubble's clock would
// stand still for ever. All that it shares with the bubble is made outside of it.
type outside struct {
	ctx  context.Context
	rt   http.RoundTripper
	idle chan *courier
}

type courier struct {
	work chan func()
	done chan struct{}
}

// newOutside has n requests at a time carried by rt, until ctx ends.
func newOutside(ctx context.Context, n int, rt http.RoundTripper) *outside {
	o := &outside{ctx: ctx, rt: rt, idle: make(chan *courier, n)}
	for range n {
		c := &courier{make(chan func()), make(chan struct{})}
		go func() {
			for {
				select {
				case f := <-c.work:
					f()
					c.done <- struct{}{}
				case <-ctx.Done():
					return
				}
			}
		}()
		o.idle <- c
	}
	return o
}

// do runs f outside.
func (o *outside) do(f func()) {
	c := <-o.idle
	c.work <- f
	<-c.done
	o.idle <- c
}

func (o *outside) RoundTrip(q *http.Request) (res *http.Response, err error) {
	q = q.WithContext(o.ctx)
	o.do(func() {
		if res, err = o.rt.RoundTrip(q); err != nil {
			return
		}
		var body []byte
		body, err = io.ReadAll(res.Body)
		_ = res.Body.Close()
		res.Body = io.NopCloser(bytes.NewReader(body))
	})
	return res, err
}
