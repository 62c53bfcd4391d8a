package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/test/ops/kit"
)

// callers: who has a token of the cluster may do what the configuration says of its service
// account, as long as the API server knows it and it is for pawl.
func (c *cluster) callers(t *testing.T) {
	c.account(t, "ci", "runner")
	c.account(t, "ci", "stranger")
	c.account(t, "eyes", "dashboard")
	d := c.daemonWithTokenReview(t)
	runner := c.tokenFor(t, "ci", "runner", "pawl")

	// The user "limited" that pawl asks as may not ask yet.
	d.refuses(t, runner, http.StatusServiceUnavailable, "bind pawl's user to the ClusterRole system:auth-delegator")
	const bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
	c.create(t, bindings, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"pawl-asks"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"system:auth-delegator"},
		"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"limited"}]}`)
	defer c.remove(t, bindings+"/pawl-asks")
	eventually(t, "pawl may ask", func() bool { return d.whoami(t, runner).status == http.StatusOK })

	// By name, and by group; each what it was given.
	var who api.Identity
	d.whoami(t, runner).into(t, &who)
	if who.Name != "system:serviceaccount:ci:runner" || who.Kind != "kubernetes" || len(who.Grants) != 1 ||
		who.Grants[0].Scope != "write" || who.Grants[0].Prefix != "users/" {
		t.Errorf("the runner is %+v", who)
	}
	dashboard := c.tokenFor(t, "eyes", "dashboard", "vault", "pawl")
	for _, call := range []struct {
		who, token, method, key string
		status                  int
		says                    string
	}{
		{"runner", runner, http.MethodPut, "users/a", http.StatusOK, ""},
		{"runner", runner, http.MethodPut, "others/a", http.StatusForbidden, `lacks the scope write for sink "web", key "others/a"`},
		{"runner", runner, http.MethodGet, "users/a", http.StatusOK, ""},
		{"dashboard", dashboard, http.MethodGet, "users/a", http.StatusOK, ""},
		{"dashboard", dashboard, http.MethodPut, "users/a", http.StatusForbidden, `kubernetes "system:serviceaccount:eyes:dashboard" lacks the scope write`},
	} {
		got := d.ask(t, call.token, call.method, "/v1/sinks/web/resource?key="+call.key, `{"payload":{"name":"a"}}`)
		if got.status != call.status || !strings.Contains(got.problem.Detail, call.says) {
			t.Errorf("%s: %s of %s: %d %+v, want %d %s", call.who, call.method, call.key, got.status, got.problem, call.status, call.says)
		}
	}

	// Nobody else.
	const unknown = "does not know the token, it has expired, or it is for another audience"
	d.refuses(t, "", http.StatusUnauthorized, "nothing was sent that says so")
	d.refuses(t, c.tokenFor(t, "ci", "stranger", "pawl"), http.StatusUnauthorized, `the Kubernetes user "system:serviceaccount:ci:stranger" is none of this daemon's clients`)
	d.refuses(t, c.tokenFor(t, "ci", "runner"), http.StatusUnauthorized, unknown) // for the API server
	d.refuses(t, c.tokenFor(t, "ci", "runner", "vault"), http.StatusUnauthorized, unknown)
	head, signature := runner[:strings.LastIndex(runner, ".")+1], runner[strings.LastIndex(runner, ".")+1:]
	d.refuses(t, head+strings.Repeat("A", len(signature)), http.StatusUnauthorized, unknown)
	d.refuses(t, "eyJhbGciOiJub25lIn0.e30.x", http.StatusUnauthorized, unknown)
	expired, err := c.AccountToken("ci", "runner", "no-uid", time.Now().Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	d.refuses(t, expired, http.StatusUnauthorized, unknown)
	if hint := d.whoami(t, expired).problem.Hint; !strings.Contains(hint, "kubectl create token SERVICEACCOUNT --audience pawl") {
		t.Errorf("the hint is %q", hint)
	}

	// An account that is gone takes its tokens along, and no others.
	c.remove(t, accountPath("ci", "runner"))
	eventually(t, "the deleted account's token is refused", func() bool { return d.whoami(t, runner).status == http.StatusUnauthorized })
	d.refuses(t, runner, http.StatusUnauthorized, unknown)
	if got := d.whoami(t, dashboard); got.status != http.StatusOK {
		t.Errorf("the dashboard: %d %+v", got.status, got.problem)
	}

	// Without the API server nobody is told apart by it; who needs it not notices nothing.
	c.KillAPI()
	down := true
	defer func() {
		if down {
			_ = c.StartAPI(context.WithoutCancel(t.Context()))
		}
	}()
	const away = "the Kubernetes API server that is asked about tokens does not answer"
	eventually(t, "the answer about the dashboard is over", func() bool { return d.whoami(t, dashboard).status != http.StatusOK })
	d.refuses(t, dashboard, http.StatusServiceUnavailable, away)
	d.refuses(t, "eyJhbGciOiJub25lIn0.e30.y", http.StatusServiceUnavailable, away)
	d.refuses(t, "", http.StatusUnauthorized, "nothing was sent that says so")
	d.cli(t, "status") // at the socket
	if err := c.StartAPI(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	down = false
	eventually(t, "the dashboard is let in again", func() bool { return d.whoami(t, dashboard).status == http.StatusOK })

	log, err := os.ReadFile(d.log)
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{"runner": runner, "dashboard": dashboard, "expired": expired} {
		if strings.Contains(string(log), token[strings.LastIndex(token, ".")+1:]) {
			t.Errorf("the log shows the token %s", name)
		}
	}
}

func accountPath(ns, name string) string {
	return "/api/v1/namespaces/" + ns + "/serviceaccounts/" + name
}

// account makes a service account, and its namespace where there is none.
func (c *cluster) account(t *testing.T, ns, name string) {
	t.Helper()
	if !c.exists(t, "/api/v1/namespaces/"+ns) {
		c.namespace(t, ns)
	}
	c.create(t, accountPath(ns, ""), fmt.Sprintf(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":%q}}`, name))
}

// tokenFor has the API server issue a token of a service account, as kubectl create token
// does. Without audiences it is for the API server itself.
func (c *cluster) tokenFor(t *testing.T, ns, name string, audiences ...string) string {
	t.Helper()
	list, err := json.Marshal(audiences)
	if err != nil {
		t.Fatal(err)
	}
	o := c.create(t, accountPath(ns, name)+"/token", fmt.Sprintf(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":%s}}`, list))
	token, _ := o.at("status", "token").(string)
	if token == "" {
		t.Fatalf("no token: %v", o)
	}
	return token
}

// daemonWithTokenReview runs a daemon that asks the cluster about its callers, as the user
// "limited".
func (c *cluster) daemonWithTokenReview(t *testing.T) *reviewing {
	t.Helper()
	dir := t.TempDir()
	d := &reviewing{keeper: keeper{
		program: program{dir: dir, pawl: kit.Pawl(t), socket: filepath.Join(dir, "pawl.sock")}, log: filepath.Join(dir, "log"),
	}}
	d.config = d.file(t, "pawl.yaml", fmt.Sprintf(`
store: {path: %q, reserve_bytes: 64MiB}
log: {format: json}
server:
  listen: 127.0.0.1:0
  socket: %q
  token_review:
    kubeconfig: %q
    context: limited
    audiences: [pawl]
    cache: 1s
    clients:
      builds:
        users: ["system:serviceaccount:ci:runner"]
        grants: [{scope: write, sinks: [web], prefix: users/}]
      eyes:
        groups: ["system:serviceaccounts:eyes"]
        grants: [{scope: read}]
wasm: {cache_dir: %q}
upstreams: {nowhere: {base_url: "http://127.0.0.1:1"}}
sinks:
  web: {plugin: http, upstreams: [nowhere], config: {path: "/{key}"}, startup_check: false}
`, filepath.Join(dir, "store"), d.socket, c.Kubeconfig, filepath.Join(dir, "wasm")))
	d.start(t)
	t.Cleanup(func() {
		d.kill(t, os.Interrupt)
		if log, _ := os.ReadFile(d.log); t.Failed() {
			t.Logf("%s", log)
		}
	})
	ready := regexp.MustCompile(`"address":"(http://127\.0\.0\.1:\d+)"`)
	eventually(t, "the daemon says where it listens", func() bool {
		log, _ := os.ReadFile(d.log)
		if m := ready.FindSubmatch(log); m != nil {
			d.url = string(m[1])
		}
		return d.url != ""
	})
	return d
}

// reviewing is a daemon that asks a cluster about its callers.
type reviewing struct {
	keeper
	url string
}

// reply is what the API answers.
type reply struct {
	status  int
	body    []byte
	problem api.Problem // where it is one
}

func (r reply) into(t *testing.T, out any) {
	t.Helper()
	if err := json.Unmarshal(r.body, out); err != nil {
		t.Fatalf("%v: %s", err, r.body)
	}
}

// ask sends a request over TCP with a bearer token; "" is none.
func (d *reviewing) ask(t *testing.T, token, method, path, body string) (out reply) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	out.status = res.StatusCode
	if out.body, err = io.ReadAll(res.Body); err != nil {
		t.Fatal(err)
	}
	if out.status > 299 {
		out.into(t, &out.problem)
	}
	return out
}

func (d *reviewing) whoami(t *testing.T, token string) reply {
	t.Helper()
	return d.ask(t, token, http.MethodGet, "/v1/whoami", "")
}

// refuses wants a caller not to be let in, with these words.
func (d *reviewing) refuses(t *testing.T, token string, status int, says string) {
	t.Helper()
	if got := d.whoami(t, token); got.status != status || !strings.Contains(got.problem.Detail, says) || token != "" && strings.Contains(string(got.body), token) {
		t.Errorf("%d %+v; want %d: %s", got.status, got.problem, status, says)
	}
}
