package server

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
)

// fakeDiagnostics are a daemon's that can't be asked for its configuration.
type fakeDiagnostics struct{}

func (fakeDiagnostics) Config() ([]byte, error) { return nil, errors.New("canary: unreadable") }
func (fakeDiagnostics) Log() []byte             { return []byte(`{"msg":"so so","key":"canary"}` + "\n") }
func (fakeDiagnostics) Mask(text string) string {
	return strings.ReplaceAll(text, "secret", "[redacted]")
}
func (fakeDiagnostics) Metrics(w io.Writer) error {
	_, err := io.WriteString(w, "pawl_up 1\n")
	return err
}

// shownOf is v as a bundle shows it.
func shownOf(t *testing.T, all bool, v any) string {
	t.Helper()
	got, err := (&texts{mask: fakeDiagnostics{}.Mask, all: all}).json(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

func TestABundleShowsNoKeysAndNoWordsOfTargets(t *testing.T) {
	at := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for _, v := range []any{
		api.Sink{Name: "web", Target: "canary", NotReady: "canary", LastError: "canary", LastErrorAt: at},
		api.Source{Name: "git", Dir: &api.SourceDir{Path: "canary"}, Trouble: "canary", Unswept: "canary", HeldWhy: "canary",
			Problems: []api.SourceProblem{{Sink: "web", Key: "canary", Place: "canary", Message: "canary"}}},
		api.Saga{ID: "canary", Mode: "optimistic", Stuck: "canary", Cause: "canary", Steps: []api.SagaStep{
			{Sink: "web", Key: "canary", Payload: []byte(`{"a":"canary"}`), Refusal: &api.SagaAnswer{Status: "rejected", Message: "canary"}}}},
		api.ConfigStatus{File: "canary", Errors: []string{"canary"}},
		map[string]any{"aFieldOfTomorrow": "canary", "list": []any{[]any{"canary"}}, "when": "canary"},
	} {
		if got := shownOf(t, false, v); strings.Contains(got, "canary") || !strings.Contains(got, withheld) {
			t.Errorf("%T is shown as %s", v, got)
		}
		if got := shownOf(t, true, v); !strings.Contains(got, "canary") {
			t.Errorf("%T is shown to who asked for keys as %s", v, got)
		}
	}
}

func TestABundleMasksSecretsInWhatItShows(t *testing.T) {
	for _, all := range []bool{false, true} {
		if got := shownOf(t, all, api.Sink{Name: "a secret place"}); strings.Contains(got, "secret") || !strings.Contains(got, "a [redacted] place") {
			t.Errorf("shown, keys %v: %s", all, got)
		}
	}
}

func TestNoBundleShowsWhatPluginsLog(t *testing.T) {
	for _, all := range []bool{false, true} {
		text := &texts{mask: fakeDiagnostics{}.Mask, all: all}
		if got := string(text.lines([]byte(`{"msg":"plugin log","sink":"web","line":"canary"}` + "\n"))); strings.Contains(got, "canary") || !strings.Contains(got, `"sink":"web"`) {
			t.Errorf("shown, keys %v: %s", all, got)
		}
	}
}

func TestABundleShowsNoMessageOfTheStoresLibrary(t *testing.T) {
	text := &texts{mask: fakeDiagnostics{}.Mask}
	if got := string(text.lines([]byte(`{"msg":"badger: compacting canary"}` + "\n"))); got != `{"msg":"badger: [withheld]"}`+"\n" {
		t.Errorf("shown: %s", got)
	}
}

// A status of whatever state is one that programs read, with headlines that say what is
// wrong and quote nobody.
func TestTheStatusOfABundleHasHeadlinesWithoutWordsOfTargets(t *testing.T) {
	s, f, _ := start(t, Options{})
	f.sinks[0].Counts = map[record.Phase]int{record.Failed: 3}
	f.sinks[0].LastError = "canary"
	f.sinks[0].LastErrorAt = time.Now()
	b := &bundle{server: s, text: &texts{mask: fakeDiagnostics{}.Mask}}
	got, err := b.status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(got), "canary") || !strings.Contains(string(got), "3 resources") {
		t.Errorf("the status is %s", got)
	}
}

// untar is what a bundle has, by name.
func untar(t *testing.T, bundle string) map[string]string {
	t.Helper()
	packed, err := gzip.NewReader(strings.NewReader(bundle))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for files := tar.NewReader(packed); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimPrefix(h.Name, api.BundleDir)] = string(content)
	}
}

func TestWhatABundleCanNotHaveIsToldInItsIndex(t *testing.T) {
	kit := startSagas(t, Options{})
	for _, keys := range []string{"false", "true"} {
		response, body := ask(t, "GET", kit.url+"/v1/debug/bundle?keys="+keys, "")
		if response.StatusCode != 200 || response.Header.Get("Content-Type") != bundleType {
			t.Fatalf("%s, %v", response.Status, response.Header)
		}
		files := untar(t, body)
		if _, there := files["config.yaml"]; there || files["metrics.txt"] != "pawl_up 1\n" {
			t.Errorf("config.yaml is there: %v; metrics.txt is %q", there, files["metrics.txt"])
		}
		want := map[string]string{"false": withheld, "true": "canary: unreadable"}[keys]
		if index := files[api.BundleIndexName]; !strings.Contains(index, `"error": "`+want+`"`) {
			t.Errorf("the index, keys %s, says %s", keys, index)
		}
	}
}
