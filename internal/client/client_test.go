package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/memory"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/saga"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
	"github.com/pawlsync/pawl/internal/server"
)

// target is a sink that keeps objects, and refuses those named "bad…".
type target struct {
	mu      sync.Mutex
	objects map[string]string
}

func (*target) Manifest() sink.Manifest {
	return sink.Manifest{Name: "target", Version: "1", Target: "here", Observes: true, Deletes: true, ApplyConfirms: true, ApplyIdempotent: true}
}

func (t *target) Observe(_ context.Context, r *sink.Request) sink.Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	got, ok := t.objects[r.Key.Name]
	if !ok {
		return sink.Result{Status: sink.NotFound}
	}
	return sink.Result{Status: sink.OK, Observation: &sink.Observation{Exists: true, MatchDesired: sink.TriOf(got == string(r.Payload))}}
}

func (t *target) Apply(_ context.Context, r *sink.Request) sink.Result {
	if strings.HasPrefix(r.Key.Name, "bad") {
		return sink.Result{Status: sink.Rejected, Message: "no such field"}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.objects[r.Key.Name] = string(r.Payload)
	return sink.Result{Status: sink.OK, Observation: &sink.Observation{Exists: true, Ref: "ref"}}
}

func (t *target) Delete(_ context.Context, r *sink.Request) sink.Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.objects, r.Key.Name)
	return sink.Result{Status: sink.OK}
}

func (*target) Close(context.Context) error { return nil }

// open returns an engine with a sink "web", until the test ends.
func open(t *testing.T, o engine.Options) (*engine.Engine, *target) {
	t.Helper()
	to := &target{objects: map[string]string{}}
	o.Store = func(obs outbox.Observer) (outbox.Store, error) { return memory.New(memory.Options{Observer: obs}), nil }
	o.Sinks = []engine.SinkOptions{{Name: "web", Sink: to}}
	e, err := engine.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.WithoutCancel(t.Context())); err != nil && !errors.Is(err, engine.ErrClosed) {
			t.Error(err)
		}
	})
	return e, to
}

// serve answers for e at a unix socket until stop is called.
func serve(t *testing.T, e server.Engine, path string) (stop func()) {
	t.Helper()
	s, err := server.New(server.Options{Engine: e, Sagas: saga.New(saga.Options{}), Version: api.Version{Version: "1.2.3"}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func dial(t *testing.T, address string) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func start(t *testing.T, o engine.Options) (*client.Client, *engine.Engine, *target) {
	t.Helper()
	e, to := open(t, o)
	path := filepath.Join(t.TempDir(), "s")
	serve(t, e, path)
	return dial(t, "unix://"+path), e, to
}

func put(payload string) api.PutRequest { return api.PutRequest{Payload: json.RawMessage(payload)} }

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestOneResourceFromPutToGone(t *testing.T) {
	c, _, to := start(t, engine.Options{})
	ctx, key := t.Context(), record.Key{Sink: "web", Name: "a/b/../é &%2F?"}
	r := must[api.PutResult](t)(c.Put(ctx, key, put(`{"n":1.0}`)))
	if !r.Changed || r.Generation == 0 {
		t.Errorf("put: %+v", r)
	}
	if w := must[api.WaitResult](t)(c.Wait(ctx, key, r.Generation)); !w.Done || w.Phase != record.AckedPhase {
		t.Errorf("wait: %+v", w)
	}
	if got := to.objects[key.Name]; got != `{"n":1.0}` {
		t.Errorf("the target has %q", got)
	}
	got := must[api.Resource](t)(c.Get(ctx, key, client.GetOptions{Payload: true}))
	if got.RecordKey() != key || got.Status.Phase != record.AckedPhase || got.Status.Acked == nil || got.Status.Acked.Ref != "ref" ||
		string(got.Payload) != `{"n":1.0}` || len(got.Status.History) == 0 {
		t.Errorf("get: %+v", got)
	}
	if again := must[api.PutResult](t)(c.Put(ctx, key, put(`{ "n": 1.0 }`))); again.Changed || again.Generation != r.Generation {
		t.Errorf("put again: %+v", again)
	}
	x := must[api.Explanation](t)(c.Explain(ctx, key))
	if !strings.Contains(x.Text, "The target confirmed it") || x.Sink.Name != "web" {
		t.Errorf("explain: %+v", x)
	}
	d := must[api.PutResult](t)(c.Delete(ctx, key, api.DeleteRequest{IfGeneration: &r.Generation}))
	if w := must[api.WaitResult](t)(c.Wait(ctx, key, d.Generation)); !w.Done || !w.Gone {
		t.Errorf("wait for the deletion: %+v", w)
	}
	if _, err := c.Get(ctx, key, client.GetOptions{}); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("get what is gone: %v", err)
	}
}

func TestWhatTheDaemonRefusesReadsWell(t *testing.T) {
	c, _, _ := start(t, engine.Options{})
	ctx := t.Context()
	for _, x := range []struct {
		name string
		do   func() error
		code api.Code
		says string
	}{
		{"a misspelt sink", func() error { _, err := c.Put(ctx, record.Key{Sink: "wbe", Name: "k"}, put(`1`)); return err },
			api.CodeUnknownSink, `there is no sink wbe; did you mean "web"?`},
		{"a wrong generation", func() error {
			seven := uint64(7)
			_, err := c.Put(ctx, record.Key{Sink: "web", Name: "k"}, api.PutRequest{Payload: json.RawMessage(`1`), IfGeneration: &seven})
			return err
		}, api.CodeConflict, "put web/k: "},
		{"a control character", func() error { return c.Retry(ctx, record.Key{Sink: "web", Name: "a\x00"}) }, api.CodeInvalid, "control character"},
		{"nothing to accept", func() error {
			key := record.Key{Sink: "web", Name: "fine"}
			r, err := c.Put(ctx, key, put(`1`))
			if err == nil {
				_, err = c.Wait(ctx, key, r.Generation)
			}
			return errors.Join(err, c.Accept(ctx, key))
		}, api.CodeNothingToDo, "accept web/fine: "},
		{"a payload that is no JSON", func() error { _, err := c.Put(ctx, record.Key{Sink: "web", Name: "k"}, put(`{`)); return err }, "", "is not JSON"},
	} {
		err := x.do()
		if err == nil || api.CodeOf(err) != x.code || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %s %q, want %s saying %q", x.name, api.CodeOf(err), err, x.code, x.says)
		}
	}
}

func TestACallerIsToldToGiveATokenOnlyWhereThatIsWhatIsMissing(t *testing.T) {
	for hint, says := range map[string]string{
		api.HintToken:                              "; give a token with --token-file or $PAWL_TOKEN",
		"connect again with a certificate":         "; connect again with a certificate",
		"add a client below server.socket_clients": "; add a client below server.socket_clients",
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusUnauthorized)
			_ = json.NewEncoder(w).Encode(api.NewProblem(http.StatusUnauthorized, api.CodeUnauthorized, "you are not let in", hint))
		}))
		c, err := client.New(client.Options{Address: srv.URL})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Version(t.Context()); err == nil || !strings.HasSuffix(err.Error(), says) {
			t.Errorf("%v, want one that ends in %q", err, says)
		}
		c.Close()
		srv.Close()
	}
}

func TestADaemonThatDoesNotAnswerIsAnErrorThatSaysWhatToDo(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	for address, says := range map[string]string{
		l.Addr().String():                    "start it with `pawl run`",
		"unix://" + t.TempDir() + "/missing": "start it with `pawl run`",
	} {
		_, err := dial(t, address).Status(t.Context())
		if !errors.Is(err, client.ErrUnreachable) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), address) {
			t.Errorf("%s: %v", address, err)
		}
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	if _, err := dial(t, other.URL).Status(t.Context()); err == nil || !strings.Contains(err.Error(), "404 Not Found, which is no answer of pawl's") {
		t.Errorf("another server: %v", err)
	}
	for _, address := range []string{"ftp://x", "unix://", "http://", "a b"} {
		if _, err := client.New(client.Options{Address: address}); err == nil || !strings.Contains(err.Error(), "write ") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestOperatorsOrdersTakeEffect(t *testing.T) {
	c, _, to := start(t, engine.Options{})
	ctx, key := t.Context(), record.Key{Sink: "web", Name: "k"}
	if err := c.SuspendSink(ctx, "web"); err != nil {
		t.Fatal(err)
	}
	sinks := must[[]api.Sink](t)(c.Sinks(ctx))
	if len(sinks) != 1 || !sinks[0].Suspended || sinks[0].Plugin == "" || sinks[0].Breaker != "closed" {
		t.Errorf("sinks: %+v", sinks)
	}
	must[api.PutResult](t)(c.Put(ctx, key, put(`1`)))
	st := must[api.DaemonStatus](t)(c.Status(ctx))
	if st.Version != "1.2.3" || st.Counts[record.Pending] != 1 || len(st.Headlines) != 1 || st.Store.Epoch == "" {
		t.Errorf("status: %+v", st)
	}
	if err := errors.Join(c.Suspend(ctx, key), c.ResumeSink(ctx, "web"), c.Resume(ctx, key), c.Retry(ctx, key)); err != nil {
		t.Fatal(err)
	}
	if w := must[api.WaitResult](t)(c.Wait(ctx, key, 0)); !w.Done {
		t.Errorf("wait: %+v", w)
	}
	if err := c.Forget(ctx, key); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(ctx, key, client.GetOptions{}); api.CodeOf(err) != api.CodeNotFound || to.objects["k"] != "1" {
		t.Errorf("after forget: %v, and the target has %v", err, to.objects)
	}
	if v := must[api.Version](t)(c.Version(ctx)); v.Version != "1.2.3" || c.Ready(ctx) != nil {
		t.Errorf("version %+v", v)
	}
}

func lines(n int, stop func(i int)) iter.Seq[api.BatchLine] {
	return func(yield func(api.BatchLine) bool) {
		for i := range n {
			line := api.BatchLine{Sink: "web", Key: fmt.Sprintf("k%05d", i), PutRequest: put(fmt.Sprint(i))}
			if i%100 == 99 {
				line.Sink = "wbe"
			}
			if stop != nil {
				stop(i)
			}
			if !yield(line) {
				return
			}
		}
	}
}

func TestABatchIsAnsweredLineByLineInOrder(t *testing.T) {
	c, _, _ := start(t, engine.Options{})
	const n = 5000
	next := 0
	for a, err := range c.Batch(t.Context(), lines(n, nil)) {
		if err != nil {
			t.Fatal(err)
		}
		next++
		if bad := next%100 == 0; a.Line != next || bad != (api.CodeOf(problem(a)) == api.CodeUnknownSink) || bad == (a.PutResult != nil) {
			t.Fatalf("answer %d: %+v", next, a)
		}
	}
	if next != n {
		t.Errorf("%d answers, want %d", next, n)
	}
	count := 0
	for _, err := range c.All(t.Context(), client.ListOptions{Sink: "web", Limit: 1000}) {
		if err != nil {
			t.Fatal(err)
		}
		count++
	}
	if count != n-n/100 {
		t.Errorf("%d are stored, want %d", count, n-n/100)
	}
}

func problem(a api.BatchAnswer) error {
	if a.Error == nil {
		return nil
	}
	return a.Error
}

func TestALinesAnswerComesWhileTheNextIsWaitedFor(t *testing.T) {
	c, _, _ := start(t, engine.Options{})
	answered := make(chan int, 10)
	answered <- 0
	for a, err := range c.Batch(t.Context(), lines(5, func(i int) {
		if got := <-answered; got != i { // the next line is made when the last was answered
			t.Errorf("line %d is made when %d are answered", i+1, got)
		}
	})) {
		if err != nil {
			t.Fatal(err)
		}
		answered <- a.Line
	}
}

func TestABatchThatIsCutSaysSo(t *testing.T) {
	rude := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprintln(w, `{"line":1,"generation":1,"changed":true,"replaced":false}`)
	}))
	defer rude.Close()
	var cut error
	for _, err := range dial(t, rude.URL).Batch(t.Context(), lines(3, nil)) {
		cut = err
	}
	if cut == nil || !strings.Contains(cut.Error(), "cut after line 1") {
		t.Errorf("with two answers missing: %v", cut)
	}
	strict := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, `{"line":0,"error":{"code":"too-large","status":413,"detail":"the batch was cut after line 0","hint":"send less"}}`)
	}))
	defer strict.Close()
	for _, err := range dial(t, strict.URL).Batch(t.Context(), lines(3, nil)) {
		cut = err
	}
	if api.CodeOf(cut) != api.CodeTooLarge || strings.Count(cut.Error(), "cut after line") != 1 {
		t.Errorf("cut by the daemon, which says so itself: %v", cut)
	}
	c, e, _ := start(t, engine.Options{})
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for a, err := range c.Batch(t.Context(), lines(3, nil)) {
		if err != nil {
			t.Fatal(err)
		}
		if api.CodeOf(problem(a)) != api.CodeClosed {
			t.Errorf("with the engine closed: %+v", a)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	own := errors.New("enough")
	var last error
	for _, err := range c.Batch(ctx, lines(1_000_000, func(i int) {
		if i == 10 {
			cancel(own)
		}
	})) {
		last = err
	}
	if !errors.Is(last, own) {
		t.Errorf("with its context cancelled: %v", last)
	}
}

func TestAWatchGoesOnWithoutAGapWhenTheDaemonIsAwayForAWhile(t *testing.T) {
	e, _ := open(t, engine.Options{})
	path := filepath.Join(t.TempDir(), "s")
	stop := serve(t, e, path)
	c := dial(t, "unix://"+path)
	store := func(name string) {
		if _, err := e.Put(t.Context(), engine.Put{Key: record.Key{Sink: "web", Name: name}, Payload: []byte("1")}); err != nil {
			t.Error(err)
		}
	}
	page := must[api.Page](t)(c.List(t.Context(), client.ListOptions{}))
	store("1")
	var acked []string
	for event, err := range c.Watch(t.Context(), client.WatchOptions{From: page.Token}) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Resource.Status.Phase != record.AckedPhase {
			continue
		}
		acked = append(acked, event.Resource.Key)
		if len(acked) == 1 {
			stop()
			store("2") // while nobody can see it
			store("3")
			stop = serve(t, e, path)
		}
		if len(acked) == 3 {
			break
		}
	}
	slices.Sort(acked)
	if !slices.Equal(acked, []string{"1", "2", "3"}) {
		t.Errorf("seen %v", acked)
	}
}

func TestAWatchThatCantGoOnSaysSo(t *testing.T) {
	c, _, _ := start(t, engine.Options{})
	for name, x := range map[string]struct {
		o    client.WatchOptions
		code api.Code
	}{
		"a foreign token": {client.WatchOptions{From: "other.1"}, api.CodeWatchExpired},
		"a misspelt sink": {client.WatchOptions{Sink: "wbe"}, api.CodeUnknownSink},
	} {
		n := 0
		for _, err := range c.Watch(t.Context(), x.o) {
			if n++; api.CodeOf(err) != x.code {
				t.Errorf("%s: %v, want %s", name, err, x.code)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d values, want the error alone", name, n)
		}
	}
	for _, err := range dial(t, "unix://"+t.TempDir()+"/missing").Watch(t.Context(), client.WatchOptions{}) {
		if !errors.Is(err, client.ErrUnreachable) {
			t.Errorf("no daemon from the start: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range c.Watch(ctx, client.WatchOptions{}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a context that ended: %v", err)
		}
	}
}

// TestAWatchThatIsHeldBackComesBackWhenTheDaemonSays: one that was open, and after the
// seconds of the answer; one that begins says what is in its way.
func TestAWatchThatIsHeldBackComesBackWhenTheDaemonSays(t *testing.T) {
	var asked atomic.Int64
	var heldBack time.Time
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := asked.Add(1)
		switch {
		case n == 2:
			heldBack = time.Now()
			fallthrough
		case n == 4:
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, `{"status":429,"code":"too-many-requests","detail":"too many watches","retryAfter":1}`)
		default:
			if n == 3 && r.FormValue("from") != "t1" {
				t.Errorf("it comes back from %q", r.FormValue("from"))
			}
			fmt.Fprintf(w, "event: resource\nid: t%d\ndata: {}\n\n", n)
		}
	}))
	t.Cleanup(hs.Close)
	c := dial(t, hs.URL)
	seen := 0
	for _, err := range c.Watch(t.Context(), client.WatchOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if seen++; seen == 2 {
			break
		}
	}
	if passed := time.Since(heldBack); passed < time.Second {
		t.Errorf("it came back after %v, and was told to wait a second", passed)
	}
	for _, err := range c.Watch(t.Context(), client.WatchOptions{}) {
		if api.CodeOf(err) != api.CodeTooManyRequests {
			t.Errorf("one that begins: %v", err)
		}
	}
}

func TestAWaitSaysHowItEnded(t *testing.T) {
	c, _, _ := start(t, engine.Options{})
	ctx, key := t.Context(), record.Key{Sink: "web", Name: "bad"}
	must[api.PutResult](t)(c.Put(ctx, key, put(`1`)))
	if w := must[api.WaitResult](t)(c.Wait(ctx, key, 0)); w.Done || w.Phase != record.Failed || w.Reason != record.ReasonRejected || !strings.Contains(w.Message, "no such field") {
		t.Errorf("got %+v", w)
	}
	if _, err := c.Wait(ctx, record.Key{Sink: "web", Name: "nothing"}, 0); api.CodeOf(err) != api.CodeNotFound {
		t.Logf("wait for what does not exist: %v", err)
	}
}
