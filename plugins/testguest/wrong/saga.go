package main

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

// This file takes part in sagas. The mark is the last field of a stored object: it
// goes with the object's write, and with any later one of others. The store takes
// the locks with the same request.

const markField = `"saga":"`

func (a *adapter) mark(s *pawl.SagaRun) string {
	if a.is("saga-mark") {
		return s.ID // of any step
	}
	return s.ID + "-" + strconv.FormatUint(uint64(s.Step), 10)
}

// marked is a payload, a JSON object, with a mark.
func marked(payload []byte, mark string) []byte {
	head := bytes.TrimRight(bytes.TrimRight(payload, " \t\r\n"), "}")
	out := append([]byte(nil), head...)
	if !bytes.HasSuffix(bytes.TrimSpace(head), []byte("{")) {
		out = append(out, ',')
	}
	return append(out, markField+mark+`"}`...)
}

// unmarked takes a stored object apart into what was written and its mark.
func unmarked(body []byte) (content []byte, mark string) {
	at := bytes.LastIndex(body, []byte(markField))
	rest, ok := strings.CutSuffix(string(body[max(at, 0):]), `"}`)
	if at < 0 || !ok || strings.ContainsRune(rest[len(markField):], '"') {
		return body, ""
	}
	return append(bytes.TrimSuffix(bytes.Clone(body[:at]), []byte(",")), '}'), rest[len(markField):]
}

// observeOfSaga adds the mark and the image; body is nil where there is no object.
func (a *adapter) observeOfSaga(o *pawl.Observation, r *pawl.Request, body []byte) {
	s := r.Saga
	if s == nil {
		return
	}
	content, mark := unmarked(body)
	if deletion := len(r.Payload) == 0; body != nil || !deletion { // whose deletion it was nothing tells
		o.Ours = pawl.TriOf(mark == a.mark(s))
	}
	switch {
	case a.is("saga-mark-equal"):
		o.Ours = pawl.TriOf(body != nil && bytes.Equal(content, r.Payload))
	case a.is("saga-mark-deletion") && body == nil && len(r.Payload) == 0:
		o.Ours = pawl.Yes // gone is gone
	case a.is("saga-mark-lost") && mark == a.mark(s) && !a.told[mark]:
		o.Ours = pawl.Unknown // it saw no answer
	}
	if s.Before == nil && !a.is("saga-image-content") {
		o.Content = body
	}
}

// writeOfSaga is Apply and Delete of a step.
func (a *adapter) writeOfSaga(ctx context.Context, r *pawl.Request) (*pawl.HTTPResponse, error) {
	s := r.Saga
	if s.Before == nil {
		return nil, pawl.Rejected("the host's request has no image of the object")
	}
	a.runs[s.ID] = true
	q := &pawl.HTTPRequest{Method: "DELETE", Path: a.path(r)}
	if len(r.Payload) > 0 {
		q.Method, q.Body = "PUT", marked(r.Payload, a.mark(s))
	}
	if q.Headers = a.unless(s.Before, r.Mode); a.is("saga-image-window") && s.Before.Exists {
		resp, err := a.send(ctx, r, "GET", q.Path, nil)
		if err != nil || resp.Header("ETag") != s.Before.CID {
			return nil, errChanged
		}
		q.Headers = nil
	}
	locks, err := a.locks(ctx, r)
	if err != nil {
		return nil, err
	}
	q.Path += locks
	resp, err := a.do(ctx, r, q)
	switch {
	case err == errChanged && r.Mode == pawl.CreateOnly:
		return nil, pawl.AlreadyExists("the object exists already")
	case a.is("saga-lock-written") && errors.Is(err, pawl.StatusConflict) && err != errChanged:
		_, _ = a.send(ctx, r, q.Method, a.path(r), q.Body)
	}
	if err == nil {
		a.told[a.mark(s)] = true
	}
	return resp, err
}

// errChanged is what the target's 412 becomes.
var errChanged = pawl.Conflict("the object is not what it was")

// unless is the condition that the object is still as in an image.
func (a *adapter) unless(before *pawl.Image, mode pawl.Mode) []pawl.Header {
	switch {
	case a.is("saga-image") && mode != pawl.CreateOnly, a.is("saga-image-create") && mode == pawl.CreateOnly:
		return nil
	case !before.Exists || mode == pawl.CreateOnly:
		return []pawl.Header{{Name: "If-None-Match", Value: "*"}}
	}
	return []pawl.Header{{Name: "If-Match", Value: before.CID}}
}

// locks are what a write takes with it, as the query of its request.
func (a *adapter) locks(ctx context.Context, r *pawl.Request) (query string, err error) {
	s := r.Saga
	if len(s.Locks) == 0 || a.is("saga-lock-none") || a.is("saga-lock") && s.Held {
		return "", nil
	}
	query = "?lock-held=" + strconv.FormatBool(s.Held) + "&lock-owner=" + s.ID
	if a.is("saga-lock-own") && !s.Held {
		query += "-" + strconv.FormatUint(uint64(s.Step), 10)
	}
	oneByOne := a.is("saga-lock-partial") && !s.Held
	for _, lock := range s.Locks {
		if oneByOne { // each with an object of its own
			_, e := a.send(ctx, r, "PUT", "/taken/"+lock+query+"&lock="+lock, []byte("{}"))
			err = errors.Join(err, e)
		} else {
			query += "&lock=" + lock
		}
	}
	if err != nil {
		err = pawl.Conflict("a lock is another run's")
	}
	return query, err
}

// Restore brings the object of the image back, if what the step wrote still stands.
func (a *adapter) Restore(ctx context.Context, r *pawl.Request) (o pawl.Observation, err error) {
	resp, err := a.send(ctx, r, "GET", a.path(r), nil)
	exists := err == nil
	if err != nil && !errors.Is(err, pawl.StatusNotFound) {
		return o, err
	}
	var found []byte
	cid := ""
	if exists {
		found, cid = resp.Body, resp.Header("ETag")
	}
	before, deletion := r.Saga.Before, len(r.Payload) == 0
	_, mark := unmarked(found)
	stands := mark == a.mark(r.Saga)
	if deletion {
		stands = !exists
	}
	asBefore := exists == before.Exists && bytes.Equal(found, before.Content)
	switch {
	case a.is("saga-restore-idle"):
		return o, nil
	case asBefore && a.is("saga-restore") && !deletion, asBefore && a.is("saga-restore-delete") && deletion:
		return o, pawl.Conflict("the step's object is not there any more")
	case asBefore:
		o.Exists = exists
		return o, nil
	case a.overlooks(r, exists):
	case !stands:
		return o, pawl.Conflict("the object was changed since")
	}
	q := &pawl.HTTPRequest{Method: "PUT", Path: a.path(r), Body: before.Content, Headers: a.unless(&pawl.Image{Exists: exists, CID: cid}, pawl.Upsert)}
	switch {
	case !before.Exists:
		q.Method, q.Body = "DELETE", nil
	case a.is("saga-restore-mark"):
		q.Body = marked(before.Content, a.mark(r.Saga))
	case a.is("saga-restore-empty"):
		q.Body = []byte("{}")
	}
	if _, err = a.do(ctx, r, q); err == errChanged {
		err = pawl.Retry("the object changed between the look and the write")
	}
	o.Exists = before.Exists
	return o, err
}

// overlooks reports whether a fault makes Restore take others' object for the step's.
func (a *adapter) overlooks(r *pawl.Request, exists bool) bool {
	before, deletion := r.Saga.Before, len(r.Payload) == 0
	return a.is("saga-restore-changed") && before.Exists && !deletion ||
		a.is("saga-restore-recreated") && !before.Exists ||
		a.is("saga-restore-delete-replaced") && deletion && exists
}

// Unlock gives up what a run holds.
func (a *adapter) Unlock(ctx context.Context, r *pawl.Request) error {
	id := r.Saga.ID
	locked, wrote := a.runs[id]
	if wrote {
		a.runs[id] = false
	}
	switch {
	case a.is("saga-unlock-kept"):
		return nil
	case a.is("saga-unlock") && !wrote, a.is("saga-unlock-twice") && wrote && !locked:
		return pawl.Rejected("the run holds nothing")
	case a.is("saga-unlock-object"):
		_, _ = a.send(ctx, r, "DELETE", a.path(r), nil)
	case a.is("saga-unlock-others"):
		for other := range a.runs {
			_, _ = a.send(ctx, r, "DELETE", "/locks/"+other, nil)
		}
	}
	_, err := a.send(ctx, r, "DELETE", "/locks/"+id, nil)
	return err
}
