package api

import (
	"fmt"
	"net/http"
	"time"

	"github.com/pawlsync/pawl/engine/record"
)

// The states of a source.
const (
	SourceStarting      = "starting"       // it has not told all that it has, since the start
	SourceRunning       = "running"        // it tells what changes
	SourceFailing       = "failing"        // something keeps it from being read or stored; what it put stays as it is
	SourceDeclares      = "declares"       // it only says who may send: each that does is a source by its own name
	SourceNotConfigured = "not-configured" // it left the configuration; what it put stays, and is its own
)

// Source is how one source does.
type Source struct {
	Name      string                `json:"name"`
	Kind      string                `json:"kind,omitempty" doc:"dir, kube, statesync or pawl."`
	Group     string                `json:"group,omitempty" doc:"Of a pawl that sends: the source of the configuration that lets it."`
	Senders   bool                  `json:"senders,omitempty" doc:"It owns nothing itself: each pawl that sends is a source of its own."`
	Declares  []string              `json:"declares,omitempty" nullable:"false" doc:"Names of those senders; a * at the end stands for all that begin so."`
	Dir       *SourceDir            `json:"dir,omitempty" doc:"What it reads, of kind dir."`
	Deletion  record.DeletionPolicy `json:"deletionPolicy,omitempty" enum:"delete,ack-then-delete,retain" doc:"What becomes of a target's object when the source lacks its resource, and the resource does not say. Absent: as the sink says."`
	State     string                `json:"state" enum:"starting,running,failing,declares,not-configured"`
	Trouble   string                `json:"trouble,omitempty" doc:"What keeps it from being read or stored. Nothing of it is deleted meanwhile for not being told."`
	TroubleAt time.Time             `json:"troubleAt,omitzero" doc:"Since when."`
	FullAt    time.Time             `json:"fullAt,omitzero" doc:"When its newest full set was through; absent: none was since the start."`
	FullItems int                   `json:"fullItems,omitempty" doc:"How much that set had."`
	ContactAt time.Time             `json:"contactAt,omitzero" doc:"When a pawl that sends last sent or asked something; absent: not since the start, or a source of another kind."`
	Unswept   string                `json:"unswept,omitempty" doc:"Nothing that its full set lacks is deleted until this place is right: not even the key can be read there."`
	Resources int                   `json:"resources" doc:"How many it owns."`
	Kept      int                   `json:"kept" doc:"How much it has that can't be read or was refused. What it stands for stays as it is."`

	Problems []SourceProblem `json:"problems,omitempty" nullable:"false" doc:"The first 100 of those, of one source."`

	Held    int         `json:"held" doc:"Deletions that wait for an operator."`
	HeldAt  time.Time   `json:"heldAt,omitzero" doc:"Since when."`
	HeldWhy string      `json:"heldWhy,omitempty"`
	Fuse    *SourceFuse `json:"fuse,omitempty" doc:"Of those that are configured."`
}

// SourceDir says what a source of kind dir reads.
type SourceDir struct {
	Path           string   `json:"path" doc:"The directory, as the daemon's machine names it."`
	Include        []string `json:"include,omitempty" nullable:"false" doc:"Patterns of the files that are read. Absent: all."`
	Exclude        []string `json:"exclude,omitempty" nullable:"false" doc:"Patterns of what is left out."`
	KubernetesSink string   `json:"kubernetesSink,omitempty" doc:"The sink that manifests of Kubernetes are for. Absent: they are mistakes."`
	KubernetesKey  string   `json:"kubernetesKey,omitempty" doc:"What makes their keys. Absent: the form of the plugin kube."`
}

// SourceProblem is something that a source has and can't be put.
type SourceProblem struct {
	Sink    string `json:"sink,omitempty"`
	Key     string `json:"key,omitempty" doc:"Absent where not even that can be read; then nothing of the source is deleted for not being told."`
	Place   string `json:"place,omitempty" doc:"Where the source has it: a file and a line, say."`
	Message string `json:"message"`
	Refused bool   `json:"refused,omitempty" doc:"It could be read, and was refused."`
}

// SourceFuse says how much a source may delete by itself.
type SourceFuse struct {
	Blown   bool     `json:"blown" doc:"Something is held, and so is everything further until an operator confirms, or the source has it again."`
	Window  Duration `json:"window"`
	Share   float64  `json:"share"`
	AtLeast int      `json:"atLeast"`
	Deleted int      `json:"deleted" doc:"Within the window; what was confirmed does not count."`
	Allowed int      `json:"allowed" doc:"Within the window, those included that were deleted already."`
	Largest int      `json:"largest" doc:"The most resources that it had within the window."`
}

// SourceList is every source, by name.
type SourceList struct {
	Items []Source `json:"items" nullable:"false"`
}

// SourceHeld is a part of what the fuse of a source holds, in key order.
type SourceHeld struct {
	Items  []SourceHeldItem `json:"items" nullable:"false"`
	Total  int              `json:"total"`
	BySink map[string]int   `json:"bySink"`
	Next   string           `json:"next,omitempty" doc:"Give it as page to get the next part; absent: this was the last."`
	Digest string           `json:"digest" doc:"Stands for the whole list; a confirmation gives it back."`
	Why    string           `json:"why,omitempty"`
	Since  time.Time        `json:"since,omitzero"`
}

// SourceHeldItem is one deletion that waits.
type SourceHeldItem struct {
	Sink  string `json:"sink"`
	Key   string `json:"key"`
	Place string `json:"place,omitempty" doc:"Where the source last had it; absent where that was before the start."`
}

// SourceConfirmation confirms deletions.
type SourceConfirmation struct {
	Digest string `json:"digest" doc:"Of the list that was looked at. Where it is another one by now, nothing is deleted."`
}

// Decode reads the body of a confirmation, as strictly as PutRequest.Decode.
func (r *SourceConfirmation) Decode(body []byte) error {
	return decode(body, fields{"digest": &r.Digest})
}

// SourceConfirmed says how many resources were deleted.
type SourceConfirmed struct {
	Deleted int `json:"deleted"`
}

// SourceHandover says who takes what over: exactly one of To and Nobody is set.
type SourceHandover struct {
	To     string `json:"to,omitempty" doc:"A source of the configuration. What its next full set lacks is deleted then, as far as its fuse allows."`
	Nobody bool   `json:"nobody,omitempty" doc:"Nobody owns them afterwards; the first source that puts one does."`
	Sink   string `json:"sink,omitempty" doc:"Only what is for this sink."`
	Prefix string `json:"prefix,omitempty" doc:"Only keys that start with it."`
}

// Decode reads the body of a handover, as strictly as PutRequest.Decode.
func (r *SourceHandover) Decode(body []byte) error {
	if err := decode(body, fields{"to": &r.To, "nobody": &r.Nobody, "sink": &r.Sink, "prefix": &r.Prefix}); err != nil {
		return err
	}
	if (r.To == "") != r.Nobody {
		return NewProblem(http.StatusUnprocessableEntity, CodeInvalid, "it is not said who takes them over", `give either "to": "a source", or "nobody": true`)
	}
	return nil
}

// SourceHandedOver says how many resources changed hands.
type SourceHandedOver struct {
	Resources int `json:"resources"`
}

// NothingDeleted says until when nothing is deleted that the source lacks; "" where
// that is not so.
func (s *Source) NothingDeleted() string {
	if s.Unswept == "" {
		return ""
	}
	return "nothing that it lacks is deleted until " + s.Unswept + " is right"
}

// sourceHeadlines says what of a source needs somebody's attention.
func sourceHeadlines(s *Source, now time.Time) []string {
	var out []string
	if s.Held > 0 {
		out = append(out, fmt.Sprintf("Source %s: %s held for %s; see pawl source confirm %s.", s.Name, count(s.Held, "deletion"), rough(now.Sub(s.HeldAt)), s.Name))
	}
	if s.Trouble != "" {
		out = append(out, fmt.Sprintf("Source %s: %s (%s).", s.Name, trim(s.Trouble), ago(s.TroubleAt, now)))
	}
	if s.Unswept != "" {
		out = append(out, fmt.Sprintf("Source %s: %s.", s.Name, s.NothingDeleted()))
	}
	if s.Kept > 0 {
		out = append(out, fmt.Sprintf("Source %s: %s; see pawl source status %s.", s.Name, kept(s.Kept), s.Name))
	}
	return out
}

// kept counts what can't be taken.
func kept(n int) string {
	if n == 1 {
		return "1 thing can't be read or was refused"
	}
	return fmt.Sprintf("%d things can't be read or were refused", n)
}
