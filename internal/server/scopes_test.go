package server

import (
	"bufio"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
)

// scopeKit is a server whose callers are told apart by tokens.
type scopeKit struct {
	*testing.T
	file string
	fake *fake
	url  string
}

func newScopeKit(t *testing.T) *scopeKit {
	k := &scopeKit{T: t, file: filepath.Join(t.TempDir(), "tokens")}
	k.token("keeper", access.TokenGrant{Scope: access.Admin})
	_, f, hs := start(t, Options{Authenticators: tokensOf(t, k.file), Metrics: http.NotFoundHandler(), AskAgain: time.Millisecond})
	k.fake, k.url = f, hs.URL
	return k
}

// token adds a token and returns the header that its bearer sends.
func (k *scopeKit) token(name string, grants ...access.TokenGrant) (header []string) {
	k.Helper()
	sent, hash := access.NewToken()
	if err := access.AddToken(k.file, &access.Token{Name: name, Hash: hash, Grants: grants}); err != nil {
		k.Fatal(err)
	}
	return []string{"Authorization", "Bearer " + sent}
}

func (k *scopeKit) put(keys ...string) {
	k.Helper()
	as := k.token("writer-of-"+strings.ReplaceAll(keys[0], "/", "-"), access.TokenGrant{Scope: access.Write})
	for _, key := range keys {
		sink, name, _ := strings.Cut(key, "/")
		if response, body := ask(k.T, "PUT", k.url+"/v1/sinks/"+sink+"/resource?key="+name, `{"payload":{"a":1}}`, as...); response.StatusCode != 200 {
			k.Fatalf("%s: %s", key, body)
		}
	}
}

// TestEveryRouteIsOpenToItsScopeAndThoseAboveAlone: a caller whose scope is too small,
// or holds elsewhere, gets a denial that says what is missing; others get past it.
func TestEveryRouteIsOpenToItsScopeAndThoseAboveAlone(t *testing.T) {
	k := newScopeKit(t)
	k.fake.wait = nil
	elsewhere := k.token("elsewhere", access.TokenGrant{Scope: access.Admin, Sinks: []string{"cluster"}, Prefix: "k"})
	prefixed := k.token("prefixed", access.TokenGrant{Scope: access.Admin, Sinks: []string{"web"}, Prefix: "k"})
	as := map[access.Scope][]string{}
	for _, scope := range access.Scopes {
		as[scope] = k.token(string(scope), access.TokenGrant{Scope: scope})
	}
	denied := func(pattern string, header []string) bool {
		t.Helper()
		method, path := pathOf(pattern)
		response, body := ask(t, method, k.url+path+"?key=k&timeout=0s&nonsense=1", "", header...)
		is := response.StatusCode == 403
		if is && (problemOf(t, response, body).Code != api.CodeMissingScope || !strings.Contains(body, "lacks the scope "+string(needs[pattern].scope)+" for ")) {
			t.Errorf("%s: %s", pattern, body)
		}
		if response.StatusCode == 401 {
			t.Errorf("%s: %s", pattern, body)
		}
		return is
	}
	for pattern, n := range needs {
		if method, _ := pathOf(pattern); method == http.MethodGet && lasting[pattern] && !strings.HasSuffix(pattern, "/wait") || n.where == anybody {
			continue // an answer that lasts; the others have the same check
		}
		for i, scope := range access.Scopes {
			enough := n.scope == "" || i >= indexOf(n.scope)
			if got := denied(pattern, as[scope]); got == enough {
				t.Errorf("%s as %s: denied %v", pattern, scope, got)
			}
		}
		if got, want := denied(pattern, elsewhere), n.where == ofResource || n.where == ofWholeSink || n.where == everywhere; got != want {
			t.Errorf("%s with grants elsewhere: denied %v", pattern, got)
		}
		if got, want := denied(pattern, prefixed), n.where == ofWholeSink || n.where == everywhere; got != want {
			t.Errorf("%s with grants for keys that begin with k: denied %v", pattern, got)
		}
	}
}

func indexOf(scope access.Scope) int {
	for i, s := range access.Scopes {
		if s == scope {
			return i
		}
	}
	return len(access.Scopes)
}

func TestADenialIsTheSameWhetherThereIsSuchAResource(t *testing.T) {
	k := newScopeKit(t)
	k.put("web/there")
	as := k.token("other", access.TokenGrant{Scope: access.Read, Sinks: []string{"cluster"}})
	_, is := ask(t, "GET", k.url+"/v1/sinks/web/resource?key=there", "", as...)
	_, isNot := ask(t, "GET", k.url+"/v1/sinks/web/resource?key=thXre", "", as...)
	if strings.ReplaceAll(is, "there", "K") != strings.ReplaceAll(isNot, "thXre", "K") || !strings.Contains(is, `lacks the scope read for sink \"web\", key \"there\"`) {
		t.Errorf("they differ:\n%s%s", is, isNot)
	}
	if _, body := ask(t, "GET", k.url+"/v1/resources?sink=web", "", as...); !strings.Contains(body, string(api.CodeMissingScope)) {
		t.Errorf("a list of it: %s", body)
	}
	if _, body := ask(t, "GET", k.url+"/v1/sinks", "", as...); strings.Contains(body, `"web"`) || !strings.Contains(body, `"cluster"`) {
		t.Errorf("sinks: %s", body)
	}
}

func TestAListShowsWhatItsCallerMayReadPageByPage(t *testing.T) {
	k := newScopeKit(t)
	k.put("cluster/a1", "cluster/b1", "web/a1", "web/a2", "web/b1", "web/c1", "web/c2")
	as := k.token("some", access.TokenGrant{Scope: access.Read, Sinks: []string{"web"}, Prefix: "a"}, access.TokenGrant{Scope: access.Write, Prefix: "c"},
		access.TokenGrant{Scope: access.Read, Sinks: []string{"web"}, Prefix: "c1"}, access.TokenGrant{Scope: access.Read, Sinks: []string{"cluster"}, Prefix: "b"})
	parts, err := (&Server{engine: k.fake}).readable(access.With(t.Context(), &access.Identity{Grants: []access.Grant{
		{Scope: access.Read, Prefix: "a"}, {Scope: access.Read, Prefix: "a/x"}, {Scope: access.Read, Prefix: "a/y"},
	}}), span{})
	if err != nil || len(parts) != 2 {
		t.Errorf("parts within others are asked for by themselves: %v %v", parts, err)
	}
	for _, key := range []string{"cluster/b1", "web/a1", "web/a2", "web/c1", "web/c2"} {
		sink, name, _ := strings.Cut(key, "/")
		if response, body := ask(t, "GET", k.url+"/v1/sinks/"+sink+"/resource?key="+name, "", as...); response.StatusCode != 200 {
			t.Errorf("%s: %s", key, body)
		}
	}
	_, body := ask(t, "GET", k.url+"/v1/resources", "", as...)
	for key, want := range map[string]bool{`"cluster","key":"a1"`: false, `"cluster","key":"b1"`: true, `"web","key":"a2"`: true, `"web","key":"b1"`: false, `"web","key":"c2"`: true} {
		if strings.Contains(body, key) != want {
			t.Errorf("%s: shown %v\n%s", key, !want, body)
		}
	}
	if _, body := ask(t, "GET", k.url+"/v1/resources?sink=web&prefix=c2", "", as...); strings.Count(body, `"key":`) != 1 {
		t.Errorf("a prefix within a grant: %s", body)
	}
	if _, body := ask(t, "GET", k.url+"/v1/resources?payloads=true&reveal=true", "", as...); !strings.Contains(body, "lacks the scope admin") {
		t.Errorf("sensitive values without admin: %s", body)
	}
}

func TestABatchAnswersEachLineByItsOwnScope(t *testing.T) {
	k := newScopeKit(t)
	as := k.token("users", access.TokenGrant{Scope: access.Write, Sinks: []string{"web"}, Prefix: "u/"})
	_, body := ask(t, "POST", k.url+"/v1/batch", `{"sink":"web","key":"u/1","payload":1}`+"\n"+`{"sink":"web","key":"x","payload":1}`+"\n"+`{"sink":"nowhere","key":"u/1","payload":1}`+"\n", as...)
	lines := strings.Split(strings.TrimSpace(body), "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], `"generation":1`) || !strings.Contains(lines[1], string(api.CodeMissingScope)) || !strings.Contains(lines[2], string(api.CodeMissingScope)) {
		t.Errorf("got %s", body)
	}
	if n := len(k.fake.puts); n != 1 {
		t.Errorf("%d were put", n)
	}
}

func TestAWatchTellsWhatItsCallerMayReadAndEndsWhenTheTokenIsRevoked(t *testing.T) {
	k := newScopeKit(t)
	as := k.token("watcher", access.TokenGrant{Scope: access.Read, Sinks: []string{"web"}, Prefix: "a"})
	r, err := http.NewRequestWithContext(t.Context(), "GET", k.url+"/v1/watch", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(as[0], as[1])
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	k.put("web/hidden", "web/a1")
	for lines.Scan() && !strings.Contains(lines.Text(), `"key":"`) {
	}
	if !strings.Contains(lines.Text(), `"key":"a1"`) {
		t.Errorf("the first resource told is in %q", lines.Text())
	}
	if err := access.RemoveToken(k.file, "watcher"); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // until the server ends it
	}
	if err := lines.Err(); err != nil {
		t.Errorf("it did not end in good order: %v", err)
	}
}
