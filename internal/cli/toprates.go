package cli

import (
	"time"

	"github.com/pawlsync/pawl/internal/api"
)

// The spans over which `pawl top` shows rates.
const (
	topShort = 10 * time.Second
	topLong  = time.Minute
)

// topLook is what one look at the daemon counted.
type topLook struct {
	at      time.Time
	started time.Time // of the daemon; counts begin there
	totals  map[string]api.SinkTotals
}

// topHistory holds the looks of the last minute, oldest first.
type topHistory []topLook

// add adds a look. Counts of a daemon that was started since say nothing of the new one's.
func (h topHistory) add(at time.Time, st *api.DaemonStatus) topHistory {
	look := topLook{at: at, started: st.StartedAt, totals: map[string]api.SinkTotals{}}
	for i := range st.Sinks {
		look.totals[st.Sinks[i].Name] = st.Sinks[i].Totals
	}
	if len(h) > 0 && !h[len(h)-1].started.Equal(look.started) {
		h = nil
	}
	h = append(h, look)
	for len(h) > 2 && at.Sub(h[1].at) >= topLong { // one at a minute's distance stays
		h = h[1:]
	}
	return h
}

// topRates are a sink's, per second.
type topRates struct {
	Puts   float64 `json:"puts"`
	Acked  float64 `json:"acked"`
	Failed float64 `json:"failed"`
}

// over returns a sink's rates over the span, or over as much of it as there was a look.
func (h topHistory) over(sink string, span time.Duration) topRates {
	if len(h) < 2 {
		return topRates{}
	}
	last := h[len(h)-1]
	from := h[0]
	for _, look := range h[1 : len(h)-1] {
		if last.at.Sub(look.at) >= span {
			from = look
		}
	}
	seconds := last.at.Sub(from.at).Seconds()
	if seconds <= 0 {
		return topRates{}
	}
	a, b := from.totals[sink], last.totals[sink]
	rate := func(from, to uint64) float64 { return float64(to-min(from, to)) / seconds }
	return topRates{Puts: rate(a.Puts, b.Puts), Acked: rate(a.Acked, b.Acked), Failed: rate(a.Failed, b.Failed)}
}
