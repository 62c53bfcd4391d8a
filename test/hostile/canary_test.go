package hostile

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
	. "github.com/pawlsync/pawl/internal/wasmasm"
)

// canary is the secret of every credential. Its length and that of what stands
// before it in basic authentication are multiples of three, so that its base64
// form shows wherever it stands.
const (
	canary = "canary+5ac1e8/never-in-a-guest"
	user   = "pawls"
)

// marks are the forms in which the canary gives itself away.
func marks() []string {
	out := []string{canary, url.QueryEscape(canary), fmt.Sprintf("%x", canary)}
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		out = append(out, e.EncodeToString([]byte(canary)), e.EncodeToString([]byte(user+":"+canary)))
	}
	return out
}

func hasCanary(s string) bool {
	return slices.ContainsFunc(marks(), func(mark string) bool { return strings.Contains(s, mark) })
}

// ways are what the target does with a request, by the end of its path.
var ways = map[string]http.HandlerFunc{
	"ok":    func(http.ResponseWriter, *http.Request) {},
	"fails": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "it broke", 500) },
	"refuses": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", "Basic")
		w.WriteHeader(401)
	},
	"redirects": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "ok", http.StatusTemporaryRedirect) },
	"loops":     func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "loops", http.StatusFound) },
	"away": func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://localhost:1/stolen", http.StatusTemporaryRedirect)
	},
	"cut":     raws("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ncut"),
	"garbage": raws("garbage\r\n\r\n"),
	// A target that echoes is caught where it repeats the credential as it was
	// sent, or the bare secret.
	"echoes":        func(w http.ResponseWriter, r *http.Request) { _ = r.Header.Write(w) },
	"echoes-above":  func(w http.ResponseWriter, r *http.Request) { maps.Copy(w.Header(), r.Header) },
	"echoes-secret": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "your token %s is wrong", canary) },
}

// encoding is the way that no host can see through: an echo in another form. It
// shows that the test would find what it looks for.
const encoding = "encodes"

func raws(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = io.WriteString(conn, text)
			_ = conn.Close()
		}
	}
}

// dumper is a guest that sends one request to the upstream, then all of its
// memory, with the answer in it, to the upstream dump at the given path.
func dumper(upstream, method, path, dumpPath string) []byte {
	const pages, at, first, flag, answer = 4, 64, 4096, 1 << 17, 1<<17 + 1024
	request := HTTPMessage(upstream, method, path)
	// The dump's body is the memory from the end of its head on: below that is
	// nothing but what the module itself puts there.
	head := protowire.AppendTag([]byte(HTTPMessage("dump", "POST", dumpPath)), 5, protowire.BytesType)
	const lengthBytes = 3
	head = protowire.AppendVarint(head, uint64(pages*65536-at-len(head)-lengthBytes))
	callOfIO := func(local int) Code {
		return Seq(Get(local), I32Wrap, I32(3), I32Shl, I32(AtCalls), I32Add)
	}
	return Guest{
		Manifest: manifest("dumper"), Pages: pages, MaxPages: pages,
		Data:  map[int]string{at: string(head), first: request},
		Start: Seq(Park(IOHTTP, first, len(request)), Want(1)),
		Resume: Seq(
			If(Seq(I32(flag), Load32, I32Eqz),
				I32(flag), I32(1), Store32,
				I32(answer), CallImport("input_read"),
				callOfIO(0), Load64, Set(1),
				Get(1), I32(IOHTTP), I32(at), I32(pages*65536-at), CallImport("io_start"), Set(2),
				callOfIO(2), Get(1), Store64,
				Want(1)),
			I32(flag), I32(0), Store32,
			ResumeOK, I32(1)),
	}.Bytes()
}

// wire is the target and the upstream dump.
type wire struct {
	target, dump *httptest.Server

	mu      sync.Mutex
	arrived map[string]bool   // upstreams whose credential came with a request
	dumps   map[string]string // by name of the sink
}

func newWire(t *testing.T) *wire {
	x := &wire{arrived: map[string]bool{}, dumps: map[string]string{}}
	x.target = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		upstream, way, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		x.mu.Lock()
		x.arrived[upstream] = x.arrived[upstream] || hasCanary(fmt.Sprint(r.Header))
		x.mu.Unlock()
		if way == encoding {
			fmt.Fprint(w, url.QueryEscape(canary))
			return
		}
		ways[way](w, r)
	}))
	t.Cleanup(x.target.Close)
	x.dump = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil || hasCanary(fmt.Sprint(r.Header)) {
			t.Errorf("the dump failed, or the credential of another upstream came with it: %v", err)
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		x.dumps[strings.TrimPrefix(r.URL.Path, "/")] = string(b)
	}))
	t.Cleanup(x.dump.Close)
	return x
}

// The credentials of upstreams are the host's alone. A guest that looks through
// all of its memory after every kind of answer does not find them, and nothing
// that the daemon writes or serves has them: in plain, quoted, in hexadecimal or
// in base64.
func TestCredentialsAreNowhereButOnTheWire(t *testing.T) {
	x := newWire(t)
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	secret := file("secret", []byte(canary+"\n"))
	nobody := httptest.NewServer(nil)
	nobody.Close() // nobody listens there now
	upstreams := fmt.Sprintf("  dump: {base_url: %q}\n", x.dump.URL)
	plugins, sinks := "plugins:\n", "sinks:\n"
	var names []string
	for _, u := range []struct{ name, base, credentials string }{
		{"bearer", x.target.URL + "/bearer", "bearer: {file: %q}"},
		{"basic", x.target.URL + "/basic", "basic: {username: " + user + ", password: {file: %q}}"},
		{"header", x.target.URL + "/header", "header: {name: X-Api-Key, secret: {file: %q}}"},
		{"gone", nobody.URL + "/gone", "bearer: {file: %q}"},
	} {
		upstreams += fmt.Sprintf("  %s: {base_url: %q, credentials: {%s}}\n", u.name, u.base, fmt.Sprintf(u.credentials, secret))
		for _, way := range append(slices.Sorted(maps.Keys(ways)), encoding) {
			for _, method := range []string{"GET", "PUT"} {
				name := u.name + "-" + strings.ToLower(method) + "-" + way
				file(name+".wasm", dumper(u.name, method, "/"+way, "/"+name))
				plugins += fmt.Sprintf("  %s: {path: %s.wasm, trusted: true}\n", name, name)
				sinks += fmt.Sprintf("  %s: {plugin: %s, upstreams: [%s, dump], drift_interval: 0s}\n", name, name, u.name)
				names = append(names, name)
			}
		}
	}
	d := startDaemon(t, dir, fmt.Sprintf("server: {listen: \"127.0.0.1:0\"}\nstore: {path: %q, reserve_bytes: 64MiB}\nwasm: {cache_dir: %q}\nlog: {level: debug, format: json}\nupstreams:\n",
		filepath.Join(dir, "store"), filepath.Join(dir, "cache"))+upstreams+plugins+sinks)
	said := map[string]string{}
	for _, name := range names {
		key := record.Key{Sink: name, Name: "k"}
		if _, err := d.Put(t.Context(), key, api.PutRequest{Payload: json.RawMessage(`1`)}); err != nil {
			t.Fatal(err)
		}
		if res, err := d.Wait(t.Context(), key, 0); err != nil || res.Phase != record.AckedPhase {
			t.Fatalf("%s: %+v, %v", name, res, err)
		}
		res, err := d.Get(t.Context(), key, client.GetOptions{Payload: true, Reveal: true})
		said["status of "+name] = fmt.Sprintf("%+v %v", res, err)
		explained, err := d.Explain(t.Context(), key)
		said["explain of "+name] = fmt.Sprintf("%+v %v", explained, err)
	}
	said["metrics"], said["sinks"] = d.get("/metrics"), d.get("/v1/sinks")
	shown, err := exec.Command(program(t), "config", "show", "--config", filepath.Join(dir, "pawl.yaml")).CombinedOutput()
	if err != nil {
		t.Errorf("config show: %v", err)
	}
	said["config show"] = string(shown)
	d.stop()
	said["log"] = d.log.String()

	x.mu.Lock()
	defer x.mu.Unlock()
	for _, upstream := range []string{"bearer", "basic", "header"} {
		if !x.arrived[upstream] {
			t.Errorf("no credential of upstream %s arrived at the target: the test shows nothing", upstream)
		}
	}
	for _, name := range names {
		memory, dumped := x.dumps[name]
		known := strings.HasSuffix(name, encoding) && !strings.HasPrefix(name, "gone")
		switch {
		case !dumped:
			t.Errorf("%s: no memory was dumped", name)
		case hasCanary(memory) && !known:
			t.Errorf("%s: the credential is in the guest's memory", name)
		case !hasCanary(memory) && known:
			t.Errorf("%s: the test does not find what is there", name)
		}
	}
	for where, text := range said {
		if hasCanary(text) {
			t.Errorf("the credential is in %s", where)
		}
	}
}
