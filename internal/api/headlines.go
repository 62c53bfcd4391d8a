package api

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawlsync/pawl/engine/record"
)

// behind is how old a change is that counts as stuck, without any other sign.
// The alert in docs/metrics.md has the same.
const behind = 10 * time.Minute

// Headlines says what needs somebody's attention, most urgent first.
func Headlines(st *DaemonStatus, now time.Time) []string {
	urgent, other := []string{}, []string{}
	if st.Store.RefusingPuts {
		urgent = append(urgent, "The disk is nearly full: Puts are refused, what was accepted is still delivered. Free some space.")
	}
	urgent = append(urgent, certificateHeadlines(st.Certificate, now)...)
	if st.TokenProblem != "" {
		urgent = append(urgent, fmt.Sprintf("The token file can't be used, and the tokens before stay in force, revoked ones included: %s", sentence(st.TokenProblem)))
	}
	if c := st.Config; c != nil && !c.RefusedAt.IsZero() {
		urgent = append(urgent, fmt.Sprintf("The configuration %s was refused %s, and the one before goes on: %s See pawl config diff.", c.File, ago(c.RefusedAt, now), sentence(strings.Join(c.Errors, "; "))))
	}
	if c := st.Config; c != nil && len(c.Restart) > 0 {
		other = append(other, fmt.Sprintf("The configuration waits for a restart: %s.", strings.Join(c.Restart, ", ")))
	}
	if n := st.Sagas.Unresolved; n > 0 {
		urgent = append(urgent, fmt.Sprintf("%s unresolved, the oldest began %s; see pawl saga list --open.", count(n, "saga"), ago(st.Sagas.Oldest, now)))
	}
	for i := range st.Sinks {
		s := &st.Sinks[i]
		if !s.Configured {
			other = append(other, fmt.Sprintf("%s belong to sink %s, which is not in the configuration.", count(total(s), "resource"), s.Name))
			continue
		}
		switch trouble, late := Trouble(s), !s.OldestUnacked.IsZero() && now.Sub(s.OldestUnacked) >= behind; {
		case s.NotReady != "":
			urgent = append(urgent, fmt.Sprintf("Sink %s is not ready: %s. It is tried again; what is put for it waits.", s.Name, strings.TrimRight(s.NotReady, ".")))
		case breakerOpen(s):
			urgent = append(urgent, fmt.Sprintf("Sink %s: %s. %s", s.Name, trouble, next("It is probed", s.NextProbe, now)))
		case trouble != "":
			urgent = append(urgent, fmt.Sprintf("Sink %s: %s (newest call %s); nothing was confirmed since.", s.Name, trouble, ago(s.LastErrorAt, now)))
		case late && !s.Suspended:
			urgent = append(urgent, fmt.Sprintf("Sink %s: its oldest change is not confirmed since %s.", s.Name, rough(now.Sub(s.OldestUnacked))))
		}
		other = append(other, sinkHeadlines(s)...)
	}
	for i := range st.Sources {
		urgent = append(urgent, sourceHeadlines(&st.Sources[i], now)...)
	}
	return append(urgent, other...)
}

func sinkHeadlines(s *Sink) []string {
	var out []string
	if s.Suspended {
		out = append(out, fmt.Sprintf("Sink %s is suspended (%s).", s.Name, orElse(string(s.SuspendReason), "no reason given")))
	}
	for _, p := range []record.Phase{record.Failed, record.Stalled, record.Drifted} {
		if n := s.Counts[p]; n > 0 {
			out = append(out, fmt.Sprintf("Sink %s: %s %s.", s.Name, count(n, "resource"), p))
		}
	}
	return out
}

func total(s *Sink) int {
	n := 0
	for _, c := range s.Counts {
		n += c
	}
	return n
}
