package oci

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/internal/oci/ocitest"
)

// startRegistry starts a registry that asks for user and password where locked.
func startRegistry(t *testing.T, locked bool) string {
	t.Helper()
	if locked {
		return ocitest.Start(t, htpasswd)
	}
	return ocitest.Start(t, "")
}

// The one user of a registry that asks for one.
const (
	user, password = "pawl", "correct horse"
	htpasswd       = user + ":$2a$04$fuX5uSfP2BkKFAzk4Xjy2.HAyCt6xoc0afuUCJArMLaVImLafyQqq\n"
)

func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// between puts a server in front of a registry and returns its URL; spoil sees
// every answer before the client does.
func between(t *testing.T, registry string, spoil func(*http.Response) error) *url.URL {
	t.Helper()
	to := &url.URL{Scheme: "http", Host: registry}
	s := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host },
		ModifyResponse: spoil,
	})
	t.Cleanup(s.Close)
	return parseURL(t, s.URL)
}

func parseURL(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// module returns the bytes of a module that differs for each text.
func module(text string) []byte {
	section := append([]byte{4, 't', 'e', 's', 't'}, text...) // a custom section
	return append(append([]byte(nil), coreHeader...), append([]byte{0, byte(len(section))}, section...)...)
}

func credentialsFile(t *testing.T, host, password string) string {
	t.Helper()
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	return write(t, t.TempDir(), "config.json", fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, auth))
}

func mustPush(t *testing.T, ref string, module []byte, o Options) *Artifact {
	t.Helper()
	a, err := Push(t.Context(), ref, module, o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestWhatWasPushedIsPulledByTagAndByDigest(t *testing.T) {
	host := startRegistry(t, false)
	m := module("one")
	pushed := mustPush(t, host+"/plugins/one:v1", m, Options{})
	if pushed.SHA256 != hexSum(m) || !strings.HasPrefix(pushed.Ref, host+"/plugins/one@sha256:") {
		t.Errorf("pushed as %s, module %s", pushed.Ref, pushed.SHA256)
	}
	mustPush(t, host+"/plugins/one:latest", module("another"), Options{})
	for _, ref := range []string{host + "/plugins/one:v1", pushed.Ref} {
		pulled, err := Pull(t.Context(), ref, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if string(pulled.Module) != string(m) || pulled.Ref != pushed.Ref || pulled.SHA256 != pushed.SHA256 {
			t.Errorf("%s came as %s with %d bytes", ref, pulled.Ref, len(pulled.Module))
		}
	}
}

func TestArtifactHasTheCommonLayoutAndIsReproducible(t *testing.T) {
	host := startRegistry(t, false)
	m := module("layout")
	first, second := mustPush(t, host+"/a/b:v1", m, Options{}), mustPush(t, host+"/other:v2", m, Options{})
	_, digest, _ := strings.Cut(first.Ref, "@")
	if !strings.HasSuffix(second.Ref, digest) {
		t.Errorf("the same module became %s and %s", first.Ref, second.Ref)
	}
	var manifest struct {
		MediaType string
		Config    struct{ MediaType, Digest string }
		Layers    []struct{ MediaType, Digest string }
	}
	get(t, host, "/v2/a/b/manifests/v1", &manifest)
	if manifest.MediaType != "application/vnd.oci.image.manifest.v1+json" || manifest.Config.MediaType != "application/vnd.wasm.config.v0+json" ||
		len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != "application/wasm" || manifest.Layers[0].Digest != "sha256:"+hexSum(m) {
		t.Errorf("manifest %+v", manifest)
	}
	var config map[string]any
	get(t, host, "/v2/a/b/blobs/"+manifest.Config.Digest, &config)
	want := map[string]any{"created": "1970-01-01T00:00:00Z", "architecture": "wasm", "os": "wasip1", "layerDigests": []any{"sha256:" + hexSum(m)}}
	if fmt.Sprint(config) != fmt.Sprint(want) {
		t.Errorf("config %v, want %v", config, want)
	}
}

func get(t *testing.T, host, path string, into any) {
	t.Helper()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+path, nil)
	req.Header.Set("Accept", "application/vnd.oci.image.manifest.v1+json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(into); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", path, res.Status, err)
	}
}

func TestPushSendsOnlyWhatTheRegistryLacks(t *testing.T) {
	uploads := 0
	host := between(t, startRegistry(t, false), func(r *http.Response) error {
		if r.Request.Method == http.MethodPost {
			uploads++
		}
		return nil
	}).Host
	m := module("again")
	mustPush(t, host+"/p:v1", m, Options{})
	first := uploads
	mustPush(t, host+"/p:v2", m, Options{})
	if first != 2 || uploads != first {
		t.Errorf("%d uploads, then %d more; want module and config once", first, uploads-first)
	}
}

func TestCredentialsComeFromDockersFile(t *testing.T) {
	host := startRegistry(t, true)
	ref := host + "/p:v1"
	mustPush(t, ref, module("x"), Options{CredentialsFile: credentialsFile(t, host, password)})
	for name, o := range map[string]Options{
		"none":     {},
		"no file":  {CredentialsFile: filepath.Join(t.TempDir(), "config.json")},
		"wrong":    {CredentialsFile: credentialsFile(t, host, "wrong battery")},
		"another":  {CredentialsFile: credentialsFile(t, "example.com", password)},
		"damaged":  {CredentialsFile: write(t, t.TempDir(), "config.json", "{")},
		"no colon": {CredentialsFile: write(t, t.TempDir(), "config.json", fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, base64.StdEncoding.EncodeToString([]byte("battery"))))},
	} {
		for op, do := range map[string]func() error{
			"pull": func() error { _, err := Pull(t.Context(), ref, o); return err },
			"push": func() error { _, err := Push(t.Context(), ref, module("y"), o); return err },
		} {
			err := do()
			mustBe(t, name+" "+op, err, ErrUnauthorized, "docker login "+host)
			if strings.Contains(err.Error(), "battery") {
				t.Errorf("%s: the password is in the error: %v", name, err)
			}
		}
	}
	if _, err := Pull(t.Context(), ref, Options{CredentialsFile: credentialsFile(t, host, password)}); err != nil {
		t.Error(err)
	}
}

func TestTokensAreFetchedWhereTheRegistrySaysSo(t *testing.T) {
	registry := startRegistry(t, false)
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: registry})
		r.Out.Host = r.In.Host
	}}
	var scopes []string
	guard := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			if u, p, _ := r.BasicAuth(); u != user || p != password {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			scopes = append(scopes, r.URL.Query()["scope"]...)
			io.WriteString(w, `{"token":"ticket"}`)
			return
		}
		if r.Header.Get("Authorization") != "Bearer ticket" {
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token",service="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		r.Header.Del("Authorization")
		pass.ServeHTTP(w, r)
	}))
	defer guard.Close()
	host := parseURL(t, guard.URL).Host
	o := Options{CredentialsFile: credentialsFile(t, host, password)}
	pushed := mustPush(t, host+"/p:v1", module("t"), o)
	if _, err := Pull(t.Context(), pushed.Ref, o); err != nil {
		t.Error(err)
	}
	if all := strings.Join(scopes, " "); !strings.Contains(all, "repository:p:pull,push") {
		t.Errorf("asked for %q", all)
	}
	_, err := Pull(t.Context(), pushed.Ref, Options{CredentialsFile: credentialsFile(t, host, "wrong battery")})
	mustBe(t, "wrong password", err, ErrUnauthorized, "docker login")
}

func TestCancelledPullSaysSo(t *testing.T) {
	host := startRegistry(t, false)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Pull(ctx, host+"/p:v1", Options{}); err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("got %v", err)
	}
}
