package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/bubble"
)

func waitFor(key record.Key, generation uint64, r engine.WaitResult) func(context.Context, record.Key, uint64) (engine.WaitResult, error) {
	return func(_ context.Context, k record.Key, g uint64) (engine.WaitResult, error) {
		if k != key || g != generation {
			return engine.WaitResult{}, fmt.Errorf("waited for %s at %d", k, g)
		}
		return r, nil
	}
}

func answersOf(t *testing.T, body string) []api.BatchAnswer {
	t.Helper()
	var out []api.BatchAnswer
	d := json.NewDecoder(strings.NewReader(body))
	for {
		var a api.BatchAnswer
		if err := d.Decode(&a); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		out = append(out, a)
	}
}

func TestABadLineSpoilsOnlyItself(t *testing.T) {
	_, f, hs := start(t, Options{PayloadMaxBytes: 300})
	body := strings.Join([]string{
		`{"sink":"web","key":"a","payload":1}`,
		`{"sink":"web","key":"b","payload":}`,
		``,
		`{"sink":"web","key":"c","payload":2,"owners":"x"}`,
		`{"sink":"wbe","key":"d","payload":3}`,
		`{"sink":"web","key":"refused","payload":4}`,
		`{"sink":"web","key":"e","payload":"` + strings.Repeat("x", 70_000) + `"}`,
		`{"key":"f","payload":5}`,
		`{"sink":"web","key":"g","payload":6}`, // and no line break at the end
	}, "\n")
	response, got := ask(t, "POST", hs.URL+"/v1/batch", body)
	if ct := response.Header.Get("Content-Type"); response.StatusCode != 200 || ct != "application/x-ndjson" {
		t.Fatalf("%s %s", response.Status, ct)
	}
	want := []struct {
		line int
		code api.Code
		says string
	}{
		{1, "", ""},
		{2, api.CodeBadRequest, "line 2, column 35: this is not JSON"},
		{4, api.CodeBadRequest, `did you mean "owner"?`},
		{5, api.CodeUnknownSink, `did you mean "web"?`},
		{6, api.CodeConflict, "get it again"},
		{7, api.CodeTooLarge, "line 7 has 70"},
		{8, api.CodeInvalid, "sink or key is missing"},
		{9, "", ""},
	}
	as := answersOf(t, got)
	if len(as) != len(want) {
		t.Fatalf("%d answers, want %d: %s", len(as), len(want), got)
	}
	for i, w := range want {
		a := as[i]
		switch {
		case a.Line != w.line, (w.code == "") != (a.Error == nil), (a.PutResult == nil) == (a.Error == nil):
			t.Errorf("answer %d: %+v, want line %d %s", i, a, w.line, w.code)
		case a.Error != nil && (a.Error.Code != w.code || a.Error.Line != w.line || !strings.Contains(a.Error.Error(), w.says)):
			t.Errorf("line %d: %s at line %d: %q, want %s saying %q", a.Line, a.Error.Code, a.Error.Line, a.Error, w.code, w.says)
		}
	}
	if len(f.puts) != 2 {
		t.Errorf("stored %+v", f.puts)
	}
}

// feed is a request whose body the test writes as it goes.
func feed(t *testing.T, url string) (*io.PipeWriter, *bufio.Reader) {
	t.Helper()
	body, w := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), "POST", url+"/v1/batch", body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close(); response.Body.Close() })
	return w, bufio.NewReader(response.Body)
}

func TestALineIsAnsweredBeforeTheNextIsSent(t *testing.T) {
	_, _, hs := start(t, Options{})
	w, out := feed(t, hs.URL)
	line, half := `{"sink":"web","key":"k","payload":1}`, 12
	fmt.Fprint(w, line[:half])
	for i := range 3 {
		fmt.Fprint(w, line[half:]+"\n"+line[:half])
		if got, err := out.ReadString('\n'); err != nil || !strings.HasPrefix(got, fmt.Sprintf(`{"line":%d,"generation":%d,`, i+1, i+1)) {
			t.Fatalf("after line %d: %q %v", i+1, got, err)
		}
	}
}

func TestLinesThatAreThereArePutTogetherWithinBounds(t *testing.T) {
	_, f, hs := start(t, Options{BatchMax: 7})
	_, got := ask(t, "POST", hs.URL+"/v1/batch", strings.Repeat(`{"sink":"web","key":"k","payload":1}`+"\n", 100))
	if n := len(answersOf(t, got)); n != 100 {
		t.Errorf("%d answers", n)
	}
	if largest := slices.Max(f.batches); largest != 7 {
		t.Errorf("put in groups of %v, want 7 at most and once", f.batches)
	}
}

func TestAClientThatReadsNothingUntilItSentAllIsAnswered(t *testing.T) {
	_, f, hs := start(t, Options{})
	f.batchErr = fmt.Errorf("%w: %s", engine.ErrInvalid, strings.Repeat("x", 1000)) // long answers
	const lines = 5_000                                                             // their answers are more than sockets buffer
	conn, err := net.Dial("tcp", strings.TrimPrefix(hs.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := strings.Repeat(`{"sink":"web","key":"k","payload":1}`+"\n", lines)
	fmt.Fprintf(conn, "POST /v1/batch HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", len(body))
	for _, line := range strings.SplitAfter(body, "\n") {
		if _, err := io.WriteString(conn, line); err != nil {
			t.Fatal(err)
		}
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(response.Body)
	if n := bytes.Count(got, []byte("\n")); n != lines || err != nil {
		t.Errorf("%d answers and %v, want %d", n, err, lines)
	}
}

func TestAnswersWaitForAClientUpToABound(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a, piece := newAnswers(), bytes.Repeat([]byte("x"), answersBytes/4)
		for range 5 { // nobody takes any yet
			a.add(piece)
		}
		more := false
		go func() { a.add(piece); more = true }()
		synctest.Wait()
		if more {
			t.Error("more than the bound waits in memory")
		}
		if got := len(a.take()); got != 5*len(piece) {
			t.Errorf("%d bytes, want %d", got, 5*len(piece))
		}
		synctest.Wait()
		a.close()
		if got := len(a.take()); !more || got != len(piece) || a.take() != nil {
			t.Errorf("after the first were taken: %v, %d bytes", more, got)
		}
		a.fail()
		for range 9 { // nobody will
			a.add(piece)
		}
	})
}

func TestABatchOverTheLimitIsCutAndSaysAfterWhichLine(t *testing.T) {
	_, f, hs := start(t, Options{RequestMaxBytes: 100})
	response, got := ask(t, "POST", hs.URL+"/v1/batch", strings.Repeat(`{"sink":"web","key":"k","payload":1}`+"\n", 10))
	if !response.Close {
		t.Error("the connection stays open: what is left of the body would be taken for the next request")
	}
	as := answersOf(t, got)
	last := as[len(as)-1]
	if len(as) != 3 || len(f.puts) != 2 || last.Line != 0 || last.Error.Code != api.CodeTooLarge || !strings.Contains(last.Error.Detail, "cut after line 2") {
		t.Errorf("got %s", got)
	}
}

func TestALineThatIsTooLongForABatchIsNotToBeSentAgain(t *testing.T) {
	_, _, hs := start(t, Options{RequestMaxBytes: 200_000, PayloadMaxBytes: 300})
	_, got := ask(t, "POST", hs.URL+"/v1/batch", `{"sink":"web","key":"k","payload":1}`+"\n"+`{"sink":"web","key":"k","payload":"`+strings.Repeat("x", 300_000)+`"}`+"\n")
	as := answersOf(t, got)
	last := as[len(as)-1].Error
	if last.Code != api.CodeTooLarge || !strings.Contains(last.Detail, "line 2 has more than the") || strings.Contains(last.Hint, "send the rest") {
		t.Errorf("got %s", got)
	}
}

func TestABatchThatTheEngineRefusesAsAWholeIsAnsweredLineByLine(t *testing.T) {
	_, f, hs := start(t, Options{})
	f.batchErr = &engine.Error{Op: "put batch", Err: engine.ErrNoSpace, Hint: "free some space"}
	_, got := ask(t, "POST", hs.URL+"/v1/batch", strings.Repeat(`{"sink":"web","key":"k","payload":1}`+"\n", 3))
	as := answersOf(t, got)
	if len(as) != 3 {
		t.Fatalf("got %s", got)
	}
	for i, a := range as {
		if a.Line != i+1 || a.Error == nil || a.Error.Code != api.CodeNoSpace || a.Error.Line != i+1 {
			t.Errorf("answer %d: %+v", i, a)
		}
	}
}

func TestABatchEndsWhenTheServerStops(t *testing.T) {
	s, _, hs := start(t, Options{})
	w, out := feed(t, hs.URL)
	fmt.Fprintln(w, `{"sink":"web","key":"k","payload":1}`)
	if _, err := out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	s.stop(errStopping)
	rest, err := io.ReadAll(out)
	as := answersOf(t, string(rest))
	if err != nil || len(as) != 1 || as[0].Line != 0 || as[0].Error.Code != api.CodeClosed {
		t.Errorf("got %s, %v", rest, err)
	}
}

func TestABodyThatDoesNotComeIsNotWaitedForForEver(t *testing.T) {
	_, _, hs := start(t, Options{IOTimeout: 50 * time.Millisecond})
	body, w := io.Pipe()
	defer w.Close()
	r, err := http.NewRequestWithContext(t.Context(), "PUT", hs.URL+"/v1/sinks/web/resource?key=k", body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	got, _ := io.ReadAll(response.Body)
	if p := problemOf(t, response, string(got)); p.Status != http.StatusRequestTimeout {
		t.Errorf("got %s", got)
	}
}

func TestTheTimeForABodyDoesNotBoundWhatFollows(t *testing.T) {
	const timeout = 50 * time.Millisecond
	_, f, hs := start(t, Options{IOTimeout: timeout})
	f.beforePut = func(ctx context.Context) {
		select {
		case <-ctx.Done():
			t.Errorf("the request ended while the engine was at it: %v", context.Cause(ctx))
		case <-time.After(3 * timeout / 2):
		}
	}
	if response, body := ask(t, "PUT", hs.URL+"/v1/sinks/web/resource?key=k", `{"payload": 1}`); response.StatusCode != 200 {
		t.Errorf("%s %s", response.Status, body)
	}
}

func TestABatchWhoseClientFallsSilentIsEnded(t *testing.T) {
	_, _, hs := start(t, Options{IOTimeout: 50 * time.Millisecond})
	w, out := feed(t, hs.URL)
	fmt.Fprintln(w, `{"sink":"web","key":"k","payload":1}`)
	got, err := io.ReadAll(out)
	as := answersOf(t, string(got))
	if err != nil || len(as) != 2 || as[1].Line != 0 || !strings.Contains(as[1].Error.Detail, "no more came for 200ms after line 1") {
		t.Errorf("got %s, %v", got, err)
	}
}

// follow opens a watch and returns its lines.
func follow(t *testing.T, url string, header ...string) *bufio.Reader {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	if ct := response.Header.Get("Content-Type"); ct != "text/event-stream" {
		t.Fatalf("%s %s", response.Status, ct)
	}
	return bufio.NewReader(response.Body)
}

// nextEvent returns the lines of the next event.
func nextEvent(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	var b bytes.Buffer
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("%v after %q", err, b.String())
		}
		if line == "\n" {
			return b.String()
		}
		b.WriteString(line)
	}
}

func TestAWatchShowsWhatChangesAndResumesByToken(t *testing.T) {
	_, _, hs := start(t, Options{})
	ask(t, "PUT", hs.URL+"/v1/sinks/web/resource?key=before", `{"payload": 1}`)
	live := follow(t, hs.URL+"/v1/watch")
	if got := nextEvent(t, live); got != "event: ready\nid: epoch.1\ndata: {}\n" {
		t.Errorf("first %q", got)
	}
	ask(t, "PUT", hs.URL+"/v1/sinks/web/resource?key=k", `{"payload": "secret"}`)
	ask(t, "DELETE", hs.URL+"/v1/sinks/web/resource?key=k", "")
	wantPut := "event: resource\nid: epoch.2\ndata: {"
	wantGone := "event: removed\nid: epoch.3\ndata: {\"removed\":true,"
	put := nextEvent(t, live)
	if gone := nextEvent(t, live); !strings.HasPrefix(put, wantPut) || !strings.HasPrefix(gone, wantGone) {
		t.Errorf("got %q and %q", put, gone)
	}
	if strings.Contains(put, "secret") || strings.Contains(put, "history") || !strings.Contains(put, `"key":"k"`) {
		t.Errorf("the event shows %s", put)
	}
	for name, again := range map[string]*bufio.Reader{
		"from":          follow(t, hs.URL+"/v1/watch?from=epoch.2"),
		"Last-Event-ID": follow(t, hs.URL+"/v1/watch?from=epoch.0", "Last-Event-ID", "epoch.2"),
	} {
		nextEvent(t, again) // ready
		if got := nextEvent(t, again); !strings.HasPrefix(got, wantGone) {
			t.Errorf("resumed by %s: %q", name, got)
		}
	}
}

func TestAWatchFromATokenThatIsNotValidIsRefused(t *testing.T) {
	_, _, hs := start(t, Options{})
	response, body := ask(t, "GET", hs.URL+"/v1/watch?from=other-store", "")
	if p := problemOf(t, response, body); p.Status != http.StatusGone || p.Code != api.CodeWatchExpired {
		t.Errorf("got %s", body)
	}
}

func TestAWatchWhoseTokenStopsBeingValidIsReset(t *testing.T) {
	_, f, hs := start(t, Options{})
	r := follow(t, hs.URL+"/v1/watch")
	nextEvent(t, r) // ready
	f.endWatches(fmt.Errorf("%w: fell behind", engine.ErrWatchExpired))
	got := nextEvent(t, r)
	if !strings.HasPrefix(got, "event: reset\ndata: {") || !strings.Contains(got, `"code":"watch-expired"`) {
		t.Errorf("got %q", got)
	}
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("and went on: %q %v", rest, err)
	}
}

func TestAnIdleWatchIsKeptAlive(t *testing.T) {
	_, _, hs := start(t, Options{Heartbeat: time.Millisecond})
	r := follow(t, hs.URL+"/v1/watch")
	nextEvent(t, r) // ready
	if got := nextEvent(t, r); got != ": still here\n" {
		t.Errorf("got %q", got)
	}
}

func TestAWatchEndsWithItsEngineAndWithTheServer(t *testing.T) {
	s, _, hs := start(t, Options{})
	r := follow(t, hs.URL+"/v1/watch")
	nextEvent(t, r) // ready
	s.stop(errStopping)
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("at the server's stop: %q %v", rest, err)
	}
	_, f, second := start(t, Options{})
	r = follow(t, second.URL+"/v1/watch")
	nextEvent(t, r) // ready
	f.endWatches(fmt.Errorf("watch: %w", engine.ErrClosed))
	if got := nextEvent(t, r); !strings.HasPrefix(got, "event: error\ndata: {") || !strings.Contains(got, `"code":"closed"`) {
		t.Errorf("at the engine's end: %q", got)
	}
}

// brokenWriter is a client that takes nothing any more once broken is set.
type brokenWriter struct {
	*httptest.ResponseRecorder
	broken atomic.Bool
}

func (w *brokenWriter) Write(b []byte) (int, error) {
	if w.broken.Load() {
		return 0, errors.New("broken pipe")
	}
	return w.ResponseRecorder.Write(b)
}

func TestAWatchIsOverOnlyWhenTheEnginesIteratorIs(t *testing.T) {
	for name, leave := range map[string]func(*fake, *brokenWriter, context.CancelFunc){
		"the client leaves": func(_ *fake, _ *brokenWriter, cancel context.CancelFunc) { cancel() },
		"the client takes nothing": func(f *fake, w *brokenWriter, _ context.CancelFunc) {
			w.broken.Store(true)
			_, _ = f.Put(t.Context(), engine.Put{Key: record.Key{Sink: "web", Name: "k"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				f := newFake()
				f.holdWatch = make(chan struct{})
				s, err := New(Options{Sagas: noSagas(), Engine: f})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				w, over := &brokenWriter{ResponseRecorder: httptest.NewRecorder()}, false
				go func() {
					s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "http://localhost/v1/watch", nil))
					over = true
				}()
				synctest.Wait()
				leave(f, w, cancel)
				synctest.Wait()
				if over {
					t.Error("the request ended before the iterator, which would be left behind at shutdown")
				}
				close(f.holdWatch)
				synctest.Wait()
				if !over || f.watchers != 0 {
					t.Errorf("over is %v with %d iterators left", over, f.watchers)
				}
				cancel()
			})
		})
	}
}
