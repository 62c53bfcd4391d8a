package ops

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/test/ops/kit"
)

// TestABackupUnderLoadIsRestoredElsewhereAndIsOneMoment backs a store up while clients
// put, restores it into another folder, with another daemon and an empty target, and
// compares: all that was answered before the backup began is there, each with the
// content of its generation, and nothing newer than what was answered after it ended.
func TestABackupUnderLoadIsRestoredElsewhereAndIsOneMoment(t *testing.T) {
	target := kit.NewTarget(t)
	d := kit.New(t, target.Config(""))
	d.Start()
	load := kit.StartLoad(d, 6, kit.Many(500, 40))
	load.Busy(int64(kit.Many(20000, 600)))
	backup, increment := filepath.Join(d.Dir, "monday.pawl"), filepath.Join(d.Dir, "tuesday.pawl")
	d.Show("store backup -o " + backup)
	load.Busy(300)
	before := load.Granted()
	d.Show("store backup --since " + backup + " -o " + increment)
	after := load.Granted()
	load.Busy(300)
	load.End()
	if age := d.Metric("pawl_store_backup_timestamp_seconds"); age == 0 {
		t.Error("the daemon does not know of the backup")
	}

	elsewhere := kit.NewTarget(t)
	e := kit.New(t, elsewhere.Config(""))
	e.WriteConfig()
	e.Show("store restore "+backup+" "+increment, "records, as of", "`pawl resume --sink NAME`")
	e.Show("store check")
	e.Start()
	compare(t, exported(t, e), before, after)
	e.Show("status", "suspended (Restored)")
	if n := elsewhere.Writes(); n > 0 {
		t.Errorf("%d writes reached the target of a restored store before anybody resumed its sink", n)
	}
	e.Show("resume --sink web")
	want := len(exported(t, e))
	kit.Approaches(t, "the new target has all", func() float64 { return float64(want - len(elsewhere.Objects())) })
	e.Show("status")
}

// compare checks restored resources against what was answered before and after the
// moment that they are of.
func compare(t *testing.T, restored, before, after map[string]kit.Object) {
	t.Helper()
	t.Logf("%d resources are restored; %d were answered before the backup began", len(restored), len(before))
	var newest uint64 // one counter numbers all
	for _, a := range after {
		newest = max(newest, a.Generation)
	}
	for key, b := range before {
		r, ok := restored[key]
		a := after[key]
		switch {
		case !ok:
			t.Errorf("%s is missing", key)
		case r.Generation < b.Generation:
			t.Errorf("%s is of generation %d, and %d was answered before the backup began", key, r.Generation, b.Generation)
		case r.Generation == b.Generation && r.Body != b.Body, r.Generation == a.Generation && r.Body != a.Body:
			t.Errorf("%s has %s at generation %d, which was put as %s or %s", key, r.Body, r.Generation, b.Body, a.Body)
		case r.Generation > newest+unfinished:
			t.Errorf("%s is of generation %d, and %d was the newest when the backup had ended", key, r.Generation, newest)
		}
	}
}

// unfinished is how many generations may have been given out and not answered yet when
// the newest answers were noted: one of each client.
const unfinished = 6

// exported is what a daemon has, as it exports it.
func exported(t *testing.T, d *kit.Daemon) map[string]kit.Object {
	t.Helper()
	file := filepath.Join(d.Dir, "all.ndjson")
	_ = os.Remove(file)
	d.Show("store export -o " + file)
	text, err := os.ReadFile(file)
	kit.Must(t, err)
	out := map[string]kit.Object{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		var line struct {
			Sink, Key  string
			Generation uint64
			Payload    json.RawMessage
		}
		kit.Must(t, json.Unmarshal(lines.Bytes(), &line))
		if line.Sink != "" {
			out[line.Key] = kit.Object{Generation: line.Generation, Body: strings.TrimSpace(string(line.Payload))}
		}
	}
	kit.Must(t, lines.Err())
	return out
}
