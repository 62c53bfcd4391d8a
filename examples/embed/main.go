// Command embed keeps files as somebody wants them, with a sink written in Go.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox/badger"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// folder is a target: one file per key.
type folder string

func (f folder) path(r *sink.Request) string {
	return filepath.Join(string(f), filepath.Base(r.Key.Name))
}
func (f folder) Close(context.Context) error { return nil }
func (f folder) Manifest() sink.Manifest {
	return sink.Manifest{Name: "folder", Observes: true, Deletes: true, ApplyConfirms: true, ApplyIdempotent: true}
}
func (f folder) Observe(_ context.Context, r *sink.Request) sink.Result {
	got, err := os.ReadFile(f.path(r))
	if os.IsNotExist(err) {
		return sink.Result{Status: sink.NotFound}
	}
	return answer(err, &sink.Observation{Exists: true, MatchDesired: sink.TriOf(string(got) == string(r.Payload))})
}
func (f folder) Apply(_ context.Context, r *sink.Request) sink.Result {
	return answer(os.WriteFile(f.path(r), r.Payload, 0o644), nil)
}
func (f folder) Delete(_ context.Context, r *sink.Request) sink.Result {
	return answer(os.RemoveAll(f.path(r)), nil)
}
func answer(err error, o *sink.Observation) sink.Result {
	if err != nil {
		return sink.Result{Status: sink.Retry, Message: err.Error()}
	}
	return sink.Result{Status: sink.OK, Observation: o}
}

func main() {
	ctx, key := context.Background(), record.Key{Sink: "files", Name: "greeting.txt"}
	eng, err := engine.Open(ctx, engine.Options{
		Store: badger.Opener(badger.Options{Dir: filepath.Join(os.TempDir(), "pawl-embed")}),
		Sinks: []engine.SinkOptions{{Name: "files", Sink: folder(os.TempDir())}}})
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close(ctx)
	put, err := eng.Put(ctx, engine.Put{Key: key, Payload: []byte("hello\n")}) // durable from here on
	res, werr := eng.Wait(ctx, key, put.Generation)                            // the target has it from here on
	fmt.Println(key, res.Phase, err, werr)
}
