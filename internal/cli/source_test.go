package cli

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/api"
)

// sampleSources are one of each state.
func sampleSources() []api.Source {
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	fuse := func(deleted, allowed, largest int, blown bool) *api.SourceFuse {
		return &api.SourceFuse{Window: api.Duration(time.Hour), Share: 0.2, AtLeast: 10, Deleted: deleted, Allowed: allowed, Largest: largest, Blown: blown}
	}
	return []api.Source{
		{Name: "cluster", Kind: "kube", State: api.SourceFailing, Trouble: "configmaps is forbidden", TroubleAt: ago(5 * time.Minute), FullAt: ago(time.Hour), FullItems: 7, Resources: 7, Fuse: fuse(0, 10, 7, false)},
		{Name: "edge-1", Kind: "pawl", Group: "edges", State: api.SourceRunning, ContactAt: ago(time.Minute), Resources: 12, Fuse: fuse(1, 10, 12, false)},
		{Name: "edge-2", Kind: "pawl", Group: "edges", State: api.SourceStarting, Resources: 3, Fuse: fuse(0, 10, 3, false)},
		{Name: "edges", Kind: "pawl", Senders: true, Declares: []string{"edge-*", "hub"}, State: api.SourceDeclares},
		{Name: "files", Kind: "dir", State: api.SourceRunning, Unswept: "bad.yaml:3", FullAt: ago(2 * time.Minute), FullItems: 80, Resources: 110, Kept: 3,
			Problems: []api.SourceProblem{
				{Place: "bad.yaml:3", Message: "line 3: found a tab"},
				{Sink: "web", Key: "a", Place: "web.yaml:12", Message: `put web/a: owned by another source`, Refused: true},
			},
			Held: 30, HeldAt: ago(2 * time.Minute), HeldWhy: "0 were deleted within 1h, and of 110 resources it may delete 22 in that time", Fuse: fuse(0, 22, 110, true)},
		{Name: "fresh", Kind: "dir", State: api.SourceStarting, Fuse: fuse(0, 10, 0, false)},
		{Name: "old", State: api.SourceNotConfigured, Resources: 4},
	}
}

// source answers for the sources.
func (d *fakeDaemon) source(w http.ResponseWriter, r *http.Request, path []string) {
	body, _ := io.ReadAll(r.Body)
	d.bodies = append(d.bodies, string(body))
	if len(path) == 1 {
		answer(w, api.SourceList{Items: sampleSources()})
		return
	}
	for _, s := range sampleSources() {
		if s.Name == path[1] {
			d.sourceVerb(w, &s, strings.Join(path[2:], ""), r.URL.Query().Get("limit"))
			return
		}
	}
	refuse(w, api.NewProblem(404, api.CodeUnknownSource, "there is no source "+path[1], `did you mean "files"?`))
}

func (d *fakeDaemon) sourceVerb(w http.ResponseWriter, s *api.Source, verb, limit string) {
	switch verb {
	case "":
		answer(w, s)
	case "rescan":
		w.WriteHeader(http.StatusNoContent)
	case "held":
		h := api.SourceHeld{Items: []api.SourceHeldItem{}, Total: s.Held, Digest: "d1", Why: s.HeldWhy, Since: s.HeldAt, BySink: map[string]int{"web": s.Held}}
		if s.Held > 0 {
			h.Items = append(h.Items, api.SourceHeldItem{Sink: "web", Key: "users/alice", Place: "web.yaml:1"}, api.SourceHeldItem{Sink: "web", Key: "users/bob"})
		}
		if limit == "1" {
			h.Items = h.Items[:1]
		}
		answer(w, h)
	case "confirm":
		if !strings.Contains(d.bodies[len(d.bodies)-1], `"d1"`) || s.Held == 0 {
			refuse(w, api.NewProblem(409, api.CodeNothingToDo, "nothing is held", ""))
			return
		}
		answer(w, api.SourceConfirmed{Deleted: s.Held})
	case "handover":
		answer(w, api.SourceHandedOver{Resources: s.Resources})
	}
}

func TestSourceCommands(t *testing.T) {
	golden(t, "source", transcript(t, newFakeDaemon(t), "",
		[]string{"source", "list"},
		[]string{"source", "status", "files"},
		[]string{"source", "status", "edges"},
		[]string{"source", "handover", "files", "files"},
		[]string{"source", "status", "cluster"},
		[]string{"source", "status", "edge-1"},
		[]string{"source", "status", "edge-2"},
		[]string{"source", "status", "old"},
		[]string{"source", "status", "fils"},
		[]string{"source", "rescan", "files", "nosuch", "cluster"},
		[]string{"source", "confirm", "files"},
		[]string{"source", "confirm", "files", "--yes", "--limit", "1"},
		[]string{"source", "confirm", "cluster"},
		[]string{"source", "confirm", "cluster", "--yes"},
		[]string{"source", "handover", "old", "files"},
		[]string{"source", "handover", "old", "--nobody", "-o", "json"},
	))
}

func TestSourceCommandsSayWhatIsWrongWithTheirArguments(t *testing.T) {
	golden(t, "source_usage", transcript(t, newFakeDaemon(t), "",
		[]string{"source", "confrm"},
		[]string{"source", "status"},
		[]string{"source", "confirm", "files", "--limit", "0"},
		[]string{"source", "handover", "old"},
		[]string{"source", "handover", "old", "new", "--nobody"},
	))
}

func TestAHandoverNamesSinkAndPrefix(t *testing.T) {
	d := newFakeDaemon(t)
	for prefix, want := range map[string]string{
		"web": `{"to":"files","sink":"web"}`, "web/users/": `{"to":"files","sink":"web","prefix":"users/"}`,
	} {
		if _, stderr, code := run(t, d.URL, "", "source", "handover", "old", "files", "--prefix", prefix); code != 0 {
			t.Fatal(stderr)
		}
		if got := strings.TrimSpace(d.bodies[len(d.bodies)-1]); got != want {
			t.Errorf("%s: sent %s, want %s", prefix, got, want)
		}
	}
}

func TestConfirmAsksAtATerminal(t *testing.T) {
	for _, c := range []struct {
		said    string
		deletes bool
	}{{"y\n", true}, {"YES\n", true}, {"n\n", false}, {"\n", false}, {"", false}} {
		d := newFakeDaemon(t)
		var out, errs bytes.Buffer
		s := Streams{In: strings.NewReader(c.said), Out: &out, Err: &errs, InTerminal: true, ErrTerminal: true, Env: []string{"PAWL_ADDRESS=" + d.URL}, Now: func() time.Time { return now }}
		code := Main(t.Context(), []string{"source", "confirm", "files"}, s, api.Version{})
		deleted := strings.Contains(strings.Join(d.calls, "\n"), "POST /v1/sources/files/confirm")
		if deleted != c.deletes || (code == 0) != c.deletes || !strings.Contains(errs.String(), "Delete 30 resources? [y/N]") {
			t.Errorf("to %q: deleted %v, code %d, %s", c.said, deleted, code, errs.String())
		}
	}
}

func TestSourcesAreCompleted(t *testing.T) {
	d := newFakeDaemon(t)
	for line, want := range map[string]string{
		"status f": "files fresh", "rescan files f": "fresh", "handover old cl": "cluster", "handover old files ": "",
	} {
		stdout, _, _ := run(t, d.URL, "", append([]string{"__complete", "source"}, strings.Split(line, " ")...)...)
		names, _, _ := strings.Cut(stdout, ":")
		if got := strings.Join(strings.Fields(names), " "); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
