package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/pawlsync/pawl/engine/record"
)

// PlanLine is one line of a plan: with a payload it asks what a Put would come to,
// with delete what a deletion would, with neither how the target stands to what is
// stored.
type PlanLine struct {
	Sink   string `json:"sink" doc:"The sink's name."`
	Key    string `json:"key" doc:"The resource's key within the sink."`
	Delete bool   `json:"delete,omitempty" doc:"What a deletion would come to."`
	// DeletionElse is of a deletion alone.
	DeletionElse record.DeletionPolicy `json:"deletionPolicyElse,omitempty" enum:"delete,ack-then-delete,retain" doc:"Of a deletion: the policy where the resource has none of its own, in place of the sink's, as the deletion policy of a source is."`
	PutRequest
}

// Decode reads one line, as PutRequest.Decode does.
func (l *PlanLine) Decode(line []byte) error {
	*l = PlanLine{}
	b := BatchLine{}
	fields := b.putFields()
	fields["sink"], fields["key"], fields["delete"], fields["deletionPolicyElse"] = &b.Sink, &b.Key, &l.Delete, &l.DeletionElse
	if err := decode(line, fields); err != nil {
		return err
	}
	l.Sink, l.Key, l.PutRequest = b.Sink, b.Key, b.PutRequest
	return l.complete()
}

func (l *PlanLine) complete() error {
	hasPayload := l.Payload != nil || l.PayloadBase64 != nil
	switch {
	case l.Sink == "" || l.Key == "":
		return NewProblem(http.StatusUnprocessableEntity, CodeInvalid, "sink or key is missing", `a line reads {"sink": "…", "key": "…", "payload": …}`)
	case !l.Delete && l.DeletionElse != "":
		return NewProblem(http.StatusUnprocessableEntity, CodeInvalid, "deletionPolicyElse is of deletions alone", `leave it out, or give "delete": true`)
	case l.Delete && (hasPayload || l.Conflict != "" || l.Suspend || l.Direction != "" || l.Retry != nil || l.IdempotencyKey != ""):
		return NewProblem(http.StatusUnprocessableEntity, CodeInvalid, "a deletion has no payload, conflictPolicy, suspend, direction, retry and idempotencyKey", `leave them out, or "delete"`)
	case l.Delete:
		return nil
	case hasPayload, l.Direction == record.Inbound:
		return l.PutRequest.complete()
	case l.Conflict != "" || l.Deletion != "" || l.Suspend || l.Direction != "" || l.Retry != nil || l.IdempotencyKey != "" || l.Owner != "" || l.TakeOver || l.Order != nil || l.IfGeneration != nil:
		return NewProblem(http.StatusUnprocessableEntity, CodeInvalid, "the line has no payload, but says how to treat one",
			`give "payload" or "delete": true, or sink and key alone to ask about what is stored`)
	}
	return nil
}

// Stored reports whether l asks about what is stored.
func (l *PlanLine) Stored() bool { return !l.Delete && l.Payload == nil && l.PayloadBase64 == nil }

// PlanAnswer answers one line of a plan: with a difference or an error.
type PlanAnswer struct {
	Line int `json:"line" doc:"Number of the line in the request, from 1. Blank lines count, and have no answer."`
	// Difference is nil where Error is set.
	*Difference
	Error *Problem `json:"error,omitempty" doc:"Why this line was refused."`
}

// The actions of a Difference.
const (
	ActionNone    = "none"
	ActionCreate  = "create"
	ActionUpdate  = "update"
	ActionDelete  = "delete"
	ActionRefused = "refused"
	ActionUnknown = "unknown"
)

// Difference says how a target stands to what is desired, and what would be done about
// it.
type Difference struct {
	Sink       string       `json:"sink"`
	Key        string       `json:"key"`
	Generation uint64       `json:"generation,omitempty" doc:"Of what is stored; absent: nothing is."`
	Tombstone  bool         `json:"tombstone,omitempty" doc:"What is asked about is a deletion."`
	New        bool         `json:"new,omitempty" doc:"It differs from what is stored, so that it would be a generation of its own."`
	Action     string       `json:"action" enum:"none,create,update,delete,refused,unknown" doc:"What a delivery would do at the target. refused: the target would not take it; unknown: it can't be told."`
	Why        string       `json:"why,omitempty" doc:"What keeps it unknown, the target's words where it refuses, why a difference is left as it is, or that the direction is inbound. Never payload."`
	Looked     bool         `json:"looked" doc:"The target was looked at. False: the rest goes by what it acknowledged last, and says nothing where action is unknown."`
	Exists     bool         `json:"exists" doc:"The target has the object."`
	Same       bool         `json:"same" doc:"It is as desired; of a deletion: there is none; of direction inbound always, for nothing is ever sent."`
	Drift      bool         `json:"drift,omitempty" doc:"Somebody else changed it."`
	Paths      []PathChange `json:"paths,omitempty" doc:"Where it differs, as the adapter tells it; an adapter may tell that it differs and not where."`
}

// PathChange is one place where the target differs.
type PathChange struct {
	Path   string `json:"path" doc:"A JSON pointer, or what the adapter says instead."`
	Change string `json:"change,omitempty" enum:"add,remove,update" doc:"What a delivery would do there; absent: the adapter does not report what the target has."`
	// Of a call that asked for values, where the adapter reports what the target has.
	Desired  json.RawMessage `json:"desired,omitempty" doc:"Only where values were asked for and the adapter reports them; sensitive ones read \"***\"."`
	Observed json.RawMessage `json:"observed,omitempty" doc:"As desired, of the target."`
}

// The changes of a PathChange.
const (
	ChangeAdd    = "add"
	ChangeRemove = "remove"
	ChangeUpdate = "update"
)

// PathChanges says what would change at paths between what the target has and what is
// desired; both are hidden by mask and shown where values is set. Where observed is
// nil, or one of the two no JSON, it is not known.
func PathChanges(paths []string, desired, observed []byte, mask Mask, values bool) []PathChange {
	out := make([]PathChange, len(paths))
	var have, want json.RawMessage
	if observed != nil {
		want, _, _ = mask.Show(desired)
		have, _, _ = mask.Show(observed)
	}
	for i, path := range paths {
		out[i].Path = path
		if want == nil || have == nil {
			continue
		}
		is, there := at(have, path)
		shall, wanted := at(want, path)
		switch {
		case there && wanted:
			out[i].Change = ChangeUpdate
		case wanted:
			out[i].Change = ChangeAdd
		case there:
			out[i].Change = ChangeRemove
		}
		if values {
			out[i].Desired, out[i].Observed = shall, is
		}
	}
	return out
}

// at returns the value of doc, which is valid JSON, that a JSON pointer leads to. "/"
// is the whole, as adapters say it.
func at(doc json.RawMessage, pointer string) (value json.RawMessage, ok bool) {
	if pointer == "" || pointer == "/" {
		return doc, true
	}
	if pointer[0] != '/' {
		return nil, false
	}
	for segment := range strings.SplitSeq(pointer[1:], "/") {
		segment = unescape.Replace(segment)
		doc = bytes.TrimSpace(doc)
		switch {
		case len(doc) > 0 && doc[0] == '{':
			var members map[string]json.RawMessage
			if json.Unmarshal(doc, &members) != nil {
				return nil, false
			}
			if doc, ok = members[segment]; !ok {
				return nil, false
			}
		case len(doc) > 0 && doc[0] == '[':
			var elements []json.RawMessage
			i, err := strconv.Atoi(segment)
			if json.Unmarshal(doc, &elements) != nil || err != nil || i < 0 || i >= len(elements) {
				return nil, false
			}
			doc = elements[i]
		default:
			return nil, false
		}
	}
	return slices.Clone(doc), true
}
