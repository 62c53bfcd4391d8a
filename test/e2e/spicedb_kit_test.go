package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/memory"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/internal/bundled"
	"github.com/pawlsync/pawl/test/e2e/servers"
)

// zed is somebody else who uses SpiceDB: it goes through the server's HTTP
// gateway, whose messages are not ours.
type zed struct{ *servers.SpiceDB }

const schema = `use expiration
definition user {}
definition group {
	relation member: user
}
caveat office_hours(zone string, from int) {
	zone == "utc" && from > 8
}
definition document {
	relation viewer: user | user:* | group#member | user with office_hours | user with expiration | user with office_hours and expiration
	relation editor: user
	permission view = viewer + editor
}`

// post calls the gateway and returns its answer.
func (z *zed) post(t *testing.T, path string, body any) []byte {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, z.HTTP+path, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+z.Key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v\n%s", path, res.Status, err, answer)
	}
	return answer
}

// The gateway's JSON.
type (
	zedObject struct {
		Type string `json:"objectType"`
		ID   string `json:"objectId"`
	}
	zedRow struct {
		Resource zedObject `json:"resource"`
		Relation string    `json:"relation"`
		Subject  struct {
			Object   zedObject `json:"object"`
			Relation string    `json:"optionalRelation,omitempty"`
		} `json:"subject"`
		Caveat *struct {
			Name    string         `json:"caveatName"`
			Context map[string]any `json:"context"`
		} `json:"optionalCaveat,omitempty"`
		Expires string `json:"optionalExpiresAt,omitempty"`
	}
)

// rowOf reads document:x#viewer@user:y or document:x#viewer@group:y#member.
func rowOf(s string) (r zedRow) {
	resource, subject, _ := strings.Cut(s, "@")
	object, relation, _ := strings.Cut(resource, "#")
	r.Relation = relation
	r.Resource.Type, r.Resource.ID, _ = strings.Cut(object, ":")
	object, r.Subject.Relation, _ = strings.Cut(subject, "#")
	r.Subject.Object.Type, r.Subject.Object.ID, _ = strings.Cut(object, ":")
	return r
}

func (r zedRow) String() string {
	s := fmt.Sprintf("%s:%s#%s@%s:%s", r.Resource.Type, r.Resource.ID, r.Relation, r.Subject.Object.Type, r.Subject.Object.ID)
	if r.Subject.Relation != "" {
		s += "#" + r.Subject.Relation
	}
	if r.Caveat != nil {
		context, _ := json.Marshal(r.Caveat.Context)
		s += "[" + r.Caveat.Name + ":" + string(context) + "]"
	}
	if r.Expires != "" {
		s += "[expiration:" + r.Expires + "]"
	}
	return s
}

func (z *zed) write(t *testing.T, operation string, rows ...string) {
	t.Helper()
	var updates []any
	for _, r := range rows {
		updates = append(updates, map[string]any{"operation": "OPERATION_" + operation, "relationship": rowOf(r)})
	}
	z.post(t, "/v1/relationships/write", map[string]any{"updates": updates})
}

// read returns an object's rows, sorted, and the revision that they are of.
func (z *zed) read(t *testing.T, object string) (rows []string, revision string) {
	t.Helper()
	kind, id, _ := strings.Cut(object, ":")
	answer := z.post(t, "/v1/relationships/read", map[string]any{
		"consistency":        map[string]any{"fullyConsistent": true},
		"relationshipFilter": map[string]any{"resourceType": kind, "optionalResourceId": id},
	})
	lines := bufio.NewScanner(bytes.NewReader(answer))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			Result struct {
				ReadAt       struct{ Token string } `json:"readAt"`
				Relationship zedRow                 `json:"relationship"`
			} `json:"result"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%v: %s", err, lines.Bytes())
		}
		rows, revision = append(rows, line.Result.Relationship.String()), line.Result.ReadAt.Token
	}
	slices.Sort(rows)
	return rows, revision
}

func (z *zed) expect(t *testing.T, object string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got, _ := z.read(t, object); !slices.Equal(got, want) {
		t.Errorf("%s has %q, want %q", object, got, want)
	}
}

// patience ends what hangs; nothing that works takes nearly as long.
const patience = 2 * time.Minute

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("it never happened: " + what)
		}
	}
}

// becomes waits until an object's rows are these.
func (z *zed) becomes(t *testing.T, object string, want ...string) {
	t.Helper()
	slices.Sort(want)
	eventually(t, fmt.Sprintf("%s becomes %q", object, want), func() bool {
		got, _ := z.read(t, object)
		return slices.Equal(got, want)
	})
}

// counted is a sink that counts its calls.
type counted struct {
	*wasmhost.Sink
	observes, applies, batches atomic.Int64
}

func (c *counted) Observe(ctx context.Context, r *sink.Request) sink.Result {
	defer c.observes.Add(1) // once it has ended
	return c.Sink.Observe(ctx, r)
}

func (c *counted) Apply(ctx context.Context, r *sink.Request) sink.Result {
	c.applies.Add(1)
	return c.Sink.Apply(ctx, r)
}

func (c *counted) ApplyBatch(ctx context.Context, rs []*sink.Request) ([]sink.Result, bool) {
	c.batches.Add(1)
	return c.Sink.ApplyBatch(ctx, rs)
}

// rig is an engine with one sink that talks to SpiceDB.
type rig struct {
	*engine.Engine
	sink *counted
}

const zedSink = "zed"

// shippedPlugin opens a host with a plugin that comes with Pawl.
func shippedPlugin(t *testing.T, name string) *wasmhost.Plugin {
	t.Helper()
	wasm, err := bundled.Plugin(name)
	if err != nil {
		if os.Getenv("REQUIRE_PLUGINS") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	host, err := wasmhost.New(t.Context(), wasmhost.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := host.LoadTrusted(t.Context(), wasm, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(context.Background()) })
	return p
}

// connect opens the adapter's sink on an address of SpiceDB.
func connect(t *testing.T, p *wasmhost.Plugin, address, key, config string) *counted {
	t.Helper()
	up, err := upstream.Open(upstream.Config{Name: "spicedb", BaseURL: "http://" + address, Protocol: upstream.ProtocolH2C,
		Credentials: upstream.Credentials{Bearer: upstream.Secret{Value: key}}}, upstream.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	s, err := p.Open(t.Context(), wasmhost.SinkConfig{Name: zedSink, Config: []byte(config), Upstreams: []wasmhost.Upstream{up}})
	if err != nil {
		t.Fatal(err)
	}
	return &counted{Sink: s}
}

// start runs an engine over s, which it closes.
func start(t *testing.T, s *counted, o engine.SinkOptions) *rig {
	t.Helper()
	o.Name, o.Sink = zedSink, s
	o.RetryBase, o.BreakerProbeBase = 50*time.Millisecond, 50*time.Millisecond
	e, err := engine.Open(t.Context(), engine.Options{
		Store: func(o outbox.Observer) (outbox.Store, error) { return memory.New(memory.Options{Observer: o}), nil },
		Sinks: []engine.SinkOptions{o}, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &rig{Engine: e, sink: s}
}

func zedKey(name string) record.Key { return record.Key{Sink: zedSink, Name: name} }

func (r *rig) put(t *testing.T, name, payload string) uint64 {
	t.Helper()
	res, err := r.Put(t.Context(), engine.Put{Key: zedKey(name), Payload: []byte(payload)})
	if err != nil {
		t.Fatal(err)
	}
	return res.Generation
}

// settle waits until a resource comes to rest.
func (r *rig) settle(t *testing.T, name string, generation uint64) engine.WaitResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	res, err := r.Wait(ctx, zedKey(name), generation)
	if err != nil {
		t.Fatalf("%s: %v; it is %s: %s", name, err, res.Phase, res.Message)
	}
	return res
}

// acked puts and waits for the acknowledgement.
func (r *rig) acked(t *testing.T, name, payload string) {
	t.Helper()
	if res := r.settle(t, name, r.put(t, name, payload)); !res.Done {
		t.Fatalf("%s is %s (%s): %s", name, res.Phase, res.Reason, res.Message)
	}
}

// deleted deletes and waits until the record is gone.
func (r *rig) deleted(t *testing.T, name string, policy record.DeletionPolicy) {
	t.Helper()
	res, err := r.Delete(t.Context(), engine.Delete{Key: zedKey(name), Deletion: policy})
	if err != nil {
		t.Fatal(err)
	}
	if res := r.settle(t, name, res.Generation); !res.Gone {
		t.Fatalf("%s is %s (%s): %s", name, res.Phase, res.Reason, res.Message)
	}
}

func (r *rig) status(t *testing.T, name string) record.Status {
	t.Helper()
	res, err := r.Get(t.Context(), zedKey(name))
	if err != nil {
		t.Fatal(err)
	}
	return res.Status
}

// seenBy waits until the sink has looked n times more.
func (r *rig) seenBy(t *testing.T, n int64) {
	t.Helper()
	from := r.sink.observes.Load()
	eventually(t, "enough looks", func() bool { return r.sink.observes.Load() >= from+n })
}
