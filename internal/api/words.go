package api

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawlsync/pawl/engine/record"
)

// cause joins reason and message.
func cause(st *Status) string {
	switch {
	case st.Message == "":
		return orElse(string(st.Reason), "no reason is known")
	case st.Reason == record.ReasonNone:
		return message(st)
	}
	return string(st.Reason) + ", " + message(st)
}

func message(st *Status) string { return clipped(orElse(st.Message, "no details are known")) }

// longestMessage is how much of a target's own words a sentence has, in bytes.
const longestMessage = 400

// clipped is a target's message as a part of a sentence. The resource's status has
// the whole.
func clipped(message string) string {
	message = strings.TrimRight(message, ".")
	if len(message) <= longestMessage {
		return message
	}
	return strings.ToValidUTF8(message[:longestMessage], "") + "…"
}

// upper makes a sentence's first letter a capital one.
func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func ternary(cond bool, yes, no string) string {
	if cond {
		return yes
	}
	return no
}

func orElse(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

// next says when what happens: "It is tried again in 5s."
func next(what string, at, now time.Time) string {
	if at.IsZero() {
		return what + " as soon as its turn comes."
	}
	return what + " " + in(at, now) + "."
}

func in(at, now time.Time) string {
	if d := at.Sub(now); d >= time.Second {
		return "in " + rough(d)
	}
	return "now"
}

func ago(at, now time.Time) string {
	if d := now.Sub(at); d >= time.Second {
		return rough(d) + " ago"
	}
	return "just now"
}

// rough prints d as people say it, with its two largest units at most.
func rough(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*day:
		return fmt.Sprintf("%d days", d/day)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// sentence ends what somebody else said, where it does not end by itself.
func sentence(s string) string {
	if strings.HasSuffix(s, "?") {
		return s
	}
	return trim(s) + "."
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
