package server

import (
	"strings"
	"testing"

	"github.com/pawlsync/pawl/internal/access"
)

// TestAQueryThatCanBeReadInTwoWaysIsRefused: none may show or change a resource beside
// the prefix that its caller's grant is for.
func TestAQueryThatCanBeReadInTwoWaysIsRefused(t *testing.T) {
	k := newScopeKit(t)
	k.put("web/u/1", "web/true", "web/other%3Bkey")
	as := k.token("users", access.TokenGrant{Scope: access.Admin, Sinks: []string{"web"}, Prefix: "u/"})
	all := k.token("all", access.TokenGrant{Scope: access.Admin})
	for _, query := range []string{
		"key=other;key&key=u/1", "key=u/1&key=other;key", "key=u/1;&key=other%3Bkey", "key=other%3Bkey&key=u/1", "key=u/1&key=other%3Bkey",
		"key=%zz&key=u/1", "%6bey=other%3Bkey&key=u/1", "key&key=u/1", "key",
	} {
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			for who, header := range map[string][]string{"users": as, "all": all} {
				response, body := ask(t, method, k.url+"/v1/sinks/web/resource?"+query, `{"payload":2}`, header...)
				if response.StatusCode != 400 || !strings.Contains(body, "%3B") {
					t.Errorf("%s %s as %s: %d %s", method, query, who, response.StatusCode, body)
				}
			}
		}
	}
	if response, body := ask(t, "GET", k.url+"/v1/sinks/web/resource?key=other%3Bkey", "", all...); response.StatusCode != 200 || !strings.Contains(body, `"other;key"`) {
		t.Errorf("a key that is encoded: %s", body)
	}
	if response, body := ask(t, "GET", k.url+"/v1/sinks/web/resource?key=u/1", "", as...); response.StatusCode != 200 {
		t.Errorf("a key below the prefix: %s", body)
	}
}
