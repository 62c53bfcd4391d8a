package daemon

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
)

// newTelltale is a target that refuses what it is asked to keep, with all that it knows
// of the request.
func newTelltale(t *testing.T) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Said", "canary-header")
		w.WriteHeader(http.StatusUnprocessableEntity)
		r.Header.Del("Authorization") // the host withholds an answer that repeats it
		fmt.Fprintf(w, "canary-words: %s %s %s", path.Base(r.URL.Path), body, r.Header)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// bundleOf unpacks a bundle, and checks that its index lists what is in it.
func bundleOf(t *testing.T, c *client.Client, keys bool) map[string]string {
	t.Helper()
	from, err := c.DebugBundle(t.Context(), keys)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	packed, err := gzip.NewReader(from)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	var order []string
	for files := tar.NewReader(packed); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		content, readErr := io.ReadAll(files)
		if err != nil || readErr != nil || h.Mode != 0o600 {
			t.Fatalf("%+v: %v, %v", h, err, readErr)
		}
		name := strings.TrimPrefix(h.Name, api.BundleDir)
		out[name], order = string(content), append(order, name)
	}
	var index api.BundleIndex
	if err := json.Unmarshal([]byte(out[api.BundleIndexName]), &index); err != nil {
		t.Fatal(err)
	}
	listed := []string{}
	for _, m := range index.Members {
		listed = append(listed, m.Name)
		if m.Error != "" || m.What == "" || m.Bytes != len(out[m.Name]) || m.Bytes == 0 && m.Name != "log.jsonl" {
			t.Errorf("the index says %+v, and %s has %d bytes", m, m.Name, len(out[m.Name]))
		}
	}
	if listed = append(listed, api.BundleIndexName); !slices.Equal(listed, order) || index.Keys != keys {
		t.Errorf("the bundle has %v, the index (keys %v) lists %v", order, index.Keys, listed)
	}
	return out
}

// unpacked is what a file holds, a profile without its own gzip.
func unpacked(t *testing.T, content string) string {
	t.Helper()
	packed, err := gzip.NewReader(strings.NewReader(content))
	if err != nil {
		return content
	}
	plain, err := io.ReadAll(packed)
	if err != nil {
		t.Fatal(err)
	}
	return string(plain)
}

// storeKey seals the store.
var storeKey = base64.StdEncoding.EncodeToString([]byte("canary-key-of-thirty-two-letters"))

// bundleKit is a daemon whose every secret is a canary, one of whose resources was
// refused, and a client that may have a bundle.
type bundleKit struct {
	*client.Client
	token string
}

func newBundleKit(t *testing.T) *bundleKit {
	t.Helper()
	needPlugins(t)
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens")
	token, hash := access.NewToken()
	if err := access.AddToken(tokens, &access.Token{Name: "keeper", Hash: hash, Grants: []access.TokenGrant{{Scope: access.Admin}}}); err != nil {
		t.Fatal(err)
	}
	sealed := filepath.Join(dir, "store.key")
	if err := os.WriteFile(sealed, []byte(storeKey), 0o600); err != nil {
		t.Fatal(err)
	}
	// Somebody wrote the credential where it does not belong, too.
	file := write(t, dir, newTelltale(t)+"/canary-credential", "")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte(`config: {`), []byte(`config: {error_excerpts: true, `), 1)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c := load(t, file, "PAWL_SERVER_TOKEN_FILE="+tokens, "PAWL_STORE_ENCRYPTION_KEY_FILE="+sealed)
	k := &bundleKit{token: token}
	o := options()
	o.LookupEnv = func(name string) (string, bool) { return "canary-credential", name == "OBJECTS_TOKEN" }
	d := begin(t, c, o)
	if k.Client, err = client.New(client.Options{Address: d.ready.Address, Token: token}); err != nil {
		t.Fatal(err)
	}
	key := record.Key{Sink: "web", Name: "canary-key"}
	put, err := k.Put(t.Context(), key, api.PutRequest{Payload: json.RawMessage(`{"note":"canary-payload","password":"canary-sensitive"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if w, err := k.Wait(t.Context(), key, put.Generation); err != nil || w.Phase != record.Failed || !strings.Contains(w.Message, "canary-words") {
		t.Fatalf("wait: %+v, %v; want it refused in the target's words", w, err)
	}
	return k
}

func TestABundleHasNoSecretsNoPayloadsAndNoKeys(t *testing.T) {
	k := newBundleKit(t)
	for name, content := range bundleOf(t, k.Client, false) {
		plain := unpacked(t, content)
		for _, secret := range []string{"canary", k.token, storeKey} {
			if at := strings.Index(plain, secret); at >= 0 {
				t.Errorf("%s has %s: …%s…", name, secret, plain[max(0, at-80):min(len(plain), at+80)])
			}
		}
	}
}

func TestABundleWithKeysHasNoCredentialsAllTheSame(t *testing.T) {
	k := newBundleKit(t)
	seen := ""
	for name, content := range bundleOf(t, k.Client, true) {
		plain := unpacked(t, content)
		seen += plain
		for _, secret := range []string{"canary-credential", k.token, storeKey} {
			if strings.Contains(plain, secret) {
				t.Errorf("%s has %s", name, secret)
			}
		}
	}
	for _, asked := range []string{"canary-key", "canary-words"} {
		if !strings.Contains(seen, asked) {
			t.Errorf("%s was asked for, and is nowhere", asked)
		}
	}
}

func TestABundleSaysHowTheDaemonDoes(t *testing.T) {
	k := newBundleKit(t)
	files := bundleOf(t, k.Client, false)
	for name, parts := range map[string][]string{
		"version.json":   {`"version": "test"`},
		"build.txt":      {"path\t"},
		"config.yaml":    {"upstreams:", "OBJECTS_TOKEN"},
		"status.json":    {`"resources": 1`, `"Failed": 1`, `"revision": `},
		"sinks.json":     {`"name": "web"`, `"plugin": "http `},
		"sources.json":   {"[]"},
		"sagas.json":     {`"items": []`},
		"metrics.txt":    {"pawl_resources{", "go_goroutines "},
		"log.jsonl":      {`"level":"WARN"`, `"key":"[withheld]"`, `"sink":"web"`},
		"goroutines.txt": {"goroutine profile: total ", "internal/daemon."},
		"store.json":     {`"resources": 1`},
	} {
		for _, part := range parts {
			if !strings.Contains(files[name], part) {
				t.Errorf("%s has no %q:\n%.2000s", name, part, files[name])
			}
		}
	}
	if !bytes.HasPrefix([]byte(files["heap.pprof"]), []byte{0x1f, 0x8b}) {
		t.Error("the heap's profile is none that go tool pprof reads")
	}
}
