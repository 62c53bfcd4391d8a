package client

import (
	"context"
	"iter"
	"net/url"

	"github.com/pawlsync/pawl/internal/api"
)

// PlanOptions say how a plan is made.
type PlanOptions struct {
	Values bool // of the paths that differ, sensitive ones hidden
}

// Plan asks what lines would come to at their targets, and changes nothing. Answers
// come as those of Batch do.
func (c *Client) Plan(ctx context.Context, o PlanOptions, lines iter.Seq[api.PlanLine]) iter.Seq2[api.PlanAnswer, error] {
	q := url.Values{}
	setFlag(q, "values", o.Values)
	return stream(c, ctx, exchange[api.PlanLine, api.PlanAnswer]{
		what: "plan", path: "/v1/plan", query: q,
		name: func(l *api.PlanLine) string { return l.Sink + "/" + l.Key },
		line: func(a *api.PlanAnswer) (int, *api.Problem) { return a.Line, a.Error },
	}, lines)
}
