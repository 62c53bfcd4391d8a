package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/api"
)

// lookAt is a status whose one sink has counted n of each, and whose daemon started then.
func lookAt(started time.Time, n uint64) *api.DaemonStatus {
	return &api.DaemonStatus{StartedAt: started, Sinks: []api.Sink{{Name: "web", Totals: api.SinkTotals{Puts: n, Acked: n / 2, Failed: n / 10}}}}
}

func TestTopRatesAreOverTenSecondsAndAMinute(t *testing.T) {
	var h topHistory
	n := uint64(0)
	for second := range 91 { // ten a second, and in the last ten seconds a hundred
		if second > 0 {
			n += 10
		}
		if second > 80 {
			n += 90
		}
		h = h.add(now.Add(time.Duration(second)*time.Second), lookAt(now, n))
	}
	if got, want := h.over("web", topShort), (topRates{Puts: 100, Acked: 50, Failed: 10}); got != want {
		t.Errorf("over ten seconds %+v, want %+v", got, want)
	}
	if got, want := h.over("web", topLong), (topRates{Puts: 25, Acked: 12.5, Failed: 2.5}); got != want {
		t.Errorf("over a minute %+v, want %+v", got, want)
	}
	if len(h) != 61 {
		t.Errorf("%d looks are kept, want those of a minute", len(h))
	}
	if got := h.over("other", topShort); got != (topRates{}) {
		t.Errorf("a sink that nobody counted has %+v", got)
	}
}

func TestTopForgetsWhatAnEarlierDaemonCounted(t *testing.T) {
	h := topHistory(nil).add(now, lookAt(now, 1000))
	h = h.add(now.Add(time.Second), lookAt(now.Add(time.Second), 20))
	if got := h.over("web", topShort); got != (topRates{}) {
		t.Errorf("%+v over a restart", got)
	}
	h = h.add(now.Add(2*time.Second), lookAt(now.Add(time.Second), 30))
	if got := h.over("web", topShort); got.Puts != 10 {
		t.Errorf("%+v after it, want 10 puts/s", got)
	}
}

func TestTopSortsMostFirst(t *testing.T) {
	v := topView{Sinks: []topSink{
		{Name: "b", Short: topRates{Puts: 1, Acked: 3, Failed: 2}, Waiting: 2, InFlight: 1},
		{Name: "a", Short: topRates{Puts: 1, Acked: 1, Failed: 3}, Waiting: 3, InFlight: 2, OldestUnacked: now},
		{Name: "c", Short: topRates{Puts: 2, Acked: 2, Failed: 1}, Waiting: 1, InFlight: 3, OldestUnacked: now.Add(-time.Hour)},
	}}
	want := map[string]string{"name": "abc", "puts": "cab", "acked": "bca", "failed": "abc", "waiting": "abc", "oldest": "cab", "in-flight": "cab"}
	for i, name := range topOrderNames() {
		v.sort(i)
		got := ""
		for _, s := range v.Sinks {
			got += s.Name
		}
		if got != want[name] {
			t.Errorf("by %s: %s, want %s", name, got, want[name])
		}
	}
}

func TestTopPrintsOneTableWithoutATerminal(t *testing.T) {
	d := newFakeDaemon(t)
	d.status.Sinks[1].Waiting = api.Waiting{Fresh: 7, Retry: 5, Check: 100}
	out, errs, code := run(t, d.URL, "", "top", "--interval", "1ms", "--sort", "waiting")
	if code != ExitDone || errs != "" {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	rows := strings.Split(out, "\n")
	if len(rows) < 6 || !strings.HasPrefix(rows[1], "pawl v1.2.3, up 3h, 3 resources; 0 put/s") ||
		strings.Join(strings.Fields(rows[4]), " ") != "web unreachable 0 0 0 0 0 0 12 3h 0 open" {
		t.Errorf("it prints\n%s", out)
	}
	out, _, _ = run(t, d.URL, "", "top", "--once", "--interval", "1ms", "-o", "json")
	var v topView
	if err := json.Unmarshal([]byte(out), &v); err != nil || len(v.Sinks) != 2 || v.Sinks[1].Waiting != 12 || v.Sinks[1].Breaker != "open" {
		t.Errorf("as JSON, %v:\n%s", err, out)
	}
}

func TestTopRefusesWhatMakesNoSense(t *testing.T) {
	d := newFakeDaemon(t)
	for _, args := range [][]string{{"top", "--sort", "colour"}, {"top", "--interval", "0s"}, {"top", "web"}} {
		if _, errs, code := run(t, d.URL, "", args...); code != ExitUsage {
			t.Errorf("%v: exit code %d, %s", args, code, errs)
		}
	}
	d.Close()
	if _, errs, code := run(t, d.URL, "", "top", "--once"); code != ExitUnreachable {
		t.Errorf("without a daemon: exit code %d, %s", code, errs)
	}
}

func TestTopFrameFitsTheTerminal(t *testing.T) {
	frame := topFrame("one\ntwo is long\nthree\nfour\n", "the foot is long", 7, 3)
	if want := "\x1b[Hone\x1b[K\r\ntwo is \x1b[K\r\nthe foo\x1b[K\x1b[J"; frame != want {
		t.Errorf("%q, want %q", frame, want)
	}
}
