package daemon

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/badger"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
)

// watchedTarget is an object store that notes the methods of its requests, by path.
type watchedTarget struct {
	*objects
	mu    sync.Mutex
	calls map[string][]string
}

func newWatchedTarget(t *testing.T) (*watchedTarget, string) {
	w := &watchedTarget{objects: &objects{bodies: map[string]string{}, auth: map[string]bool{}}, calls: map[string][]string{}}
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.calls[r.URL.Path] = append(w.calls[r.URL.Path], r.Method)
		w.mu.Unlock()
		w.ServeHTTP(rw, r)
	}))
	t.Cleanup(srv.Close)
	return w, srv.URL
}

// since returns the methods of requests for path, and forgets them.
func (w *watchedTarget) since(path string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := w.calls[path]
	delete(w.calls, path)
	return calls
}

// backup takes one over the API.
func (d *running) backup(t *testing.T, since api.StoreSince) []byte {
	t.Helper()
	from, err := d.BackupStore(t.Context(), since)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	b, err := io.ReadAll(from)
	if err == nil {
		_, err = badger.VerifyBackup(bytes.NewReader(b), nil, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// settled waits until a resource's status is one that is wanted, as its watchers see it.
func (d *running) settled(t *testing.T, key record.Key, wanted func(*api.Resource) bool) {
	t.Helper()
	page, err := d.List(t.Context(), client.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(page.Items, func(r api.Resource) bool { return r.Key == key.Name }); i >= 0 && wanted(&page.Items[i]) {
		return
	}
	for e, err := range d.Watch(t.Context(), client.WatchOptions{From: page.Token}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Resource.Key == key.Name && wanted(&e.Resource) {
			return
		}
	}
	t.Fatal("the watch ended")
}

// R67: an older backup that is restored holds its sinks, looks at every resource before
// it writes, and writes over a newer target only where the policy says so.
func TestR67_ARestoredBackupWritesOverNothingNewerWithoutThePolicysLeave(t *testing.T) {
	needPlugins(t)
	for _, c := range []struct {
		policy record.ConflictPolicy
		phase  record.Phase
		holds  string // what the target holds in the end
	}{
		{record.SourceWins, record.AckedPhase, `{"n":1}`},
		{record.ReportOnly, record.Drifted, `{"n":2}`},
		{record.TargetWins, record.AckedPhase, `{"n":2}`},
	} {
		t.Run(string(c.policy), func(t *testing.T) {
			target, url := newWatchedTarget(t)
			dir := t.TempDir()
			conf := load(t, write(t, dir, url, ""))
			key := record.Key{Sink: "web", Name: "a"}
			d := begin(t, conf, options())
			put := func(payload string) {
				t.Helper()
				res, err := d.Put(t.Context(), key, api.PutRequest{Payload: json.RawMessage(payload), Conflict: c.policy})
				if err != nil {
					t.Fatal(err)
				}
				if w, err := d.Wait(t.Context(), key, res.Generation); err != nil || !w.Done {
					t.Fatalf("wait: %+v, %v", w, err)
				}
			}
			put(`{"n":1}`)
			backup := d.backup(t, api.StoreSince{})
			put(`{"n":2}`)
			if err := d.stop(); err != nil {
				t.Fatal(err)
			}
			conf.Store.Path = filepath.Join(dir, "restored")
			if _, err := badger.Restore(t.Context(), badger.RestoreOptions{Dir: conf.Store.Path}, bytes.NewReader(backup)); err != nil {
				t.Fatal(err)
			}

			target.since("/o/a")
			d = begin(t, conf, options())
			sinks, err := d.Sinks(t.Context())
			if err != nil || !sinks[0].Suspended || sinks[0].SuspendReason != record.ReasonRestored {
				t.Fatalf("the sink of a restored store is %+v, %v", sinks, err)
			}
			if calls := target.since("/o/a"); len(calls) > 0 {
				t.Errorf("before anybody let it go on the target was asked: %v", calls)
			}
			if err := d.ResumeSink(t.Context(), "web"); err != nil {
				t.Fatal(err)
			}
			if err := d.Retry(t.Context(), key); err != nil && api.CodeOf(err) != api.CodeNothingToDo {
				t.Fatal(err)
			}
			var calls []string
			d.settled(t, key, func(r *api.Resource) bool {
				calls = append(calls, target.since("/o/a")...)
				return len(calls) > 0 && r.Status.Phase == c.phase && (c.holds == `{"n":2}` || target.get("/o/a") == c.holds)
			})
			if calls[0] != http.MethodGet {
				t.Errorf("the first call was a %s, want a look", calls[0])
			}
			if got := target.get("/o/a"); got != c.holds {
				t.Errorf("the target holds %s, want %s", got, c.holds)
			}
		})
	}
}

// Backups over the API hold one moment while Puts go on, and increments what changed;
// a sealed store's folder and backups show nothing.
func TestTheStoreIsBackedUpWhileTheDaemonWorks(t *testing.T) {
	needPlugins(t)
	_, url := newObjects(t)
	dir := t.TempDir()
	keyFile := filepath.Join(dir, "key")
	if err := os.WriteFile(keyFile, []byte(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))), 0o600); err != nil {
		t.Fatal(err)
	}
	conf := load(t, write(t, dir, url, ""))
	conf.Store.EncryptionKeyFile = keyFile
	d := begin(t, conf, options())
	var n atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !stop.Load() {
				key := record.Key{Sink: "web", Name: fmt.Sprint("k", n.Add(1)%50)}
				if _, err := d.Put(t.Context(), key, api.PutRequest{Payload: json.RawMessage(fmt.Sprintf(`{"secret-marker":%d}`, n.Load()))}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	someMore := func() {
		for from := n.Load(); n.Load() < from+80; {
			runtime.Gosched()
		}
	}
	someMore()
	full := d.backup(t, api.StoreSince{})
	someMore()
	head, err := badger.ReadBackupHead(bytes.NewReader(full))
	if err != nil {
		t.Fatal(err)
	}
	more := d.backup(t, api.StoreSince(badger.SinceOf(head)))
	if _, err := d.BackupStore(t.Context(), api.StoreSince{Epoch: "another", Revision: 3}); api.CodeOf(err) != api.CodeConflict {
		t.Errorf("an increment of another store: %v", err)
	}
	stop.Store(true)
	wg.Wait()
	export, err := d.ExportStore(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := io.ReadAll(export)
	if err != nil || !strings.Contains(string(lines), "secret-marker") || !strings.HasPrefix(lastLine(string(lines)), `{"end":{"resources":50}}`) {
		t.Errorf("the export ends with %s, %v", lastLine(string(lines)), err)
	}
	for range 2 {
		details, err := d.CompactStore(t.Context())
		if err != nil || details.Resources != 50 || details.Key == "" || details.Key != head.Key {
			t.Errorf("compacted: %+v, %v", details, err)
		}
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}

	key, err := badger.ReadKey(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	o := badger.RestoreOptions{Dir: filepath.Join(dir, "restored"), Key: key}
	if done, err := badger.Restore(t.Context(), o, bytes.NewReader(full), bytes.NewReader(more)); err != nil || done.Records != 50 {
		t.Errorf("restored: %+v, %v", done, err)
	}
	for _, store := range []string{conf.Store.Path, o.Dir} {
		if r, err := badger.Check(t.Context(), store, key, nil); err != nil || len(r.Problems) > 0 {
			t.Errorf("check: %+v, %v", r, err)
		}
		err := filepath.WalkDir(store, func(path string, e os.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				var b []byte
				if b, err = os.ReadFile(path); bytes.Contains(b, []byte("secret-marker")) {
					t.Errorf("%s shows a payload", path)
				}
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if bytes.Contains(full, []byte("secret-marker")) {
		t.Error("the backup shows a payload")
	}
}

// A status that can't be read is told, and the daemon starts and delivers the rest.
func TestADamagedStatusKeepsNoDaemonFromStarting(t *testing.T) {
	needPlugins(t)
	target, url := newObjects(t)
	dir := t.TempDir()
	conf := load(t, write(t, dir, url, ""))
	marker := strings.Repeat("marker ", 300)
	s, err := badger.Open(badger.Options{Dir: conf.Store.Path, ReserveBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		payload := []byte(`{"n":1}`)
		st := record.Status{Phase: record.Pending}
		if name == "a" {
			st.Message = marker // so that it is in the value log
		}
		err := s.Update(record.Key{Sink: "web", Name: name}, func(outbox.Record) (outbox.Change, error) {
			return outbox.Change{Desired: &record.Desired{Payload: payload, Hash: record.HashOf(payload)}, Status: &st, NewGeneration: true}, nil
		}).Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// Once more: what is damaged in the newest log, Badger cuts off as it opens.
	if s, err = badger.Open(badger.Options{Dir: conf.Store.Path, ReserveBytes: -1}); err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	damaged := 0
	logs, _ := filepath.Glob(filepath.Join(conf.Store.Path, "data", "*.vlog"))
	for _, path := range logs {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if at := bytes.Index(b, []byte(marker)); at >= 0 {
			damaged++
			b[at] ^= 1
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if damaged == 0 {
		t.Fatal("nothing was damaged")
	}
	d := begin(t, conf, options())
	key := record.Key{Sink: "web", Name: "b"}
	d.settled(t, key, func(r *api.Resource) bool { return r.Status.Phase == record.AckedPhase })
	if got := target.get("/o/b"); got != `{"n":1}` {
		t.Errorf("the target holds %q", got)
	}
	page, err := d.List(t.Context(), client.ListOptions{})
	if err != nil || len(page.Items) != 2 || page.Items[0].Status.Reason != record.ReasonDamaged || !strings.Contains(page.Items[0].Status.Message, "the status of web/a") {
		t.Errorf("%+v, %v", page.Items, err)
	}
	if err := d.Forget(t.Context(), record.Key{Sink: "web", Name: "a"}); err != nil {
		t.Error(err)
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
