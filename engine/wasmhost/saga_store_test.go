package wasmhost_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"

	"github.com/pawlsync/pawl/engine/upstream"
)

// markedStore is the target of plugins/testguest/saga, which tells what it does.
type markedStore struct {
	mu      sync.Mutex
	last    int
	objects map[string]markedObject // by path
	locks   map[string]string       // run by lock
}

type markedObject struct{ content, etag, uid, mark string }

func (s *markedStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if run, ok := strings.CutPrefix(r.URL.Path, "/runs/"); ok {
		for lock, by := range s.locks {
			if by == run {
				delete(s.locks, lock)
			}
		}
		return
	}
	o, exists := s.objects[r.URL.Path]
	switch {
	case r.Method == http.MethodGet && !exists:
		w.WriteHeader(http.StatusNotFound)
		return
	case r.Method == http.MethodGet:
	case !s.conditions(r, o, exists):
		w.WriteHeader(http.StatusPreconditionFailed)
		return
	case !s.lock(r):
		w.WriteHeader(http.StatusConflict)
		return
	case r.Method == http.MethodDelete:
		delete(s.objects, r.URL.Path)
		return
	default:
		o = s.write(r, o.uid)
	}
	w.Header().Set("ETag", o.etag)
	w.Header().Set("Uid", o.uid)
	w.Header().Set("Mark", o.mark)
	if r.Method == http.MethodGet {
		_, _ = w.Write([]byte(o.content))
	}
}

func (s *markedStore) conditions(r *http.Request, o markedObject, exists bool) bool {
	match, uid := r.Header.Get("If-Match"), r.Header.Get("If-Uid")
	return (match == "" || exists && match == o.etag) && (uid == "" || exists && uid == o.uid) &&
		(r.Header.Get("If-None-Match") == "" || !exists)
}

// lock takes the write's locks, all or none.
func (s *markedStore) lock(r *http.Request) bool {
	run, held := r.Header.Get("Run"), r.Header.Get("Held") == "true"
	for _, lock := range r.Header.Values("Lock") {
		if by := s.locks[lock]; by != run && (held || by != "") {
			return false
		}
	}
	for _, lock := range r.Header.Values("Lock") {
		s.locks[lock] = run
	}
	return true
}

func (s *markedStore) write(r *http.Request, uid string) markedObject {
	s.last++
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	o := markedObject{content: string(body), etag: fmt.Sprintf("%q", strconv.Itoa(s.last)), uid: uid, mark: r.Header.Get("Mark")}
	if uid == "" {
		o.uid = fmt.Sprint("u-", s.last)
	}
	s.objects[r.URL.Path] = o
	return o
}

// do is the store as an upstream, without a network.
func (s *markedStore) do(ctx context.Context, r *upstream.Request) (*upstream.Response, *upstream.Failure) {
	req := httptest.NewRequestWithContext(ctx, r.Method, r.Path, strings.NewReader(string(r.Body)))
	for _, h := range r.Header {
		req.Header.Add(h.Name, h.Value)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, req)
	out := &upstream.Response{Status: w.Code, Body: w.Body.Bytes()}
	for name, values := range w.Header() {
		out.Header = append(out.Header, upstream.Field{Name: name, Value: values[0]})
	}
	return out, nil
}

// object is what the store holds at key; none is the zero value.
func (s *markedStore) object(key string) markedObject {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects["/objects/"+key]
}

// overwrite is a write of somebody else, who knows of no saga.
func (s *markedStore) overwrite(key, content string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(httptest.NewRequest("PUT", "/objects/"+key, strings.NewReader(content)), s.objects["/objects/"+key].uid)
}
