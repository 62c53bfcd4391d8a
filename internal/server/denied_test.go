package server

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pawlsync/pawl/internal/access"
)

// away is an Authenticator that can't find out who asks.
type away struct{}

func (away) Authenticate(r *http.Request) (*access.Identity, error) {
	if r.Header.Get("Authorization") == "Bearer away" {
		return nil, errors.New("the cluster does not answer")
	}
	return nil, nil
}

func TestEachRequestThatIsNotAllowedIsCountedOnceByItsReason(t *testing.T) {
	k := &scopeKit{T: t, file: filepath.Join(t.TempDir(), "tokens")}
	reader := k.token("reader", access.TokenGrant{Scope: access.Read})
	var got []access.Denied
	s, _, _ := start(t, Options{Authenticators: append(tokensOf(t, k.file), away{}), Denied: func(why access.Denied) { got = append(got, why) }})
	for _, c := range []struct {
		method, path string
		header       []string
		status       int
		want         []access.Denied
	}{
		{"GET", "/v1/sinks", reader, 200, nil},
		{"GET", "/livez", nil, 200, nil},
		{"GET", "/v1/sinks/web/resource?key=none", reader, 404, nil},
		{"GET", "/v1/sinks", nil, 401, []access.Denied{access.DeniedCredentials}},
		{"GET", "/v1/nothing", []string{"Authorization", "Bearer x"}, 401, []access.Denied{access.DeniedCredentials}},
		{"GET", "/v1/sinks", []string{"Sec-Fetch-Site", "cross-site"}, 403, []access.Denied{access.DeniedSite}},
		{"GET", "/v1/sinks", []string{"Authorization", "Bearer away"}, 503, []access.Denied{access.DeniedUnavailable}},
		{"DELETE", "/v1/sinks/web/resource?key=k", reader, 403, []access.Denied{access.DeniedScope}},
	} {
		got = nil
		r := httptest.NewRequest(c.method, c.path, nil)
		if c.header != nil {
			r.Header.Set(c.header[0], c.header[1])
		}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code != c.status || !slices.Equal(got, c.want) {
			t.Errorf("%s %s %v: %d %v, want %d %v", c.method, c.path, c.header, w.Code, got, c.status, c.want)
		}
	}
}
