package oci

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
)

// mustBe wants an *Error of the kind whose message has all of says.
func mustBe(t *testing.T, name string, err, kind error, says ...string) {
	t.Helper()
	if _, ok := errors.AsType[*Error](err); !ok || !errors.Is(err, kind) {
		t.Errorf("%s: got %v, want an Error that is %q", name, err, kind)
		return
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%s: %q does not say %q", name, err, s)
		}
	}
}

func TestReferencesThatCantBeUsed(t *testing.T) {
	sha512 := "sha512:" + strings.Repeat("0", 128)
	for ref, says := range map[string]string{
		"":                             "HOST/REPOSITORY:TAG",
		"http":                         "HOST/REPOSITORY:TAG",
		"ghcr.io/x/y":                  "neither a tag nor a digest",
		"https://ghcr.io/x/y:v1":       "starts with a scheme",
		"oci://ghcr.io/x/y:v1":         "starts with a scheme",
		"ghcr.io/X/y:v1":               "invalid repository",
		"ghcr.io/x/y:":                 "neither a tag nor a digest",
		"ghcr.io/x/y@sha256:12":        "invalid",
		"ghcr.io/x/y@" + sha512:        "no SHA-256",
		"user:secret@ghcr.io/x/y:v1":   "invalid",
		"ghcr.io/x/../y:v1":            "invalid repository",
		"ghcr.io/x/y:v1?a=b":           "invalid",
		"ghcr.io\r\nX-Evil: 1/x/y:tag": "invalid",
	} {
		_, err := Pull(t.Context(), ref, Options{})
		mustBe(t, ref, err, ErrReference, says)
	}
	_, err := Push(t.Context(), "ghcr.io/x/y@sha256:"+strings.Repeat("0", 64), module("x"), Options{})
	mustBe(t, "push by digest", err, ErrReference, "needs a tag")
}

func TestOnlyModulesArePushed(t *testing.T) {
	for name, c := range map[string]struct {
		module []byte
		kind   error
	}{
		"empty":     {nil, ErrNotWasm},
		"text":      {[]byte("#!/bin/sh"), ErrNotWasm},
		"component": {[]byte("\x00asm\x0d\x00\x01\x00"), ErrNotWasm},
		"too large": {append(bytes.Clone(coreHeader), make([]byte, MaxBytes)...), ErrTooLarge},
	} {
		_, err := Push(t.Context(), "127.0.0.1:1/p:v1", c.module, Options{}) // nothing listens there
		mustBe(t, name, err, c.kind)
	}
}

func TestWhatIsNotThereIsNotFound(t *testing.T) {
	host := startRegistry(t, false)
	mustPush(t, host+"/p:v1", module("x"), Options{})
	for _, ref := range []string{host + "/p:v2", host + "/q:v1", host + "/p@sha256:" + strings.Repeat("0", 64)} {
		_, err := Pull(t.Context(), ref, Options{})
		mustBe(t, ref, err, ErrNotFound, ref, "check repository and tag")
	}
}

func TestOnlyWasmArtifactsArePulled(t *testing.T) {
	host := startRegistry(t, false)
	blob := func(mediaType string, b []byte) v1.Descriptor {
		ref, err := parse(host + "/p:x")
		if err != nil {
			t.Fatal(err)
		}
		repo, err := open(ref, Options{})
		if err != nil {
			t.Fatal(err)
		}
		d, err := oras.PushBytes(t.Context(), repo, mediaType, b)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	config, layer := blob(ConfigType, []byte("{}")), blob(LayerType, module("x"))
	image := v1.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest}
	manifest := func(config v1.Descriptor, layers ...v1.Descriptor) v1.Manifest {
		m := image
		m.Config, m.Layers = config, layers
		return m
	}
	for name, c := range map[string]struct {
		mediaType string
		manifest  any
		says      string
	}{
		"container":  {v1.MediaTypeImageManifest, manifest(blob(v1.MediaTypeImageConfig, []byte(`{"os":"linux"}`)), blob(v1.MediaTypeImageLayerGzip, []byte("tar"))), v1.MediaTypeImageConfig},
		"index":      {v1.MediaTypeImageIndex, v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Manifests: []v1.Descriptor{}}, v1.MediaTypeImageIndex},
		"two layers": {v1.MediaTypeImageManifest, manifest(config, layer, blob(LayerType, module("y"))), "2 layers"},
		"no layer":   {v1.MediaTypeImageManifest, manifest(config, blob("text/plain", []byte("hello"))), "0 layers"},
		"no module":  {v1.MediaTypeImageManifest, manifest(config, blob(LayerType, []byte("hello"))), "no core WebAssembly module"},
	} {
		raw, err := json.Marshal(c.manifest)
		if err != nil {
			t.Fatal(err)
		}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+host+"/v2/p/manifests/bad", bytes.NewReader(raw))
		req.Header.Set("Content-Type", c.mediaType)
		res, err := http.DefaultClient.Do(req)
		if err != nil || res.StatusCode != http.StatusCreated {
			t.Fatalf("%s: %v %v", name, res, err)
		}
		res.Body.Close()
		_, err = Pull(t.Context(), host+"/p:bad", Options{})
		mustBe(t, name, err, ErrNotWasm, c.says)
	}
}

// body replaces the body of an answer.
func body(r *http.Response, change func([]byte) []byte) error {
	b, err := io.ReadAll(r.Body)
	b = change(b)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
	r.Header.Set("Content-Length", strconv.Itoa(len(b)))
	return err
}

func TestWhatWasChangedOnTheWayIsRefused(t *testing.T) {
	registry := startRegistry(t, false)
	good := mustPush(t, registry+"/p:v1", module("good"), Options{})
	_, evilManifest, _, err := pack(module("evil"))
	if err != nil {
		t.Fatal(err)
	}
	mustPush(t, registry+"/p:evil", module("evil"), Options{})
	flip := func(b []byte) []byte { b[len(b)-1] ^= 1; return b }
	isManifest := func(r *http.Response) bool {
		return r.Request.Method == http.MethodGet && strings.Contains(r.Request.URL.Path, "/manifests/")
	}
	isBlob := func(r *http.Response) bool {
		return r.Request.Method == http.MethodGet && strings.Contains(r.Request.URL.Path, "/blobs/")
	}
	for name, spoil := range map[string]func(*http.Response) error{
		"a bit of the module": func(r *http.Response) error {
			if isBlob(r) {
				return body(r, flip)
			}
			return nil
		},
		"a longer module": func(r *http.Response) error {
			if isBlob(r) {
				return body(r, func(b []byte) []byte { return append(b, 0) })
			}
			return nil
		},
		"a shorter module of no stated length": func(r *http.Response) error {
			if isBlob(r) {
				err := body(r, func(b []byte) []byte { return b[:len(b)-1] })
				r.ContentLength = -1
				r.Header.Del("Content-Length")
				return err
			}
			return nil
		},
		"another module": func(r *http.Response) error {
			if isBlob(r) {
				return body(r, func([]byte) []byte { return module("evil") })
			}
			return nil
		},
		"another manifest, its digest told": func(r *http.Response) error {
			if isManifest(r) {
				r.Header.Set("Docker-Content-Digest", digest.FromBytes(evilManifest).String())
				return body(r, func([]byte) []byte { return evilManifest })
			}
			return nil
		},
		"another manifest, the pinned digest told": func(r *http.Response) error {
			if isManifest(r) {
				return body(r, func([]byte) []byte { return evilManifest })
			}
			return nil
		},
		"another manifest, no digest told": func(r *http.Response) error {
			if isManifest(r) {
				r.Header.Del("Docker-Content-Digest")
				return body(r, func([]byte) []byte { return evilManifest })
			}
			return nil
		},
	} {
		_, pinned, _ := strings.Cut(good.Ref, "@")
		host := between(t, registry, spoil).Host
		a, err := Pull(t.Context(), host+"/p@"+pinned, Options{})
		mustBe(t, name, err, ErrMismatch, "do not use it")
		if a != nil {
			t.Errorf("%s: a module was handed out", name)
		}
	}
}

// What verify is asked last holds even where the client above it did not look.
func TestVerifyAloneRefuses(t *testing.T) {
	m := module("good")
	_, manifest, layer, err := pack(m)
	if err != nil {
		t.Fatal(err)
	}
	came := func(pinned digest.Digest, module []byte) *fetched {
		r, err := parse("example.com/p@" + pinned.String())
		if err != nil {
			t.Fatal(err)
		}
		return &fetched{ref: r, manifest: manifest, layer: layer, module: module}
	}
	right := digest.FromBytes(manifest)
	if err := verify(came(right, m)); err != nil {
		t.Error(err)
	}
	for name, f := range map[string]*fetched{
		"manifest": came(digest.FromBytes(m), m),
		"module":   came(right, module("evil")),
	} {
		if err := verify(f); !errors.Is(err, ErrMismatch) {
			t.Errorf("another %s: %v", name, err)
		}
	}
}

func TestTooLargeArtifactIsNotFetched(t *testing.T) {
	registry := startRegistry(t, false)
	mustPush(t, registry+"/p:v1", module("x"), Options{})
	blobs := 0
	for name, spoil := range map[string]func([]byte) []byte{
		"module": func(b []byte) []byte {
			return bytes.Replace(b, fmt.Appendf(nil, `"size":%d,"annotations"`, len(module("x"))), fmt.Appendf(nil, `"size":%d,"annotations"`, MaxBytes+1), 1)
		},
		"manifest": func(b []byte) []byte { return append(b, bytes.Repeat([]byte(" "), maxManifestBytes)...) },
	} {
		host := between(t, registry, func(r *http.Response) error {
			if strings.Contains(r.Request.URL.Path, "/blobs/") {
				blobs++
			}
			if r.Request.Method != http.MethodGet || !strings.Contains(r.Request.URL.Path, "/manifests/") {
				return nil
			}
			return body(r, func(b []byte) []byte {
				b = spoil(b)
				r.Header.Set("Docker-Content-Digest", digest.FromBytes(b).String())
				return b
			})
		}).Host
		_, err := Pull(t.Context(), host+"/p:v1", Options{})
		mustBe(t, name, err, ErrTooLarge)
	}
	if blobs != 0 {
		t.Errorf("%d blobs were asked for", blobs)
	}
}

func TestPlainHTTPIsForLoopbackOrWhereSaid(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "localhost:5000": true, "127.0.0.1:5000": true, "127.9.9.9": true, "[::1]:5000": true, "[::1]": true,
		"ghcr.io": false, "10.0.0.1:5000": false, "localhost.example.com": false, "127.0.0.1.example.com": false, "0.0.0.0:5000": false,
	} {
		ref, err := parse(host + "/p:v1")
		if err != nil && !strings.HasPrefix(host, "[") {
			t.Fatal(err)
		}
		ref.Registry = host
		for scheme, plain := range map[string]bool{"": want, "http": true, "https": false} {
			repo, err := open(ref, Options{Scheme: scheme})
			if err != nil || repo.PlainHTTP != plain {
				t.Errorf("%s with scheme %q: plain HTTP %v, want %v (%v)", host, scheme, repo.PlainHTTP, plain, err)
			}
		}
	}
	host := startRegistry(t, false)
	_, err := Pull(t.Context(), host+"/p:v1", Options{Scheme: "https"})
	mustBe(t, "https to plain HTTP", err, ErrRegistry, "--plain-http")
}

func TestHTTPSTrustsWhomItIsTold(t *testing.T) {
	registry := startRegistry(t, false)
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: registry})
		r.Out.Host = r.In.Host
		r.Out.Header.Set("X-Forwarded-Proto", "https")
	}}
	downgrade := false
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if downgrade && r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			http.Redirect(w, r, "http://"+registry+r.URL.Path, http.StatusTemporaryRedirect)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	ref := parseURL(t, s.URL).Host + "/p:v1"
	o := Options{Scheme: "https", TLS: &tls.Config{RootCAs: roots}}
	mustPush(t, ref, module("tls"), o)
	if _, err := Pull(t.Context(), ref, o); err != nil {
		t.Error(err)
	}
	_, err := Pull(t.Context(), ref, Options{Scheme: "https"})
	mustBe(t, "unknown authority", err, ErrRegistry, "certificate")
	downgrade = true
	_, err = Pull(t.Context(), ref, o)
	mustBe(t, "a redirect to plain HTTP", err, ErrRegistry, "from https to http")
}

func TestNobodyListens(t *testing.T) {
	s := httptest.NewServer(nil)
	host := parseURL(t, s.URL).Host
	s.Close()
	_, err := Pull(t.Context(), host+"/p:v1", Options{})
	mustBe(t, "refused", err, ErrRegistry, "can be reached", host)
}
