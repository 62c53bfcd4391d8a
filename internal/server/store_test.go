package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/pawlsync/pawl/internal/api"
)

// fakeStore answers with what it is told.
type fakeStore struct {
	mu    sync.Mutex
	since api.StoreSince // of the last backup
	write []string       // of the next stream
	err   error
}

func (f *fakeStore) Backup(_ context.Context, w io.Writer, since api.StoreSince) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since = since
	for _, part := range f.write {
		if _, err := io.WriteString(w, part); err != nil {
			return err
		}
	}
	return f.err
}

func (f *fakeStore) Export(ctx context.Context, w io.Writer, status bool) error {
	if status {
		_, err := io.WriteString(w, "with status\n")
		return err
	}
	return f.Backup(ctx, w, api.StoreSince{})
}

func (f *fakeStore) Compact(context.Context) error { return f.err }

func (f *fakeStore) Details(context.Context) (api.StoreDetails, error) {
	return api.StoreDetails{Directory: "/store", Resources: 3, Sinks: []api.StoreSink{}}, f.err
}

func TestTheStoreIsStreamed(t *testing.T) {
	f := &fakeStore{write: []string{"one, ", "two"}}
	_, _, hs := start(t, Options{Store: f})
	r, body := ask(t, "GET", hs.URL+"/v1/store/backup?sinceEpoch=e&sinceRevision=7&sinceVersion=3", "")
	if r.StatusCode != 200 || body != "one, two" || r.Header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("%s, %q, %v", r.Status, body, r.Header)
	}
	if want := (api.StoreSince{Epoch: "e", Revision: 7, Version: 3}); f.since != want {
		t.Errorf("since %+v, want %+v", f.since, want)
	}
	if r, body := ask(t, "GET", hs.URL+"/v1/store/export?status=true", ""); body != "with status\n" || r.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("export: %q, %v", body, r.Header)
	}
	for _, call := range []string{"GET /v1/store", "POST /v1/store/compact"} {
		method, path, _ := strings.Cut(call, " ")
		if r, body := ask(t, method, hs.URL+path, ""); r.StatusCode != 200 || !strings.Contains(body, `"resources":3`) {
			t.Errorf("%s: %s, %s", call, r.Status, body)
		}
	}
}

// A stream that fails before its first byte is a problem; one that fails later is cut
// off, so that nobody takes a part for the whole.
func TestAFailedStreamIsNeverTakenForAWholeOne(t *testing.T) {
	f := &fakeStore{err: api.NewProblem(409, api.CodeConflict, "make a full one", "")}
	_, _, hs := start(t, Options{Store: f})
	if r, body := ask(t, "GET", hs.URL+"/v1/store/backup", ""); r.StatusCode != 409 || !strings.Contains(body, "make a full one") {
		t.Errorf("%s, %s", r.Status, body)
	}
	f.write, f.err = []string{"some of it"}, errors.New("the disk broke")
	r, err := http.Get(hs.URL + "/v1/store/backup")
	if err != nil {
		return // cut off before the head of the answer was sent
	}
	defer r.Body.Close()
	if body, err := io.ReadAll(r.Body); err == nil {
		t.Errorf("%q came as a whole answer", body)
	}
}
