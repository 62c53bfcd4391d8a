package conformance

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
)

// maxStoredBytes bounds the body of one object.
const maxStoredBytes = 16 << 20

// store is the scripted target: a key-value service in which every path is an
// object.
//
//	GET, HEAD    the object, or 404
//	PUT, POST    create (201) or replace (200)
//	PATCH        merge into it (RFC 7396); creates it too
//	DELETE       204, or 404
//
// Answers carry a strong ETag of the content and the object's id in the header
// Object-Uid, which a new object of the same path has anew; writes take
// If-Match and If-None-Match.
//
// GET /changes/N tells which objects changed after the N first changes, in their order:
//
//	{"next": "12", "reset": false, "changes": [{"path": "/objects/a", "body": {…}}]}
//
// Of one that is gone the body is null. An N that is no number up to the last one is
// known no more: reset is true, and all that is there is told. As many as ?limit=M says
// come at once, and more says whether there are others.
//
// Of the query nothing counts but locks, which a write takes with it, all or none,
// and where it can't is answered 423: lock=NAME for each, lock-owner=OWNER for who
// takes them, lock-held=true where they are to be that owner's already. DELETE of
// /locks/OWNER gives up all that it holds.
type store struct {
	routes []Route

	mu      sync.Mutex
	objects map[string]object // by escaped path
	locks   map[string]string // owners by lock
	lastUID int
	log     []string                   // paths, in the order of the changes
	adds    map[string]json.RawMessage // fields that the store gives to every JSON object
}

// object is stored; its body is never changed in place.
type object struct {
	body        []byte
	contentType string
	uid         string
}

func (o *object) etag() string {
	sum := sha256.Sum256(o.body)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}

func newStore(routes []Route) *store {
	return &store{routes: routes, objects: map[string]object{}, locks: map[string]string{}}
}

// snapshot returns what the store holds.
func (s *store) snapshot() map[string]object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.objects)
}

// restore makes the store hold what it held at a snapshot, as somebody else
// would who changes the target; objects keep the id that they have now.
func (s *store) restore(objects map[string]object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.objects
	s.objects = maps.Clone(objects)
	for path := range now {
		s.log = append(s.log, path)
	}
	for path := range objects {
		s.log = append(s.log, path)
	}
	for path, o := range s.objects {
		if cur, ok := now[path]; ok {
			o.uid = cur.uid
			s.objects[path] = o
		}
	}
}

// add makes the store give these fields to every JSON object from now on.
func (s *store) add(fields map[string]json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.adds = fields
}

// ServeHTTP serves one object.
func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for i := range s.routes {
		if s.routes[i].serve(w, r) {
			return
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxStoredBytes))
	if err != nil {
		http.Error(w, "the body is too large or was cut off", http.StatusRequestEntityTooLarge)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	path := r.URL.EscapedPath()
	if owner, ok := strings.CutPrefix(path, "/locks/"); ok && r.Method == http.MethodDelete {
		maps.DeleteFunc(s.locks, func(_, by string) bool { return by == owner })
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if from, ok := strings.CutPrefix(path, "/changes/"); ok && r.Method == http.MethodGet {
		s.tell(w, from, r.URL.Query().Get("limit"))
		return
	}
	o, exists := s.objects[path]
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		s.get(w, o, exists)
	case http.MethodPut, http.MethodPost, http.MethodPatch, http.MethodDelete:
		if !holds(r.Header, o, exists) {
			http.Error(w, "the precondition does not hold", http.StatusPreconditionFailed)
			return
		}
		if r.Method == http.MethodDelete && !exists {
			http.Error(w, "no such object", http.StatusNotFound)
			return
		}
		if !s.lock(r.URL.Query()) {
			http.Error(w, "a lock is not to be had", http.StatusLocked)
			return
		}
		if r.Method == http.MethodDelete {
			delete(s.objects, path)
			s.log = append(s.log, path)
			w.WriteHeader(http.StatusNoContent)
			return
		}
		s.put(w, r, path, body)
	default:
		http.Error(w, "use GET, HEAD, PUT, POST, PATCH or DELETE", http.StatusMethodNotAllowed)
	}
}

func (s *store) get(w http.ResponseWriter, o object, exists bool) {
	if !exists {
		http.Error(w, "no such object", http.StatusNotFound)
		return
	}
	body := s.withAdded(o.body)
	h := w.Header()
	h.Set("ETag", o.etag())
	h.Set("Object-Uid", o.uid)
	if o.contentType != "" {
		h.Set("Content-Type", o.contentType)
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // of HEAD, net/http sends none
}

func (s *store) put(w http.ResponseWriter, r *http.Request, path string, body []byte) {
	o, exists := s.objects[path]
	if !exists {
		s.lastUID++
		o.uid = strconv.Itoa(s.lastUID)
	}
	if r.Method == http.MethodPatch {
		merged, err := merge(o.body, body)
		if err != nil {
			http.Error(w, "the patch is no JSON: "+err.Error(), http.StatusBadRequest)
			return
		}
		body = merged
	}
	o.body, o.contentType = body, r.Header.Get("Content-Type")
	s.objects[path] = o
	s.log = append(s.log, path)
	w.Header().Set("ETag", o.etag())
	w.Header().Set("Object-Uid", o.uid)
	if !exists {
		w.WriteHeader(http.StatusCreated)
	}
	_, _ = w.Write([]byte("{}"))
}

// holds evaluates the preconditions of a write.
func holds(h http.Header, o object, exists bool) bool {
	if want := h.Get("If-Match"); want != "" && (!exists || want != "*" && want != o.etag()) {
		return false
	}
	if not := h.Get("If-None-Match"); not != "" && exists && (not == "*" || not == o.etag()) {
		return false
	}
	return true
}

// lock takes a write's locks, or checks that they are held.
func (s *store) lock(q url.Values) bool {
	owner, held := q.Get("lock-owner"), q.Get("lock-held") == "true"
	for _, lock := range q["lock"] {
		if by := s.locks[lock]; by != owner && (held || by != "") {
			return false
		}
	}
	for _, lock := range q["lock"] {
		s.locks[lock] = owner
	}
	return true
}

// withAdded returns body with the fields that the store adds by itself.
func (s *store) withAdded(body []byte) []byte {
	var fields map[string]json.RawMessage
	if len(s.adds) == 0 || json.Unmarshal(body, &fields) != nil || fields == nil {
		return body
	}
	for name, value := range s.adds {
		if _, ok := fields[name]; !ok {
			fields[name] = value
		}
	}
	out, err := json.Marshal(fields)
	if err != nil {
		return body
	}
	return out
}

// merge applies a merge patch (RFC 7396) to a document; an empty document is {}.
func merge(document, patch []byte) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(patch, &fields); err != nil || fields == nil {
		return patch, checkJSON(patch)
	}
	var into map[string]json.RawMessage
	if json.Unmarshal(document, &into) != nil || into == nil {
		into = map[string]json.RawMessage{}
	}
	for name, value := range fields {
		if bytes.Equal(bytes.TrimSpace(value), []byte("null")) {
			delete(into, name)
			continue
		}
		merged, err := merge(into[name], value)
		if err != nil {
			return nil, err
		}
		into[name] = merged
	}
	return json.Marshal(into)
}

func checkJSON(b []byte) error {
	var v any
	return json.Unmarshal(b, &v)
}
