package server

import (
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2/queryparam"

	"github.com/pawlsync/pawl/internal/api"
)

// ambiguous refuses a query that can be read in two ways. What a caller may do is
// checked for the key that net/url reads, and done to the one that huma reads: they
// differ about ";" and about a key without a value, and only the first of two counts.
func ambiguous(r *http.Request) *api.Problem {
	const hint = "send ?key=… once, percent-encoded: a ; is %3B"
	values, err := url.ParseQuery(r.URL.RawQuery)
	switch {
	case err != nil:
		return api.NewProblem(http.StatusBadRequest, api.CodeBadRequest, "the query can't be read: "+err.Error(), hint)
	case len(values["key"]) > 1:
		return api.NewProblem(http.StatusBadRequest, api.CodeBadRequest, "query parameter key: it is there more than once", hint)
	case values.Get("key") != queryparam.Get(r.URL.RawQuery, "key"):
		return api.NewProblem(http.StatusBadRequest, api.CodeBadRequest, "query parameter key: it has no value", hint)
	}
	return nil
}
