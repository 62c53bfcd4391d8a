package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// errPrecondition says that an If-Match or If-None-Match did not hold.
var errPrecondition = errors.New("the precondition failed: the object is not as the request expects")

// object is one stored object. It is also what a file holds, as JSON.
type object struct {
	Key         string `json:"key"`
	ContentType string `json:"contentType"`
	Body        []byte `json:"body"`
}

// etag is a strong entity tag of the body.
func (o *object) etag() string {
	sum := sha256.Sum256(o.Body)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// store keeps objects in memory and each in a file of its own. A file is
// written beside its place and renamed, so that a killed process leaves the old
// object or the new one, never half of one. Nothing is synced: a power cut is
// not what this little server is to be trusted with.
type store struct {
	dir string

	mu      sync.Mutex
	objects map[string]*object
}

const suffix = ".object.json"

func openStore(dir string) (*store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	s := &store{dir: dir, objects: map[string]*object{}}
	names, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var o object
		if err := json.Unmarshal(raw, &o); err != nil {
			return nil, fmt.Errorf("%s is damaged: %w; remove it", name, err)
		}
		s.objects[o.Key] = &o
	}
	return s, nil
}

// file names the file of key. Keys may hold any character, so it is a hash.
func (s *store) file(key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:])+suffix)
}

func (s *store) get(key string) (*object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[key]
	return o, ok
}

func (s *store) list() []*object {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*object, 0, len(s.objects))
	for _, o := range s.objects {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *object) int { return strings.Compare(a.Key, b.Key) })
	return all
}

// put stores o if the precondition holds, and reports whether it is new.
func (s *store) put(o *object, cond precondition) (created bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.objects[o.Key]
	if !cond.holds(old) {
		return false, errPrecondition
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return false, err
	}
	name := s.file(o.Key)
	if err := os.WriteFile(name+".tmp", raw, 0o644); err != nil {
		return false, err
	}
	if err := os.Rename(name+".tmp", name); err != nil {
		return false, err
	}
	s.objects[o.Key] = o
	return old == nil, nil
}

// remove deletes key if the precondition holds, and reports whether it existed.
func (s *store) remove(key string, cond precondition) (existed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.objects[key]
	if !cond.holds(old) {
		return false, errPrecondition
	}
	if old == nil {
		return false, nil
	}
	if err := os.Remove(s.file(key)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	delete(s.objects, key)
	return true, nil
}

// precondition is what the If-Match and If-None-Match headers ask for; "" asks
// for nothing.
type precondition struct{ match, noneMatch string }

func (p precondition) holds(o *object) bool {
	if p.match != "" && (o == nil || !tagMatches(p.match, o.etag())) {
		return false
	}
	return p.noneMatch == "" || o == nil || !tagMatches(p.noneMatch, o.etag())
}

// tagMatches reports whether a header with a list of entity tags names tag.
func tagMatches(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		one = strings.TrimPrefix(strings.TrimSpace(one), "W/")
		if one == "*" || one == tag {
			return true
		}
	}
	return false
}
