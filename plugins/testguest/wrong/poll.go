package main

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

// pageOfChanges is how many changes one poll asks for.
const pageOfChanges = "5"

// Poll tells what changed at the kit's store, whose count of changes is the cursor.
func (a *adapter) Poll(ctx context.Context, cursor string) (c pawl.Changes, err error) {
	if cursor == "" {
		cursor = "0"
	}
	resp, err := a.send(ctx, &pawl.Request{Key: "poll"}, "GET", "/changes/"+pawl.EscapeSegment(cursor)+"?limit="+pageOfChanges, nil)
	if err != nil {
		return c, err
	}
	var told struct {
		Next        string
		Reset, More bool
		Changes     []struct {
			Path string
			Body json.RawMessage
		}
	}
	if err := json.Unmarshal(resp.Body, &told); err != nil {
		return c, pawl.Retry("the target's changes can't be read")
	}
	if a.is("poll-reset") && told.Reset {
		return c, pawl.Rejected("the cursor is unknown")
	}
	c.Cursor, c.More, c.Reset = told.Next, told.More, told.Reset
	if a.is("poll-cursor") && a.polled[cursor] {
		return c, nil
	}
	a.polled[cursor] = cursor != "0"
	for _, change := range told.Changes {
		key, ok := strings.CutPrefix(change.Path, "/objects/")
		if key, err = url.PathUnescape(key); !ok || err != nil {
			continue
		}
		seen := pawl.Seen{Key: key}
		if there := string(change.Body) != "null"; there {
			body, _ := unmarked(change.Body)
			seen.Observation = pawl.Observation{Exists: true, Content: body}
		} else if a.is("poll-changes") {
			continue
		}
		c.Seen = append(c.Seen, seen)
	}
	return c, nil
}

// content is the object as a payload could say it: the fields that are ours or were
// at the last ack.
func (a *adapter) content(r *pawl.Request, found, want map[string]json.RawMessage) []byte {
	if a.is("content") {
		return []byte("{}")
	}
	var before []string
	if r.Acked != nil {
		_ = json.Unmarshal(r.Acked.AdapterState, &before) // of another version of this adapter: nothing is known
	}
	ours := map[string]json.RawMessage{}
	for _, name := range before {
		if v, ok := found[name]; ok {
			ours[name] = v
		}
	}
	for name := range want {
		if v, ok := found[name]; ok {
			ours[name] = v
		}
	}
	out, _ := json.Marshal(ours) // of what was just decoded: never fails
	return out
}
