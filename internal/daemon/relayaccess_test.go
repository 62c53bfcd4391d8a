package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/memory"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
	"github.com/pawlsync/pawl/internal/relay/wire"
	"github.com/pawlsync/pawl/internal/server"
	"github.com/pawlsync/pawl/internal/source"
	"github.com/pawlsync/pawl/internal/testcert"
)

// taker is a target that takes everything.
type taker struct{}

func (taker) Manifest() sink.Manifest {
	return sink.Manifest{Name: "fake", Target: "t", Deletes: true, ApplyConfirms: true, ApplyIdempotent: true}
}
func (taker) Close(context.Context) error { return nil }
func (taker) Observe(context.Context, *sink.Request) sink.Result {
	return sink.Result{Status: sink.Rejected}
}
func (taker) Apply(context.Context, *sink.Request) sink.Result  { return sink.Result{Status: sink.OK} }
func (taker) Delete(context.Context, *sink.Request) sink.Result { return sink.Result{Status: sink.OK} }

// receiving is what a daemon takes in from the declared senders edge-*.
func receiving(t *testing.T) (server.Relay, *engine.Engine) {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{
		Sinks: []engine.SinkOptions{{Name: "web", Sink: taker{}}, {Name: "db", Sink: taker{}}},
		Store: func(o outbox.Observer) (outbox.Store, error) {
			return memory.Open(memory.NewDisk(), memory.Options{Observer: o})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	sources := source.New(source.Options{Engine: e, Sources: []source.Spec{{
		Name: "edges", Kind: "pawl", Senders: []string{"edge-*"}, Fuse: source.FuseOptions{Window: time.Hour, Share: 1, AtLeast: 1000},
	}}})
	sources.Start()
	t.Cleanup(func() {
		sources.Close()
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	d := &daemon{engine: e, sources: sources, config: &config.Config{}, options: Options{Logger: slog.New(slog.DiscardHandler)}}
	return d.receiver(nil), e
}

// says is a request: the Hello of a sender with items, as docs/relay.md has them.
func says(sender, ticket string, items ...wire.Item) []byte {
	text := func(b []byte, n protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), s)
	}
	number := func(b []byte, n protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
	}
	hello := text(text(text(text(nil, 1, sender), 2, "e1"), 4, ticket), 10, "up")
	out := wire.Append(nil, hello)
	for _, it := range items {
		out = wire.Append(out, text(number(text(number(nil, 1, uint64(it.Kind)), 2, it.Key), 3, it.Number), 4, string(it.Payload)))
	}
	return out
}

// outcomes are what came of items that a caller sends as a sender.
func outcomes(t *testing.T, r server.Relay, id *access.Identity, sender string, items ...wire.Item) (out []wire.Outcome) {
	t.Helper()
	ctx, ticket := access.With(t.Context(), id), ""
	for {
		answer, err := r.Receive(ctx, says(sender, ticket, items...))
		if err != nil {
			t.Fatal(err)
		}
		welcome, rest, err := wire.Next(answer)
		if err != nil {
			t.Fatal(err)
		}
		if fresh := field(welcome, 2); fresh != "" && ticket == "" { // its life begins
			ticket = fresh
			continue
		}
		for len(rest) > 0 {
			var result []byte
			if result, rest, err = wire.Next(rest); err != nil {
				t.Fatal(err)
			}
			_, _, n := protowire.ConsumeTag(result) // field 1, the outcome
			v, _ := protowire.ConsumeVarint(result[n:])
			out = append(out, wire.Outcome(v))
		}
		return out
	}
}

// field is a message's field of bytes of that number; "": it has none.
func field(msg []byte, wanted protowire.Number) string {
	for len(msg) > 0 {
		num, kind, n := protowire.ConsumeTag(msg)
		msg = msg[n:]
		if num == wanted {
			v, _ := protowire.ConsumeBytes(msg)
			return string(v)
		}
		msg = msg[protowire.ConsumeFieldValue(num, kind, msg):]
	}
	return ""
}

func TestASenderSpeaksUnderTheNamesOfItsTokenAndChangesWhatItsGrantsAllowAlone(t *testing.T) {
	r, e := receiving(t)
	agent := func(name string) *access.Identity {
		return &access.Identity{Name: name, Kind: "token", Grants: []access.Grant{{Scope: access.Write, Sinks: []string{"web"}}}, Senders: []string{name}}
	}
	admin := &access.Identity{Name: "root", Kind: "token", Grants: []access.Grant{{Scope: access.Admin}}}
	put := wire.Item{Kind: wire.Put, Key: "web/a", Number: 1, Payload: []byte("1")}
	for _, c := range []struct {
		id     *access.Identity
		sender string
	}{{agent("edge-1"), "edge-2"}, {admin, "edge-1"}} {
		ctx := access.With(t.Context(), c.id)
		for what, answer := range map[string]func(context.Context, []byte) ([]byte, error){"items": r.Receive, "looks": r.Look, "a comparison": r.Compare} {
			_, err := answer(ctx, says(c.sender, "", put))
			if d := access.AsDenial(err); d == nil || d.Sender != c.sender || !strings.Contains(err.Error(), fmt.Sprintf("%s may not send as the pawl %q", c.id, c.sender)) {
				t.Errorf("%s of %s as %s: %v", what, c.id, c.sender, err)
			}
		}
	}
	if _, err := e.Get(t.Context(), record.Key{Sink: "web", Name: "a"}); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("what was sent in another's name is there (%v)", err)
	}

	// Its own, but for a sink that its grants lack.
	elsewhere := wire.Item{Kind: wire.Put, Key: "db/a", Number: 1, Payload: []byte("1")}
	if got := outcomes(t, r, agent("edge-1"), "edge-1", elsewhere, put); len(got) != 2 || got[0] == wire.Done || got[1] != wire.Done {
		t.Errorf("outcomes %v, want the second to be done alone", got)
	}
	if _, err := e.Get(t.Context(), record.Key{Sink: "db", Name: "a"}); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("what the grants lack is there (%v)", err)
	}
	if got, err := e.Get(t.Context(), record.Key{Sink: "web", Name: "a"}); err != nil || got.Desired.Owner != "edge-1" {
		t.Errorf("what edge-1 sent is %+v, %v", got.Desired, err)
	}

	// Without the scope, it can't delete either what is its own.
	reader := agent("edge-1")
	reader.Grants[0].Scope = access.Read
	if got := outcomes(t, r, reader, "edge-1", wire.Item{Kind: wire.Delete, Key: "web/a", Number: 2}); len(got) != 1 || got[0] == wire.Done {
		t.Errorf("a deletion without the scope: %v", got)
	}
	if got, err := e.Get(t.Context(), record.Key{Sink: "web", Name: "a"}); err != nil || got.Desired.Tombstone {
		t.Errorf("it is deleted all the same: %+v, %v", got.Desired, err)
	}
}

func TestAPawlSendsWithAClientCertificateAndUnderItsNameAlone(t *testing.T) {
	needPlugins(t)
	_, url := newObjects(t)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	ca := testcert.Issue(t, "ca", time.Now().Add(time.Hour), nil)
	ca.Write(t, file("ca.crt"), file("ca.key"))
	for _, name := range []string{"tls", "edge-1", "ops"} {
		testcert.Issue(t, name, time.Now().Add(time.Hour), ca).Write(t, file(name+".crt"), file(name+".key"))
	}
	path := write(t, dir, url, `sources: {edges: {pawl: {senders: ["edge-*"], sinks: [web]}}}`)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const secure = `server:
  listen: "127.0.0.1:0"
  tls:
    cert_file: tls.crt
    key_file: tls.key
    client_ca_file: ca.crt
    clients:
      edge-1: {common_names: [edge-1], grants: [{scope: write, sinks: [web]}], senders: [edge-1]}
      ops: {common_names: [ops], grants: [{scope: read}]}
`
	text = []byte(strings.Replace(string(text), "server: {listen: \"127.0.0.1:0\"}\n", secure, 1))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	to := begin(t, load(t, path), options())

	agentFile := filepath.Join(t.TempDir(), "pawl.yaml")
	agent := fmt.Sprintf(`server: {listen: "127.0.0.1:0"}
store: {path: store, reserve_bytes: 64MiB}
upstreams:
  up: {base_url: %[1]q, tls: {ca_file: %[2]q, cert_file: %[3]q, key_file: %[4]q}}
  bare: {base_url: %[1]q, tls: {ca_file: %[2]q}}
defaults: {breaker: {probe_base: 10ms, probe_max: 20ms}}
sinks:
  own: {plugin: pawl, upstreams: [up], config: {sender: edge-1, sink: web}}
  other: {plugin: pawl, upstreams: [up], config: {sender: edge-2, sink: web}}
  nobody: {plugin: pawl, upstreams: [bare], config: {sender: edge-1, sink: web}}
`, to.ready.Address, file("ca.crt"), file("edge-1.crt"), file("edge-1.key"))
	if err := os.WriteFile(agentFile, []byte(agent), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Options{
		File: agentFile, Bundled: []string{"pawl"},
		Env: []string{"HOME=" + os.Getenv("HOME"), "XDG_CACHE_HOME=" + os.Getenv("XDG_CACHE_HOME")}, // as load
	})
	if err != nil {
		t.Fatal(err)
	}
	from := begin(t, c, options())
	generations := map[string]uint64{}
	for _, name := range []string{"own", "other", "nobody"} {
		put, err := from.Put(t.Context(), record.Key{Sink: name, Name: name}, api.PutRequest{Payload: json.RawMessage(`1`)})
		if err != nil {
			t.Fatal(err)
		}
		generations[name] = put.Generation
	}
	if w, err := from.Wait(t.Context(), record.Key{Sink: "own", Name: "own"}, generations["own"]); err != nil || !w.Done {
		t.Fatalf("%+v, %v", w, err)
	}
	for name, want := range map[string]string{"other": `does not take anything from sender "edge-2"`, "nobody": "certificate"} {
		last := ""
		for last == "" { // until it was refused
			sinks, err := from.Sinks(t.Context())
			if err != nil {
				t.Fatalf("sink %s says %q: %v", name, last, err)
			}
			for _, s := range sinks {
				if s.Name == name {
					last = s.LastError
				}
			}
		}
		if !strings.Contains(last, want) {
			t.Errorf("sink %s says %q, want %q", name, last, want)
		}
	}

	pool := x509.NewCertPool()
	pool.AddCert(ca.Leaf)
	ops, err := tls.LoadX509KeyPair(file("ops.crt"), file("ops.key"))
	if err != nil {
		t.Fatal(err)
	}
	operator, err := client.New(client.Options{Address: to.ready.Address, TLS: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{ops}}})
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Close()
	page, err := operator.List(t.Context(), client.ListOptions{})
	if err != nil || len(page.Items) != 1 || page.Items[0].Key != "own" || page.Items[0].Owner != "edge-1" {
		t.Errorf("the receiver has %+v, %v; want what edge-1 sent alone", page.Items, err)
	}
}
