package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlsync/pawl/internal/api"
)

// topView is one look with its rates, as it is printed.
type topView struct {
	At        time.Time `json:"at"`
	StartedAt time.Time `json:"startedAt"`
	Version   string    `json:"version"`
	Resources int       `json:"resources"`
	Headlines []string  `json:"headlines"`
	Sinks     []topSink `json:"sinks"`
}

// topSink is one row.
type topSink struct {
	Name          string    `json:"name"`
	State         string    `json:"state"`
	Short         topRates  `json:"perSecond10s"`
	Long          topRates  `json:"perSecond1m"`
	Waiting       int       `json:"waiting"`
	InFlight      int       `json:"inFlight"`
	Breaker       string    `json:"breaker"`
	OldestUnacked time.Time `json:"oldestUnacked,omitzero"`
}

func (a *app) topView(h topHistory, st *api.DaemonStatus) topView {
	v := topView{At: h[len(h)-1].at, StartedAt: st.StartedAt, Version: st.Version, Resources: st.Resources, Headlines: st.Headlines, Sinks: []topSink{}}
	for i := range st.Sinks {
		s := &st.Sinks[i]
		v.Sinks = append(v.Sinks, topSink{
			Name: s.Name, State: a.sinkState(s), Short: h.over(s.Name, topShort), Long: h.over(s.Name, topLong),
			Waiting: s.Waiting.Fresh + s.Waiting.Retry, InFlight: s.InFlight, Breaker: s.Breaker, OldestUnacked: s.OldestUnacked,
		})
	}
	return v
}

// topOrders are what rows can be sorted by, most first; the name decides among equals.
var topOrders = []struct {
	key  byte
	name string
	less func(a, b *topSink) int
}{
	{'n', "name", func(a, b *topSink) int { return 0 }},
	{'p', "puts", func(a, b *topSink) int { return cmp.Compare(b.Short.Puts, a.Short.Puts) }},
	{'a', "acked", func(a, b *topSink) int { return cmp.Compare(b.Short.Acked, a.Short.Acked) }},
	{'f', "failed", func(a, b *topSink) int { return cmp.Compare(b.Short.Failed, a.Short.Failed) }},
	{'w', "waiting", func(a, b *topSink) int { return cmp.Compare(b.Waiting, a.Waiting) }},
	{'o', "oldest", oldestFirst},
	{'i', "in-flight", func(a, b *topSink) int { return cmp.Compare(b.InFlight, a.InFlight) }},
}

// oldestFirst puts sinks that owe nothing last.
func oldestFirst(a, b *topSink) int {
	if a.OldestUnacked.IsZero() || b.OldestUnacked.IsZero() {
		return cmp.Compare(b.OldestUnacked.Unix(), a.OldestUnacked.Unix())
	}
	return a.OldestUnacked.Compare(b.OldestUnacked)
}

// sort sorts the rows by an index of topOrders.
func (v *topView) sort(order int) {
	slices.SortFunc(v.Sinks, func(a, b topSink) int {
		return cmp.Or(topOrders[order].less(&a, &b), cmp.Compare(a.Name, b.Name))
	})
}

func topOrderNames() []string {
	var names []string
	for _, o := range topOrders {
		names = append(names, o.name)
	}
	return names
}

// topText prints a view as lines: what needs somebody, the daemon, the sinks.
func (a *app) topText(v *topView) string {
	var out bytes.Buffer
	plain := *a
	plain.Out, plain.colours = &out, false
	for _, h := range v.Headlines {
		fmt.Fprintln(&out, "! "+h)
	}
	var sum topRates
	for i := range v.Sinks {
		sum.Puts, sum.Acked, sum.Failed = sum.Puts+v.Sinks[i].Short.Puts, sum.Acked+v.Sinks[i].Short.Acked, sum.Failed+v.Sinks[i].Short.Failed
	}
	fmt.Fprintf(&out, "pawl %s, up %s, %s; %s put/s, %s acked/s, %s failed/s\n\n", v.Version, a.age(v.StartedAt), plural(v.Resources, "resource"),
		perSecond(sum.Puts), perSecond(sum.Acked), perSecond(sum.Failed))
	t := plain.table("SINK", "STATE", "PUT/S", "1M", "ACKED/S", "1M", "FAILED/S", "1M", "WAITING", "OLDEST", "IN FLIGHT", "BREAKER")
	for i := range v.Sinks {
		s := &v.Sinks[i]
		t.add(s.Name, s.State, perSecond(s.Short.Puts), perSecond(s.Long.Puts), perSecond(s.Short.Acked), perSecond(s.Long.Acked),
			perSecond(s.Short.Failed), perSecond(s.Long.Failed), strconv.Itoa(s.Waiting), a.age(s.OldestUnacked), strconv.Itoa(s.InFlight), s.Breaker)
	}
	t.print()
	return out.String()
}

// perSecond prints a rate with as many digits as people read.
func perSecond(r float64) string {
	switch {
	case r == 0:
		return "0"
	case r < 10:
		return strconv.FormatFloat(r, 'f', 1, 64)
	}
	return strconv.FormatFloat(r, 'f', 0, 64)
}

// topFrame draws text over what a terminal of that size shows, and foot in its last line.
func topFrame(text, foot string, width, height int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if room := max(height-1, 1); len(lines) > room {
		lines = lines[:room]
	}
	var out strings.Builder
	out.WriteString("\x1b[H")
	for _, line := range append(lines, foot) {
		if runes := []rune(line); width > 0 && len(runes) > width {
			line = string(runes[:width])
		}
		out.WriteString(line + "\x1b[K\r\n")
	}
	return strings.TrimSuffix(out.String(), "\r\n") + "\x1b[J"
}
