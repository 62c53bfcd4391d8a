package kube

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/upstream"
)

// apiServer answers with the credentials that it was shown.
func apiServer(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The credential itself is never sent back: what passed it on would be refused.
		fmt.Fprintf(w, "%s user=%s", r.URL.Path, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer token-of-"))
	}))
	t.Cleanup(s.Close)
	return s
}

func kubeconfig(s *httptest.Server, user string) string {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: one
contexts: [{name: one, context: {cluster: c, user: one}}, {name: two, context: {cluster: c, user: two}}]
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: one, user: %s}, {name: two, user: {token: token-of-two}}]
`, s.URL, base64.StdEncoding.EncodeToString(ca), user)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func ask(t *testing.T, c *Cluster) string {
	t.Helper()
	u, err := upstream.Open(upstream.Config{Name: "k", Kind: Kind, BaseURL: c.BaseURL()}, upstream.Options{RoundTripper: c, Admit: Admit})
	if err != nil {
		t.Fatal(err)
	}
	res, failure := u.Do(t.Context(), &upstream.Request{Method: "GET", Path: "/version"})
	if failure != nil {
		t.Fatal(failure)
	}
	return string(res.Body)
}

func TestContextsOfAKubeconfig(t *testing.T) {
	s, path := apiServer(t), filepath.Join(t.TempDir(), "config")
	write(t, path, kubeconfig(s, "{token: token-of-one}"))
	for _, tc := range []struct{ context, user string }{{"", "one"}, {"two", "two"}} {
		c, err := Open(Options{Kubeconfig: path, Context: tc.context})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := ask(t, c), "/version user="+tc.user; got != want {
			t.Errorf("context %q: %q, want %q", tc.context, got, want)
		}
	}
}

func TestWhatAKubeconfigMustNotSay(t *testing.T) {
	s, dir := apiServer(t), t.TempDir()
	good := kubeconfig(s, "{token: t}")
	for name, tc := range map[string]struct{ text, context, want string }{
		"unknown context": {good, "three", "three"},
		"impersonation":   {kubeconfig(s, "{token: t, as: admin}"), "", "impersonates"},
		"impersonated groups without a user": {
			kubeconfig(s, "{token: t, as-groups: [a]}"), "", "impersonat"},
		"no YAML": {"{", "", "no-yaml"},
	} {
		path := filepath.Join(dir, strings.ReplaceAll(strings.ToLower(name), " ", "-"))
		write(t, path, tc.text)
		if _, err := Open(Options{Kubeconfig: path, Context: tc.context}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	if _, err := Open(Options{Kubeconfig: filepath.Join(dir, "none")}); !os.IsNotExist(err) {
		t.Errorf("a missing file: %v", err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := Open(Options{}); err == nil || !strings.Contains(err.Error(), "name a kubeconfig") {
		t.Errorf("outside of a cluster: %v", err)
	}
}

func TestProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	// net/http never sends loopback addresses to a proxy, so that a request would
	// not tell; what decides is the transport's own function.
	s, path := apiServer(t), filepath.Join(t.TempDir(), "config")
	write(t, path, strings.ReplaceAll(kubeconfig(s, "{token: token-of-one}"), "127.0.0.1", "cluster.invalid"))
	t.Setenv("HTTPS_PROXY", "http://"+s.Listener.Addr().String())
	c, err := Open(Options{Kubeconfig: path})
	if err != nil {
		t.Fatal(err)
	}
	q, err := http.NewRequestWithContext(t.Context(), "GET", c.BaseURL()+"/version", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.RoundTrip(q); err == nil || !strings.Contains(err.Error(), "cluster.invalid") {
		t.Errorf("%v, want a failed lookup of the cluster's own name", err)
	}
}

func TestReservedAddressesAreNotDialled(t *testing.T) {
	s, path := apiServer(t), filepath.Join(t.TempDir(), "config")
	// A name, not the literal, which leads to loopback.
	write(t, path, strings.ReplaceAll(kubeconfig(s, "{token: token-of-one}"), "127.0.0.1", "localhost.localdomain"))
	c, err := Open(Options{Kubeconfig: path})
	if err != nil {
		t.Fatal(err)
	}
	u, err := upstream.Open(upstream.Config{Name: "k", Kind: Kind, BaseURL: c.BaseURL()}, upstream.Options{RoundTripper: c})
	if err != nil {
		t.Fatal(err)
	}
	if _, failure := u.Do(t.Context(), &upstream.Request{Method: "GET", Path: "/version"}); failure == nil {
		t.Error("a name that leads to loopback was dialled")
	}
}

func TestChangedKubeconfigIsReadAgain(t *testing.T) {
	s, other := apiServer(t), apiServer(t)
	path := filepath.Join(t.TempDir(), "config")
	write(t, path, kubeconfig(s, "{token: token-of-one}"))
	var log bytes.Buffer
	c, err := Open(Options{Kubeconfig: path, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	c.rt.now = func() time.Time { now = now.Add(lookEvery); return now }
	for _, step := range []struct{ text, user, log string }{
		{kubeconfig(s, "{token: token-of-new}"), "new", "read again"},
		{"{ half", "new", "can't be used"},
		{kubeconfig(other, "{token: token-of-other}"), "new", "another server"},
		{kubeconfig(s, "{token: token-of-newest}"), "newest", "read again"},
	} {
		log.Reset()
		write(t, path, step.text)
		for range 2 {
			if got, want := ask(t, c), "/version user="+step.user; got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		if n := strings.Count(log.String(), step.log); n != 1 {
			t.Errorf("the log says %q %d times, want once: %s", step.log, n, &log)
		}
	}
}

// A kubeconfig that is renewed every hour would else leave connections behind, each
// with credentials that nobody is to use any more.
func TestConnectionsThatWereReplacedAreClosed(t *testing.T) {
	for name, user := range map[string]string{"token": "{token: t}", "exec": "{exec: {apiVersion: client.authentication.k8s.io/v1, command: %q, interactiveMode: Never}}"} {
		t.Run(name, func(t *testing.T) {
			dir, closed := t.TempDir(), make(chan struct{}, 1)
			s := httptest.NewUnstartedServer(http.NotFoundHandler())
			s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateClosed {
					closed <- struct{}{}
				}
			}
			s.StartTLS()
			defer s.Close()
			if name == "exec" {
				user = fmt.Sprintf(user, execPlugin(t, dir))
			}
			path := filepath.Join(dir, "config")
			write(t, path, kubeconfig(s, user))
			c, err := Open(Options{Kubeconfig: path})
			if err != nil {
				t.Fatal(err)
			}
			ask(t, c)
			write(t, path, kubeconfig(s, "{token: another}"))
			now := time.Now().Add(lookEvery)
			c.rt.now = func() time.Time { return now }
			ask(t, c)
			expect := func(what string) {
				t.Helper()
				select {
				case <-closed:
				case <-time.After(time.Minute): // ends what would hang
					t.Fatal(what + " was left open")
				}
			}
			expect("the earlier connection")
			c.CloseIdleConnections()
			expect("the newest connection")
		})
	}
}

func TestTokenFileIsReadAgain(t *testing.T) {
	s, dir := apiServer(t), t.TempDir()
	token := filepath.Join(dir, "token")
	write(t, token, "token-of-old")
	write(t, filepath.Join(dir, "config"), kubeconfig(s, fmt.Sprintf("{tokenFile: %q}", token)))
	c, err := Open(Options{Kubeconfig: filepath.Join(dir, "config")})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	c.rt.now = func() time.Time { now = now.Add(lookEvery); return now }
	for _, user := range []string{"old", "new"} {
		write(t, token, "token-of-"+user)
		if got := ask(t, c); got != "/version user="+user {
			t.Errorf("%s, want that of %s", got, user)
		}
	}
}

// execPlugin writes a program that gives out a token, and returns its path.
func execPlugin(t *testing.T, dir string) string {
	t.Helper()
	program := filepath.Join(dir, "login")
	script := "#!/bin/sh\necho '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"token-of-exec\"}}'\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return program
}

func TestExecPluginGivesCredentials(t *testing.T) {
	s, dir := apiServer(t), t.TempDir()
	user := fmt.Sprintf("{exec: {apiVersion: client.authentication.k8s.io/v1, command: %q, interactiveMode: Never}}", execPlugin(t, dir))
	write(t, filepath.Join(dir, "config"), kubeconfig(s, user))
	c, err := Open(Options{Kubeconfig: filepath.Join(dir, "config")})
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(t, c); got != "/version user=exec" {
		t.Error(got)
	}
}

func TestDoorsStayClosedThroughTheUpstream(t *testing.T) {
	reached := 0
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached++
		if r.URL.Path == "/k/api/v1/nodes/redirects" {
			http.Redirect(w, r, "/k/api/v1/nodes/n/proxy/x", http.StatusFound)
		}
	}))
	defer s.Close()
	path := filepath.Join(t.TempDir(), "config")
	write(t, path, strings.Replace(kubeconfig(s, "{token: t}"), s.URL, s.URL+"/k", 1))
	c, err := Open(Options{Kubeconfig: path})
	if err != nil {
		t.Fatal(err)
	}
	u, err := upstream.Open(upstream.Config{Name: "k", Kind: Kind, BaseURL: c.BaseURL()}, upstream.Options{RoundTripper: c, Admit: Admit})
	if err != nil {
		t.Fatal(err)
	}
	_, failure := u.Do(t.Context(), &upstream.Request{Method: "GET", Path: "/api/v1/nodes/n/proxy/x"})
	if failure == nil || failure.Kind != upstream.FailDenied || failure.MaybeSent || reached != 0 {
		t.Errorf("a closed subresource: %v, reached %d times", failure, reached)
	}
	res, failure := u.Do(t.Context(), &upstream.Request{Method: "GET", Path: "/api/v1/nodes/redirects"})
	if failure != nil || res.Status != http.StatusFound || reached != 1 {
		t.Errorf("a redirect to a closed subresource was followed: %v, %v, reached %d times", res, failure, reached)
	}
	header := []upstream.Field{{Name: "Connection", Value: "Upgrade"}, {Name: "Upgrade", Value: "websocket"}}
	if _, failure := u.Do(t.Context(), &upstream.Request{Method: "GET", Path: "/version", Header: header}); failure == nil || failure.Kind != upstream.FailDenied {
		t.Errorf("an upgrade: %v", failure)
	}
	if _, failure := u.Do(t.Context(), &upstream.Request{Method: "GET", Path: "/version", Header: []upstream.Field{{Name: "Impersonate-User", Value: "admin"}}}); failure == nil {
		t.Error("a plugin may impersonate")
	}
}
