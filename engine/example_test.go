package engine_test

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/memory"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// printer is the smallest useful sink: it prints what it is told.
type printer struct{}

func (printer) Manifest() sink.Manifest {
	return sink.Manifest{Name: "printer", Deletes: true, ApplyConfirms: true, ApplyIdempotent: true}
}
func (printer) Observe(context.Context, *sink.Request) sink.Result {
	return sink.Result{Status: sink.NotFound}
}
func (printer) Apply(_ context.Context, r *sink.Request) sink.Result {
	fmt.Printf("apply %s = %s\n", r.Key.Name, r.Payload)
	return sink.Result{Status: sink.OK}
}
func (printer) Delete(_ context.Context, r *sink.Request) sink.Result {
	fmt.Printf("delete %s\n", r.Key.Name)
	return sink.Result{Status: sink.OK}
}
func (printer) Close(context.Context) error { return nil }

// openExample opens an engine that forgets everything when it is closed. A
// program that wants to remember gives badger.Opener as its Store.
func openExample() *engine.Engine {
	eng, err := engine.Open(context.Background(), engine.Options{
		Store: func(o outbox.Observer) (outbox.Store, error) { return memory.New(memory.Options{Observer: o}), nil },
		Sinks: []engine.SinkOptions{{Name: "paper", Sink: printer{}}},
	})
	if err != nil {
		panic(err)
	}
	return eng
}

var ctx = context.Background()

func ExampleOpen() {
	eng, err := engine.Open(ctx, engine.Options{
		Store: func(o outbox.Observer) (outbox.Store, error) { return memory.New(memory.Options{Observer: o}), nil },
		Sinks: []engine.SinkOptions{{Name: "paper", Sink: printer{}, DriftInterval: time.Hour}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer eng.Close(ctx)
	fmt.Println(len(eng.Sinks()), "sink")
	// Output: 1 sink
}

func ExampleEngine_Put() {
	eng := openExample()
	defer eng.Close(ctx)
	key := record.Key{Sink: "paper", Name: "colour"}
	res, err := eng.Put(ctx, engine.Put{Key: key, Payload: []byte(`"red"`)})
	fmt.Println(res.Changed, err)
	eng.Wait(ctx, key, res.Generation)
	res, err = eng.Put(ctx, engine.Put{Key: key, Payload: []byte(` "red" `)}) // says the same
	fmt.Println(res.Changed, err)
	// Unordered output:
	// true <nil>
	// apply colour = "red"
	// false <nil>
}

func ExampleEngine_PutBatch() {
	eng := openExample()
	defer eng.Close(ctx)
	eng.SuspendSink(ctx, "paper")
	items, _ := eng.PutBatch(ctx, []engine.Put{
		{Key: record.Key{Sink: "paper", Name: "a"}, Payload: []byte("1")},
		{Key: record.Key{Sink: "pager", Name: "b"}, Payload: []byte("2")},
	})
	for _, item := range items {
		fmt.Println(item.Changed, item.Err)
	}
	// Output:
	// true <nil>
	// false put pager/b: unknown sink "pager"; the configured sinks are paper
}

func ExampleEngine_Delete() {
	eng := openExample()
	defer eng.Close(ctx)
	key := record.Key{Sink: "paper", Name: "colour"}
	put, _ := eng.Put(ctx, engine.Put{Key: key, Payload: []byte("red")})
	eng.Wait(ctx, key, put.Generation)
	del, _ := eng.Delete(ctx, engine.Delete{Key: key})
	res, _ := eng.Wait(ctx, key, del.Generation)
	fmt.Println("gone:", res.Gone)
	// Output:
	// apply colour = red
	// delete colour
	// gone: true
}

func ExampleEngine_Get() {
	eng := openExample()
	defer eng.Close(ctx)
	eng.SuspendSink(ctx, "paper")
	key := record.Key{Sink: "paper", Name: "colour"}
	eng.Put(ctx, engine.Put{Key: key, Payload: []byte("red")})
	r, err := eng.Get(ctx, key)
	fmt.Println(string(r.Desired.Payload), r.Status.Phase, err)
	// Output: red Pending <nil>
}

func ExampleEngine_List() {
	eng := openExample()
	defer eng.Close(ctx)
	eng.SuspendSink(ctx, "paper")
	for _, name := range []string{"a/1", "a/2", "b/1"} {
		eng.Put(ctx, engine.Put{Key: record.Key{Sink: "paper", Name: name}, Payload: []byte("x")})
	}
	o := engine.ListOptions{Sink: "paper", Prefix: "a/", Limit: 1}
	for {
		page, err := eng.List(ctx, o)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, r := range page.Items {
			fmt.Println(r.Key, r.Status.Phase)
		}
		if o.Page = page.Next; o.Page == "" {
			break
		}
	}
	// Output:
	// paper/a/1 Pending
	// paper/a/2 Pending
}

func ExampleEngine_Watch() {
	eng := openExample()
	defer eng.Close(ctx)
	page, _ := eng.List(ctx, engine.ListOptions{})
	key := record.Key{Sink: "paper", Name: "colour"}
	put, _ := eng.Put(ctx, engine.Put{Key: key, Payload: []byte("red")})
	eng.Wait(ctx, key, put.Generation)
	for event, err := range eng.Watch(ctx, engine.WatchOptions{From: page.Token}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if event.Resource.Status.Phase == record.AckedPhase {
			fmt.Println(event.Resource.Key, "is acknowledged")
			break
		}
	}
	// Output:
	// apply colour = red
	// paper/colour is acknowledged
}

func ExampleEngine_Wait() {
	eng := openExample()
	defer eng.Close(ctx)
	key := record.Key{Sink: "paper", Name: "colour"}
	put, _ := eng.Put(ctx, engine.Put{Key: key, Payload: []byte("red")})
	res, err := eng.Wait(ctx, key, put.Generation)
	fmt.Println(res.Done, res.Phase, err)
	// Output:
	// apply colour = red
	// true Acked <nil>
}

func ExampleEngine_Suspend() {
	eng := openExample()
	defer eng.Close(ctx)
	key := record.Key{Sink: "paper", Name: "colour"}
	put, _ := eng.Put(ctx, engine.Put{Key: key, Payload: []byte("red"), Suspend: false})
	eng.Wait(ctx, key, put.Generation)
	eng.Suspend(ctx, key)
	put, _ = eng.Put(ctx, engine.Put{Key: key, Payload: []byte("blue")}) // stored, not applied
	r, _ := eng.Get(ctx, key)
	fmt.Println(r.Status.Phase)
	eng.Resume(ctx, key)
	eng.Wait(ctx, key, put.Generation)
	// Output:
	// apply colour = red
	// Pending
	// apply colour = blue
}

func ExampleEngine_Retry() {
	eng := openExample()
	defer eng.Close(ctx)
	err := eng.Retry(ctx, record.Key{Sink: "paper", Name: "nobody"})
	fmt.Println(err)
	// Output: retry paper/nobody: not found: there is no such resource
}

func ExampleEngine_Forget() {
	eng := openExample()
	defer eng.Close(ctx)
	eng.SuspendSink(ctx, "paper")
	key := record.Key{Sink: "paper", Name: "colour"}
	eng.Put(ctx, engine.Put{Key: key, Payload: []byte("red")})
	fmt.Println(eng.Forget(ctx, key))
	_, err := eng.Get(ctx, key)
	fmt.Println(err)
	// Output:
	// <nil>
	// get paper/colour: not found: there is no such resource
}

func ExampleEngine_Accept() {
	eng := openExample()
	defer eng.Close(ctx)
	eng.SuspendSink(ctx, "paper")
	key := record.Key{Sink: "paper", Name: "colour"}
	eng.Put(ctx, engine.Put{Key: key, Payload: []byte("red")})
	fmt.Println(eng.Accept(ctx, key))
	// Output: accept paper/colour: nothing to do: its phase is Pending; only drift, or a deletion that met somebody else's object, can be accepted
}

func ExampleEngine_ApplyForce() {
	eng := openExample()
	defer eng.Close(ctx)
	key := record.Key{Sink: "paper", Name: "colour"}
	put, _ := eng.Put(ctx, engine.Put{Key: key, Payload: []byte("red")})
	eng.Wait(ctx, key, put.Generation)
	page, _ := eng.List(ctx, engine.ListOptions{})
	eng.ApplyForce(ctx, key) // once more, whatever the policy
	for event := range eng.Watch(ctx, engine.WatchOptions{From: page.Token}) {
		if event.Resource.Status.Command == record.NoCommand {
			break // it was carried out
		}
	}
	// Output:
	// apply colour = red
	// apply colour = red
}

func ExampleEngine_Stats() {
	eng := openExample()
	defer eng.Close(ctx)
	eng.SuspendSink(ctx, "paper")
	eng.Put(ctx, engine.Put{Key: record.Key{Sink: "paper", Name: "colour"}, Payload: []byte("red")})
	fmt.Println(eng.Stats().Resources, eng.Sinks()[0].Counts[record.Pending])
	// Output: 1 1
}
