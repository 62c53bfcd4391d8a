package daemon

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
)

func TestTheLevelOfTheLogChangesWhileTheDaemonRuns(t *testing.T) {
	needPlugins(t)
	_, url := newObjects(t)
	var log safeBuffer
	o := options()
	var err error
	if o.Logger, o.LogLevel, err = NewLogger(config.Log{Level: "info", Format: "json"}, &log, false); err != nil {
		t.Fatal(err)
	}
	d := begin(t, load(t, write(t, t.TempDir(), url, "")), o)
	deliver := func(name string) {
		t.Helper()
		key := record.Key{Sink: "web", Name: name}
		if _, err := d.Put(t.Context(), key, api.PutRequest{Payload: json.RawMessage(`{"n":1}`)}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Wait(t.Context(), key, 0); err != nil {
			t.Fatal(err)
		}
	}
	change := func(to string) {
		t.Helper()
		got, err := d.SetLogLevel(t.Context(), to)
		if err != nil || got.Level != to {
			t.Fatalf("level %s: %v, %v", to, got, err)
		}
	}
	deliver("quiet")
	change("debug")
	deliver("loud")
	change("error")
	deliver("silent")
	if got, err := d.LogLevel(t.Context()); err != nil || got.Level != "error" {
		t.Errorf("the level in force is %v, %v", got, err)
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"quiet": false, "loud": true, "silent": false} {
		if got := strings.Contains(log.String(), fmt.Sprintf(`"key":%q`, name)); got != want {
			t.Errorf("the log tells of %s: %v, want %v\n%s", name, got, want, log.String())
		}
	}
	if !strings.Contains(log.String(), `"from":"info","to":"debug"`) {
		t.Errorf("the log does not tell that its level was changed:\n%s", log.String())
	}
}

func TestALevelThatDoesNotExistIsRefused(t *testing.T) {
	needPlugins(t)
	_, url := newObjects(t)
	d := begin(t, load(t, write(t, t.TempDir(), url, "")), options())
	if _, err := d.SetLogLevel(t.Context(), "loud"); api.CodeOf(err) != api.CodeInvalid {
		t.Errorf("%v, want a problem of kind %s", err, api.CodeInvalid)
	}
	if got, err := d.LogLevel(t.Context()); err != nil || got.Level != "info" {
		t.Errorf("the level in force is %v, %v", got, err)
	}
}
