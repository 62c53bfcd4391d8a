package daemon

import (
	"errors"
	"log/slog"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/internal/oci"
	"github.com/pawlsync/pawl/internal/oci/ocitest"
)

// pullable puts versions of a plugin into a registry that can be cut off, and
// returns their pinned references.
func pullable(t *testing.T, versions ...pluginVersion) (refs []string, cut func()) {
	t.Helper()
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(to *url.URL) func(*httputil.ProxyRequest) {
		return func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host }
	}(&url.URL{Scheme: "http", Host: ocitest.Start(t, "")})})
	t.Cleanup(proxy.Close)
	for _, v := range versions {
		pushed, err := oci.Push(t.Context(), strings.TrimPrefix(proxy.URL, "http://")+"/own:"+v.name, v.module(), oci.Options{})
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, pushed.Ref)
	}
	return refs, proxy.Close
}

func (b *swapBench) options() Options {
	o := options()
	o.Logger, o.LookEvery = slog.New(b.log), 10*time.Millisecond
	o.Reload = func() (*config.Config, error) { return b.load() }
	return o
}

func TestPluginComesFromARegistryAndIsKeptForStartsWithoutOne(t *testing.T) {
	objects, targetURL := target(t)
	refs, cut := pullable(t, pluginVersion{name: "v1"}, pluginVersion{name: "v2"})
	b := &swapBench{t: t, dir: t.TempDir(), log: newLogWatch()}
	b.writeConfig(targetURL, "{oci: '"+refs[0]+"'}", "")
	start := func() {
		c, err := b.load()
		if err != nil {
			t.Fatal(err)
		}
		b.running = begin(t, c, b.options())
	}
	start()
	b.acked(b.put("first", 1))
	if objects.of("/v1") != 1 {
		t.Errorf("v1 was to apply: %v", objects.paths)
	}
	b.writeConfig(targetURL, "{oci: '"+refs[1]+"'}", "")
	b.log.until(t, "a plugin was replaced")
	b.acked(b.put("second", 1))
	if objects.of("/v2") != 1 {
		t.Errorf("v2 was to apply: %v", objects.paths)
	}
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}

	cut()
	start()
	b.acked(b.put("third", 1))
	if objects.of("/v2") != 2 {
		t.Errorf("v2 was to apply, as it was kept: %v", objects.paths)
	}
	b.log.forget()
	b.writeConfig(targetURL, "{oci: '"+refs[1][:len(refs[1])-1]+"0'}", "")
	b.log.until(t, "is refused", "registry could not be asked")
	b.acked(b.put("fourth", 1))
}

func TestPluginThatNoRegistryHasStopsTheStart(t *testing.T) {
	_, targetURL := target(t)
	refs, _ := pullable(t, pluginVersion{name: "v1"})
	b := &swapBench{t: t, dir: t.TempDir(), log: newLogWatch()}
	repository, _, _ := strings.Cut(refs[0], "@")
	b.writeConfig(targetURL, "{oci: '"+repository+"@sha256:"+strings.Repeat("0", 64)+"'}", "")
	c, err := b.load()
	if err != nil {
		t.Fatal(err)
	}
	err = Run(t.Context(), c, b.options())
	var wrong config.Errors
	if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "plugins.own.oci") || !strings.Contains(err.Error(), "no such artifact") {
		t.Errorf("got %v", err)
	}
}

func TestPluginOfARegistryIsNotTrustedUnlessSaid(t *testing.T) {
	for text, want := range map[string]bool{"{oci: x/y@sha256:" + strings.Repeat("0", 64) + "}": false, "{path: own.wasm}": false, "{path: own.wasm, trusted: true}": true, "{bundled: http}": true} {
		b := &swapBench{t: t, dir: t.TempDir()}
		b.writeConfig("http://127.0.0.1:1", text, "")
		c, err := b.load()
		if err != nil {
			t.Fatal(err)
		}
		if got := trusted(c.Plugins["own"]); got != want {
			t.Errorf("%s: trusted %v", text, got)
		}
	}
}
