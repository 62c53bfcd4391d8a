package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "github.com/authzed/authzed-go/proto/authzed/api/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/internal/bundled"
	"github.com/pawlsync/pawl/test/e2e/servers"
)

const (
	zedRows   = 5 // of one resource
	zedLimit  = 1000
	zedFlying = 4 // writes at a time, ours and the client's
	zedSchema = "definition user {}\ndefinition document {\n\trelation viewer: user\n}"
)

// zedBench is one SpiceDB, a client of it, and the adapter.
type zedBench struct {
	*report
	db     *servers.SpiceDB
	client v1.PermissionsServiceClient
	ctx    context.Context // with the client's credentials
	host   *wasmhost.Host
	plugin *wasmhost.Plugin
}

// benchSpiceDB brings relationships to a real SpiceDB, through Pawl and by a client
// that does the same writes, by turns.
func benchSpiceDB(r *report) error {
	resources, rounds := 20_000, 3
	if r.short {
		resources, rounds = 4_000, 1
	}
	if err := benchGuest(r, "spicedb"); err != nil {
		return err
	}
	args, stop, err := spiceArgs(r)
	if err != nil {
		return err
	}
	defer stop()
	db, err := servers.StartSpiceDB(r.ctx, r.dir, args...)
	if err != nil {
		return err
	}
	defer db.Stop()
	conn, err := grpc.NewClient(db.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	b := &zedBench{report: r, db: db, client: v1.NewPermissionsServiceClient(conn),
		ctx: metadata.AppendToOutgoingContext(r.ctx, "authorization", "Bearer "+db.Key)}
	if _, err := v1.NewSchemaServiceClient(conn).WriteSchema(b.ctx, &v1.WriteSchemaRequest{Schema: zedSchema}); err != nil {
		return err
	}
	if b.host, err = wasmhost.New(r.ctx, wasmhost.Options{}); err != nil {
		return err
	}
	wasm, err := bundled.Plugin("spicedb")
	if err != nil {
		return err
	}
	if b.plugin, err = b.host.LoadTrusted(r.ctx, wasm, "spicedb"); err != nil {
		return err
	}
	defer b.plugin.Close(r.ctx)

	runs, single, pruned := 0, resources/20, resources/20
	prefix := func() string { runs++; return "run" + strconv.Itoa(runs) + "-" }
	took, err := interleave(rounds,
		func() (float64, error) { return b.full(prefix(), resources) },
		func() (float64, error) { return b.through(prefix(), resources, `{"touch":[%s]}`) },
		func() (float64, error) { return b.through(prefix(), pruned, `{"relationships":[%s]}`) },
		func() (float64, error) { return b.oneByOne(prefix(), single) },
	)
	if err != nil {
		return err
	}
	rate := func(i, n int) sample { // relationships a second
		out := make(sample, 0, len(took[i]))
		for _, seconds := range took[i] {
			out = append(out, float64(n*zedRows)/seconds)
		}
		return out
	}
	full, touch, prune, one := rate(0, resources), rate(1, resources), rate(2, pruned), rate(3, single)
	r.line("relationships/s: client in full batches %v; touch lists %v; pruned %v; client resource by resource %v", full, touch, prune, one)
	r.atLeast("touch lists ÷ client in full batches", touch.over(full).median(), 0.5, " ×")
	r.atLeast("touch lists ÷ client resource by resource", touch.over(one).median(), 10, " ×")
	r.line("pruned ÷ client resource by resource: %.2g ×; it reads each object before it writes", prune.over(one).median())
	return nil
}

// full writes the rows of n resources, as many in a request as SpiceDB takes.
func (b *zedBench) full(prefix string, n int) (float64, error) {
	per := zedLimit / zedRows
	return b.times(zedFlying, (n+per-1)/per, func(i int) error {
		var updates []*v1.RelationshipUpdate
		for j := i * per; j < min(n, (i+1)*per); j++ {
			updates = append(updates, zedUpdates(prefix, j)...)
		}
		_, err := b.client.WriteRelationships(b.ctx, &v1.WriteRelationshipsRequest{Updates: updates})
		return err
	})
}

// oneByOne writes the rows of n resources, each resource's in a request of its own.
func (b *zedBench) oneByOne(prefix string, n int) (float64, error) {
	return b.times(1, n, func(i int) error {
		_, err := b.client.WriteRelationships(b.ctx, &v1.WriteRelationshipsRequest{Updates: zedUpdates(prefix, i)})
		return err
	})
}

func (b *zedBench) times(callers, n int, do func(int) error) (float64, error) {
	began := time.Now()
	_, err := times(callers, n, do)
	return time.Since(began).Seconds(), err
}

func zedUpdates(prefix string, resource int) (us []*v1.RelationshipUpdate) {
	for i := range zedRows {
		us = append(us, &v1.RelationshipUpdate{Operation: v1.RelationshipUpdate_OPERATION_TOUCH, Relationship: &v1.Relationship{
			Resource: &v1.ObjectReference{ObjectType: "document", ObjectId: prefix + strconv.Itoa(resource)}, Relation: "viewer",
			Subject: &v1.SubjectReference{Object: &v1.ObjectReference{ObjectType: "user", ObjectId: "u" + strconv.Itoa(i)}},
		}})
	}
	return us
}

// through puts n resources and waits until all are acknowledged.
func (b *zedBench) through(prefix string, n int, form string) (float64, error) {
	up, err := upstream.Open(upstream.Config{Name: "spicedb", BaseURL: "http://" + b.db.Address, MaxConcurrent: zedFlying, Protocol: upstream.ProtocolH2C,
		Credentials: upstream.Credentials{Bearer: upstream.Secret{Value: b.db.Key}}}, upstream.Options{})
	if err != nil {
		return 0, err
	}
	defer up.Close()
	s, err := b.plugin.Open(b.report.ctx, wasmhost.SinkConfig{Name: sinkName, Upstreams: []wasmhost.Upstream{up}})
	if err != nil {
		return 0, err
	}
	eng, err := open(b.report.ctx, filepath.Join(b.dir, prefix), engine.SinkOptions{Name: sinkName, Sink: s, MaxInFlight: zedFlying})
	if err != nil {
		return 0, err
	}
	defer eng.Close(b.report.ctx)
	began := time.Now()
	const batch = 1000
	if _, err := times(4, (n+batch-1)/batch, func(i int) error {
		var puts []engine.Put
		for j := i * batch; j < min(n, (i+1)*batch); j++ {
			puts = append(puts, engine.Put{Key: key(j), Payload: fmt.Appendf(nil, form, zedList(prefix, j))})
		}
		_, err := eng.PutBatch(b.report.ctx, puts)
		return err
	}); err != nil {
		return 0, err
	}
	for countOf(eng, record.AckedPhase) < n {
		time.Sleep(2 * time.Millisecond)
	}
	took := time.Since(began).Seconds()
	st := s.Stats()
	b.line("%.0f relationships/s; %d instance(s)", float64(n*zedRows)/took, st.Instances)
	b.under("memory of an instance", float64(st.MemoryBytes)/(1<<20)/float64(max(st.Instances, 1)), 12, " MiB")
	return took, nil
}

func zedList(prefix string, resource int) string {
	var b strings.Builder
	for i := range zedRows {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"document:%s%d#viewer@user:u%d"`, prefix, resource, i)
	}
	return b.String()
}

// benchGuest measures what a shipped plugin costs before it does anything.
func benchGuest(r *report, name string) error {
	wasm, err := bundled.Plugin(name)
	if err != nil {
		return err
	}
	var cold, warm, coldUsed, warmUsed sample // used: of the processors
	for i := range 3 {
		for _, m := range []struct{ took, used *sample }{{&cold, &coldUsed}, {&warm, &warmUsed}} {
			began, before := time.Now(), cpuTime()
			if err := makeReady(r, filepath.Join(r.dir, name+strconv.Itoa(i)), name); err != nil {
				return err
			}
			*m.took = append(*m.took, time.Since(began).Seconds())
			*m.used = append(*m.used, (cpuTime() - before).Seconds())
		}
	}
	r.under(name+": size of the module", float64(len(wasm))/1e6, 5, " MB")
	r.under(name+": ready, nothing compiled before", cold.median(), 3, " s")
	r.under(name+": ready, compiled before", warm.median(), 0.3, " s")
	r.line("of the processors that took, in s: compiling %v; compiled before %v", coldUsed, warmUsed)
	return nil
}
