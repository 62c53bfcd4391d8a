package conformance

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
)

// changes is what the scripted target tells of what changed there.
type changes struct {
	Next    string   `json:"next"`
	Reset   bool     `json:"reset"`
	More    bool     `json:"more"`
	Changes []change `json:"changes"`
}

type change struct {
	Path string          `json:"path"`
	Body json.RawMessage `json:"body"` // null: it is gone, or no JSON
}

// tell answers what changed after the from first changes; s.mu is held.
func (s *store) tell(w http.ResponseWriter, from, limit string) {
	at, err := strconv.Atoi(from)
	out := changes{Reset: err != nil || at < 0 || at > len(s.log), Changes: []change{}}
	paths := s.log
	if out.Reset {
		at = 0
	}
	paths = paths[at:]
	if n, err := strconv.Atoi(limit); err == nil && n > 0 && n < len(paths) {
		paths, out.More = paths[:n], true
	}
	out.Next = strconv.Itoa(at + len(paths))
	for i, path := range paths {
		if slices.Contains(paths[i+1:], path) {
			continue // a later one tells
		}
		c := change{Path: path}
		if o, there := s.objects[path]; there && json.Valid(o.body) {
			c.Body = s.withAdded(o.body)
		}
		out.Changes = append(out.Changes, c)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // whoever is gone reads no error either
}
