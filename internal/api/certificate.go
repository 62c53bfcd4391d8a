package api

import (
	"fmt"
	"strings"
	"time"
)

// Certificate is how the certificate of the API is doing.
type Certificate struct {
	File          string    `json:"file" doc:"Where it is."`
	Expires       time.Time `json:"expires" doc:"When the one in force does."`
	ClientsExpire time.Time `json:"clientsExpire,omitzero" doc:"When the last of those that sign client certificates does; absent: callers are asked for none."`
	ReadAt        time.Time `json:"readAt" doc:"When the one in force was read."`
	Problem       string    `json:"problem,omitempty" doc:"Why what the files hold now can't be used; the one in force stays. Absent: they hold the one in force."`
}

// certificateAhead is how long before the end of a certificate it is told. The alert
// in deploy/prometheus has the same.
const certificateAhead = 14 * 24 * time.Hour

// certificateHeadlines says what is wrong with c, which may be nil.
func certificateHeadlines(c *Certificate, now time.Time) []string {
	if c == nil {
		return nil
	}
	var out []string
	if c.Problem != "" {
		out = append(out, fmt.Sprintf("The API's certificate was replaced by one that can't be used: %s. The one before stays in force.", strings.TrimRight(c.Problem, ".")))
	}
	for _, end := range []struct {
		what string
		at   time.Time
	}{{"certificate", c.Expires}, {"last authority of client certificates", c.ClientsExpire}} {
		switch left := end.at.Sub(now); {
		case end.at.IsZero() || left > certificateAhead:
		case left <= 0:
			out = append(out, fmt.Sprintf("The API's %s expired %s: callers are cut off. Put a new one in its file.", end.what, ago(end.at, now)))
		default:
			out = append(out, fmt.Sprintf("The API's %s expires in %s. Put a new one in its file.", end.what, rough(left)))
		}
	}
	return out
}
