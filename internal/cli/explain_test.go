package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
)

func TestExplainPrintsALongRejectionOnce(t *testing.T) {
	const words = "422: the field /spec/replicas is no number"
	history := func(reason record.Reason, message string) api.Transition {
		return api.Transition{At: now.Add(-time.Minute), Phase: record.Failed, Generation: 1, Reason: reason, Message: message}
	}
	e := api.Explanation{Text: "The target refuses it for good: Rejected, " + words + ". Nothing happens until a new generation is put.", Resource: api.Resource{Status: api.Status{
		Message: words + ".", History: []api.Transition{history(record.ReasonRejected, words+"."), history(record.ReasonRetryable, "503"), history(record.ReasonRejected, words+".")},
	}}}
	var out bytes.Buffer
	a := &app{Streams: Streams{Out: &out, Now: func() time.Time { return now }}}
	a.printExplanation(&e)
	text := strings.Join(strings.Fields(out.String()), " ") // as it was before it was wrapped
	if n := strings.Count(text, words); n != 2 || !strings.Contains(text, "Failed - Rejected 60s") || !strings.Contains(text, "Retryable: 503") {
		t.Errorf("the target's words are there %d times, want one before and one after other words:\n%s", n, out.String())
	}

	out.Reset()
	e.Text = "The target still works on it."
	a.printExplanation(&e)
	if text := strings.Join(strings.Fields(out.String()), " "); strings.Count(text, words) != 2 {
		t.Errorf("what the paragraph does not say, the history has to:\n%s", out.String())
	}
}
