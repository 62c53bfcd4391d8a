package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

// adapter keeps JSON objects at /objects/KEY. What it remembers, only faults use.
type adapter struct {
	fault    string
	upstream string

	first   map[string][]byte // what was written first, by key
	deleted map[string]bool
	busy    map[string]bool
	runs    map[string]bool // sagas' runs that wrote: whether they were not unlocked since
	polled  map[string]bool // cursors that were asked from
	told    map[string]bool // marks whose write was answered
	leak    [][]byte
	shared  *pawl.Request
}

func (a *adapter) is(fault string) bool { return a.fault == fault }

// Configure reads the fault.
func (a *adapter) Configure(_ context.Context, c pawl.Config) (pawl.Configured, error) {
	var config struct {
		Fault  string `json:"fault"`
		Modest bool   `json:"modest"` // claim nothing that needs not be claimed
	}
	d := json.NewDecoder(bytes.NewReader(c.JSON))
	if !bytes.Contains(c.JSON, []byte(`"config-refused"`)) {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(&config); err != nil {
		return pawl.Configured{}, fmt.Errorf("config: %w", err)
	}
	if config.Fault == "opens" {
		return pawl.Configured{}, errors.New("config: it is never good enough")
	}
	if len(c.Upstreams) != 1 {
		return pawl.Configured{}, errors.New("one upstream is needed")
	}
	a.fault, a.upstream = config.Fault, c.Upstreams[0].Name
	a.first, a.deleted, a.busy = map[string][]byte{}, map[string]bool{}, map[string]bool{}
	a.runs, a.told, a.polled = map[string]bool{}, map[string]bool{}, map[string]bool{}
	m := manifest()
	if !config.Modest {
		if takesIn := a.is("content") || strings.HasPrefix(a.fault, "poll-"); takesIn || a.fault == "" {
			return pawl.Configured{}, nil
		}
		// A fault of what else it does shows in what the target has, too.
		m.ReportsContent = false
		m.Ops = []pawl.Op{pawl.OpObserve, pawl.OpApply, pawl.OpDelete, pawl.OpApplyBatch, pawl.OpUnlock, pawl.OpRestore}
		return pawl.Configured{Manifest: &m}, nil
	}
	m.ApplyConfirms, m.ApplyIdempotent, m.ReportsUID, m.AsFoundComparable, m.BatchMax = false, false, false, false, 0
	m.Mark, m.Lock, m.Undoable, m.ReportsContent = false, false, nil, false
	m.Ops = []pawl.Op{pawl.OpObserve, pawl.OpApply, pawl.OpDelete}
	return pawl.Configured{Manifest: &m}, nil
}

// Observe compares the object with what is desired, at the fields that are
// owned now or were at the last ack.
func (a *adapter) Observe(ctx context.Context, r *pawl.Request) (o pawl.Observation, err error) {
	if a.is("observe-writes-nothing") {
		_, _ = a.send(ctx, r, "DELETE", "/locks/observe", nil)
	}
	resp, err := a.send(ctx, r, "GET", a.path(r), nil)
	if err != nil {
		a.observeOfSaga(&o, r, nil)
		return o, a.looked(r, &o, err)
	}
	a.observeOfSaga(&o, r, resp.Body)
	resp.Body, _ = unmarked(resp.Body)
	a.fill(&o, r, resp)
	if r.Saga != nil && len(r.Payload) == 0 {
		return o, nil // a deletion has nothing to compare
	}
	if len(r.Payload) == 0 {
		o.Content = resp.Body
		return o, nil
	}
	var found, want map[string]json.RawMessage
	if json.Unmarshal(resp.Body, &found) != nil || found == nil {
		o.MatchDesired, o.MatchAcked, o.Differing = pawl.TriOf(a.is("fault-garbage")), pawl.No, []string{"/"}
		return o, nil
	}
	if err := json.Unmarshal(r.Payload, &want); err != nil {
		return o, pawl.Rejected("the payload is no JSON object")
	}
	if r.Saga == nil {
		o.Content = a.content(r, found, want)
	}
	if o.AdapterState, err = owned(want); err != nil {
		return o, err
	}
	o.Differing = a.differing(r, want, found)
	o.MatchDesired = pawl.TriOf(len(o.Differing) == 0)
	if r.Acked != nil {
		o.MatchAcked = pawl.TriOf(a.hash(resp.Body) == hex.EncodeToString(r.Acked.ContentHash))
	}
	for _, at := range r.Attempted {
		if o.MatchAttempted != pawl.Yes {
			o.MatchAttempted = pawl.TriOf(a.hash(resp.Body) == hex.EncodeToString(at.ContentHash))
		}
	}
	a.misjudge(&o, r)
	return o, nil
}

// looked is what Observe answers where there was no object, or no answer.
func (a *adapter) looked(r *pawl.Request, o *pawl.Observation, err error) error {
	if !errors.Is(err, pawl.StatusNotFound) {
		return err
	}
	switch {
	case r.Saga != nil:
	case a.is("observe-absent") && r.Acked == nil:
		return pawl.Rejected("the target knows no such object")
	case a.is("vanished") && r.Acked != nil && !a.deleted[r.Key]:
		o.Exists, o.MatchDesired, o.MatchAcked = true, pawl.Yes, pawl.Yes
	}
	return nil
}

// misjudge makes an observation wrong.
func (a *adapter) misjudge(o *pawl.Observation, r *pawl.Request) {
	switch {
	case a.is("update") && bytes.Equal(a.first[r.Key], r.Payload):
		o.MatchDesired, o.Differing = pawl.Yes, nil
	case a.is("no-op") && r.Acked == nil:
		o.MatchDesired = pawl.No
	case a.is("source-changed") && o.MatchDesired == pawl.No:
		o.MatchAcked = pawl.No
	case a.is("drift") && r.Acked != nil && bytes.Equal(r.Acked.ContentHash, r.ContentHash):
		o.MatchDesired, o.MatchAcked, o.Differing = pawl.Yes, pawl.Yes, nil
	case a.is("replay") && len(r.Attempted) > 0:
		o.MatchAttempted = pawl.No
	}
}

// differing names the fields that differ.
func (a *adapter) differing(r *pawl.Request, want, found map[string]json.RawMessage) (paths []string) {
	for name, value := range want {
		if !sameJSON(value, found[name]) {
			paths = append(paths, "/"+name)
		}
	}
	var before []string
	if r.Acked != nil && !a.is("field-removed") {
		_ = json.Unmarshal(r.Acked.AdapterState, &before) // of another version of this adapter: nothing is known
	}
	if a.is("target-adds") {
		before = slices.Collect(maps.Keys(found))
	}
	for _, name := range before {
		if _, desired := want[name]; !desired && found[name] != nil {
			paths = append(paths, "/"+name)
		}
	}
	slices.Sort(paths)
	return paths
}

func sameJSON(a, b json.RawMessage) bool {
	return b != nil && bytes.Equal(normal(a), normal(b))
}

// normal is a value with sorted keys and without white space.
func normal(raw json.RawMessage) []byte {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return raw
	}
	out, _ := json.Marshal(v) // of what was just decoded: never fails
	return out
}

// fill notes what the object is called, and its content's hash.
func (a *adapter) fill(o *pawl.Observation, r *pawl.Request, resp *pawl.HTTPResponse) {
	o.Exists, o.Ref, o.UID, o.CID = true, a.path(r), resp.Header("Object-Uid"), resp.Header("ETag")
	body := resp.Body
	if resp.Status == 201 || len(body) == 2 { // of a write
		body = r.Payload
	}
	o.AsFound = a.asFound(r, body)
	if a.is("same-identity") {
		o.Object = a.path(r) + "#" + a.hash(body)
	}
}

func (a *adapter) asFound(r *pawl.Request, body []byte) string {
	switch {
	case a.is("as-found"):
		return hex.EncodeToString(r.ContentHash)
	case a.is("as-found-comparable"):
		return strings.ToUpper(a.hash(body))
	}
	return a.hash(body)
}

func (a *adapter) hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Apply writes the object.
func (a *adapter) Apply(ctx context.Context, r *pawl.Request) (o pawl.Observation, err error) {
	if err := a.before(ctx, &r); err != nil {
		return o, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(r.Payload, &fields); err != nil {
		return o, pawl.Rejected("the payload is no JSON object")
	}
	var resp *pawl.HTTPResponse
	if r.Saga != nil {
		resp, err = a.writeOfSaga(ctx, r)
	} else {
		resp, err = a.send(ctx, r, "PUT", a.path(r), r.Payload)
	}
	if err == nil && resp.Status == 202 && !a.is("confirms-202") {
		err = pawl.Retry("the target answered 202 to PUT: it does not have the object yet")
	}
	if ctx.Err() == nil { // where it is cancelled, nobody tidies up: that is the fault
		delete(a.busy, r.Key)
	}
	if err != nil {
		return o, err
	}
	if _, ok := a.first[r.Key]; !ok && a.is("update") {
		a.first[r.Key] = bytes.Clone(r.Payload)
	}
	a.fill(&o, r, resp)
	o.MatchDesired = pawl.TriOf(!a.is("create") || r.Acked != nil)
	o.AdapterState, err = owned(fields)
	return o, err
}

// owned is what an ack keeps of a content: the names of its fields.
func owned(fields map[string]json.RawMessage) ([]byte, error) {
	return json.Marshal(slices.Sorted(maps.Keys(fields)))
}

// before is what faults do before the object is written.
func (a *adapter) before(ctx context.Context, r **pawl.Request) error {
	switch {
	case a.is("recreate") && a.deleted[(*r).Key]:
		return pawl.Obsolete("the object was deleted")
	case a.is("large-payload") && len((*r).Payload) > 256<<10:
		return pawl.StatusRejected
	case a.is("memory-flat"):
		a.leak = append(a.leak, bytes.Repeat([]byte{1}, 64<<10))
	case a.is("cancel"):
		if a.busy[(*r).Key] {
			return pawl.Retry("an earlier call is still under way")
		}
		a.busy[(*r).Key] = true
	case a.is("concurrent"):
		a.shared = *r
		if _, err := a.send(ctx, *r, "GET", a.path(*r), nil); err != nil && !errors.Is(err, pawl.StatusNotFound) {
			return err
		}
		*r = a.shared
	case a.is("apply-twice") && (*r).Acked == nil:
		resp, err := a.send(ctx, *r, "GET", a.path(*r), nil)
		if err == nil && bytes.Equal(resp.Body, (*r).Payload) {
			_, err = a.send(ctx, *r, "PUT", a.path(*r)+"-copy", (*r).Payload)
		}
		if err != nil && !errors.Is(err, pawl.StatusNotFound) {
			return err
		}
	}
	return nil
}

// ApplyBatch applies one after the other.
func (a *adapter) ApplyBatch(ctx context.Context, rs []*pawl.Request) ([]pawl.BatchItem, error) {
	items := make([]pawl.BatchItem, len(rs))
	for i, r := range rs {
		items[i].Observation, items[i].Err = a.Apply(ctx, r)
	}
	if a.is("batch") {
		items[0].Observation, items[2].Observation = items[2].Observation, items[0].Observation
	}
	if a.is("batch-item") {
		for i := range items {
			if items[i].Err != nil {
				return slices.Repeat([]pawl.BatchItem{{Err: items[i].Err}}, len(items)), nil
			}
		}
	}
	return items, nil
}

// Delete removes the object, of r.UID only where that is set.
func (a *adapter) Delete(ctx context.Context, r *pawl.Request) error {
	if r.Saga != nil {
		_, err := a.writeOfSaga(ctx, r)
		return err
	}
	if r.UID != "" && !a.is("delete-uid") {
		resp, err := a.send(ctx, r, "GET", a.path(r), nil)
		if err != nil {
			return err
		}
		if resp.Header("Object-Uid") != r.UID {
			return pawl.Conflict("the object is another one than that which is to be deleted")
		}
	}
	method := "DELETE"
	if a.is("delete") {
		method = "GET"
	}
	_, err := a.send(ctx, r, method, a.path(r), nil)
	if a.is("delete-again") && errors.Is(err, pawl.StatusNotFound) {
		return pawl.Rejected("there is no such object")
	}
	if err == nil && (a.is("recreate") || a.is("vanished")) {
		a.deleted[r.Key] = true
	}
	return err
}

// path is that of r's object.
func (a *adapter) path(r *pawl.Request) string {
	key := r.Key
	switch {
	case a.is("two-keys"):
		key = strings.TrimRight(key, "-")
	case a.is("unicode-keys"):
		key = strings.Join(strings.FieldsFunc(key, func(c rune) bool { return c > 126 }), "_") + "_"
	case a.is("hostile-keys"):
		before, query, found := strings.Cut(key, "?")
		if found {
			return "/objects/" + pawl.EscapePath(before) + "?" + query
		}
	}
	return "/objects/" + pawl.EscapePath(key)
}
