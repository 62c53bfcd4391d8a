package ops

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
	"github.com/pawlsync/pawl/test/ops/kit"
)

// TestAnUpgradeFromTheFirstFormatKeepsWhatWasAccepted starts today's program on what the
// last one of format 1 left behind when it was killed, and gives it another target.
// All is there: what was suspended stays so, what is live goes to the target, deletions
// stay owed to the one that had the objects, and what is put goes out.
func TestAnUpgradeFromTheFirstFormatKeepsWhatWasAccepted(t *testing.T) {
	const live, suspended, deleted, gone = 32, 4, 4, 4 // of the fixture
	target := kit.NewTarget(t)
	d := kit.New(t, strings.NewReplacer("  web:", "  demo:", "config: {", "config: {compare: bytes, ").Replace(target.Config("")))
	kit.Must(t, os.Mkdir(d.Store(), 0o700))
	untar(t, filepath.Join(kit.Root(t), "engine/outbox/badger/testdata/format-1.tar.gz"), d.Store())
	d.WriteConfig()
	d.Show("store check", "format 1", fmt.Sprintf("%d resources", live+deleted+gone))
	d.Start()
	d.Logged("format")
	d.Show("status", "suspended (Operator)") // as the older daemon had it
	d.Show("resume --sink demo")
	d.Reaches(`pawl_resources{phase="Acked",sink="demo"}`, live-suspended)
	d.Reaches(`pawl_resources{phase="Pending",sink="demo"}`, suspended)
	d.Reaches(`pawl_resources{phase="Orphaned",sink="demo"}`, deleted)
	d.Show("status", "Orphaned")
	if n := len(target.Objects()); n != live-suspended {
		t.Errorf("the target has %d objects, want %d", n, live-suspended)
	}
	put, err := d.Put(t.Context(), record.Key{Sink: "demo", Name: "after the upgrade"}, api.PutRequest{Payload: []byte(`{"n":1}`)})
	kit.Must(t, err)
	w, err := d.Wait(t.Context(), record.Key{Sink: "demo", Name: "after the upgrade"}, put.Generation)
	if err != nil || !w.Done {
		t.Errorf("what was put after the upgrade: %+v, %v", w, err)
	}
	for r, err := range d.All(t.Context(), client.ListOptions{Limit: 1000}) {
		kit.Must(t, err)
		if r.Generation >= put.Generation && r.Key != "after the upgrade" {
			t.Errorf("%s of the old store is of generation %d, and what was put now of %d", r.Key, r.Generation, put.Generation)
		}
	}
	d.Stop()
	d.Show("store check", "format 2")
}

// untar unpacks a fixture of a store; the zeros that it leaves out at the ends of files
// are Badger's to make again.
func untar(t *testing.T, file, dir string) {
	t.Helper()
	if out, err := exec.Command("tar", "-xzf", file, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
