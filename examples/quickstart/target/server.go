package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

const maxBodyBytes = 1 << 20

// modes lists the ways in which the target can be told to answer.
var modes = []string{"ok", "refuse", "error500", "slow", "hang"}

// control is the body of POST /control.
type control struct {
	Mode  string `json:"mode"`
	Delay string `json:"delay,omitempty"` // of mode slow, as in "200ms"; defaults to 1s
}

// counts are the requests that one key got.
type counts struct {
	Gets    int `json:"gets"`
	Puts    int `json:"puts"`
	Deletes int `json:"deletes"`
	Refused int `json:"refused"` // of any method, because of the mode
}

// stats is the answer of GET /control/stats.
type stats struct {
	Mode    string            `json:"mode"`
	Objects int               `json:"objects"`
	Total   counts            `json:"total"` // since the start
	Keys    map[string]counts `json:"keys"`  // the same per key
}

// listed is one element of GET /objects.
type listed struct {
	Key   string `json:"key"`
	ETag  string `json:"etag"`
	Bytes int    `json:"bytes"`
}

type server struct {
	store *store

	mu      sync.Mutex
	mode    string
	delay   time.Duration
	changed chan struct{} // closed when the mode changes, so that a hung request goes on
	keys    map[string]*counts
}

func newServer(s *store) *server {
	return &server{store: s, mode: "ok", changed: make(chan struct{}), keys: map[string]*counts{}}
}

// ServeHTTP routes by the escaped path: a mux would clean a key such as "a//b".
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	switch escaped, isObject := strings.CutPrefix(path, "/objects/"); {
	case isObject && escaped != "":
		key, err := url.PathUnescape(escaped)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.serveObject(w, r, key)
	case path == "/objects" && r.Method == http.MethodGet:
		s.serveList(w)
	case path == "/control" && r.Method == http.MethodPost:
		s.serveControl(w, r)
	case path == "/control/stats" && r.Method == http.MethodGet:
		writeJSON(w, s.stats())
	default:
		http.Error(w, "there is GET /objects, GET, PUT and DELETE /objects/{key}, POST /control and GET /control/stats", http.StatusNotFound)
	}
}

func (s *server) serveObject(w http.ResponseWriter, r *http.Request, key string) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	if !s.misbehave(w, r, key) {
		return
	}
	cond := precondition{match: r.Header.Get("If-Match"), noneMatch: r.Header.Get("If-None-Match")}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		s.getObject(w, r, key, cond)
	case http.MethodPut:
		s.putObject(w, &object{Key: key, ContentType: r.Header.Get("Content-Type"), Body: body}, cond)
	case http.MethodDelete:
		s.deleteObject(w, key, cond)
	default:
		w.Header().Set("Allow", "GET, HEAD, PUT, DELETE")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	}
}

func (s *server) getObject(w http.ResponseWriter, r *http.Request, key string, cond precondition) {
	s.count(key, func(c *counts) { c.Gets++ })
	o, ok := s.store.get(key)
	if !ok {
		http.Error(w, "no such object", http.StatusNotFound)
		return
	}
	w.Header().Set("ETag", o.etag())
	if !cond.holds(o) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if o.ContentType != "" {
		w.Header().Set("Content-Type", o.ContentType)
	}
	if r.Method != http.MethodHead {
		_, _ = w.Write(o.Body)
	}
}

func (s *server) putObject(w http.ResponseWriter, o *object, cond precondition) {
	s.count(o.Key, func(c *counts) { c.Puts++ })
	created, err := s.store.put(o, cond)
	switch {
	case errors.Is(err, errPrecondition):
		http.Error(w, err.Error(), http.StatusPreconditionFailed)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.Header().Set("ETag", o.etag())
		if created {
			w.WriteHeader(http.StatusCreated)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *server) deleteObject(w http.ResponseWriter, key string, cond precondition) {
	s.count(key, func(c *counts) { c.Deletes++ })
	existed, err := s.store.remove(key, cond)
	switch {
	case errors.Is(err, errPrecondition):
		http.Error(w, err.Error(), http.StatusPreconditionFailed)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case !existed:
		http.Error(w, "no such object", http.StatusNotFound)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *server) serveList(w http.ResponseWriter) {
	objects := s.store.list()
	out := make([]listed, len(objects))
	for i, o := range objects {
		out[i] = listed{Key: o.Key, ETag: o.etag(), Bytes: len(o.Body)}
	}
	writeJSON(w, out)
}

// misbehave does what the mode says and reports whether the request is to be served.
func (s *server) misbehave(w http.ResponseWriter, r *http.Request, key string) bool {
	s.mu.Lock()
	mode, delay, changed := s.mode, s.delay, s.changed
	s.mu.Unlock()
	switch mode {
	case "slow":
		time.Sleep(delay) // and then do it, even for a client that has gone, as real servers do
		return true
	case "hang":
		select {
		case <-changed:
			return true
		case <-r.Context().Done():
			return false
		}
	case "ok":
		return true
	}
	s.count(key, func(c *counts) { c.Refused++ })
	if mode == "error500" {
		http.Error(w, "told to fail by POST /control", http.StatusInternalServerError)
		return false
	}
	dropConnection(w)
	return false
}

// dropConnection ends the connection without an answer, by a reset where it can.
func dropConnection(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2: net/http resets the stream
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

func (s *server) serveControl(w http.ResponseWriter, r *http.Request) {
	var c control
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	dec.DisallowUnknownFields()
	err := dec.Decode(&c)
	if err == nil {
		err = s.setMode(c)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *server) setMode(c control) error {
	if !slices.Contains(modes, c.Mode) {
		return fmt.Errorf("unknown mode %q; there are %s", c.Mode, strings.Join(modes, ", "))
	}
	delay := time.Second
	if c.Delay != "" {
		var err error
		if delay, err = time.ParseDuration(c.Delay); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode, s.delay = c.Mode, delay
	close(s.changed)
	s.changed = make(chan struct{})
	return nil
}

func (s *server) count(key string, f func(*counts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys[key] == nil {
		s.keys[key] = &counts{}
	}
	f(s.keys[key])
}

func (s *server) stats() stats {
	objects := len(s.store.list())
	s.mu.Lock()
	defer s.mu.Unlock()
	out := stats{Mode: s.mode, Objects: objects, Keys: map[string]counts{}}
	for key, c := range s.keys {
		out.Keys[key] = *c
		out.Total.Gets += c.Gets
		out.Total.Puts += c.Puts
		out.Total.Deletes += c.Deletes
		out.Total.Refused += c.Refused
	}
	return out
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(v)
}
