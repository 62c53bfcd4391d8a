package metrics

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/internal/api"
)

// many returns a gatherer of n sinks in no order, with two plugins.
func many(n int) (*Gatherer, *figures) {
	f, plugins := &figures{}, Plugins{}
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		name := fmt.Sprintf("sink-%d", i)
		f.sinks = append(f.sinks, engine.SinkStatus{Name: name, Counts: map[record.Phase]int{record.Pending: 1 + i, record.Failed: i % 2}, InFlight: i})
		plugins.Sinks = append(plugins.Sinks, PluginStats{name, []string{"http", "kube"}[i%2], wasmhost.Stats{
			CPU: time.Duration(i), Faults: map[wasmhost.FaultKind]int64{wasmhost.FaultTrap: 1, wasmhost.FaultBudget: 2},
		}})
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "pawl_of_the_registry", Help: "Between ours."}, func() float64 { return 1 }))
	return NewGatherer(reg, f, noSagas, nil, func() Plugins { return plugins }, api.Version{}), f
}

func text(t *testing.T, families []*dto.MetricFamily, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// What does not go through a registry is what a registry would let through, in its order:
// Gatherers checks each series as a registry does, and sorts.
func TestAScrapeIsWhatARegistryWouldShow(t *testing.T) {
	g, f := many(50)
	for range 3 {
		families, err := g.Gather()
		got := text(t, families, err)
		families, err = prometheus.Gatherers{prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return families, nil })}.Gather()
		if want := text(t, families, err); got != want {
			t.Fatalf("a scrape shows\n%s\na registry would show\n%s", got, want)
		}
		f.sinks = append(f.sinks[3:], engine.SinkStatus{Name: fmt.Sprint("another-", len(f.sinks))}) // some go, one comes
	}
}

func TestAScrapeIsNotChangedByTheNextOne(t *testing.T) {
	g, f := many(3)
	first, err := g.Gather()
	before := text(t, first, err)
	for i := range f.sinks {
		f.sinks[i].InFlight += 100
	}
	second, err := g.Gather()
	if after := text(t, second, err); after == before {
		t.Error("the second scrape shows nothing new")
	}
	if again := text(t, first, nil); again != before {
		t.Errorf("the first scrape was\n%s\nand is now\n%s", before, again)
	}
}

// The race detector watches.
func TestScrapesAtOnce(t *testing.T) {
	g, _ := many(20)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 10 {
				families, err := g.Gather()
				if err != nil {
					t.Error(err)
				}
				for _, f := range families {
					_, _ = expfmt.MetricFamilyToText(io.Discard, f)
				}
			}
		})
	}
	wg.Wait()
}
