package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/test/ops/kit"
)

// TestAFullDiskIsToldAndEndsByItself fills the store's disk up to the reserve and frees
// it, and looks at what an operator is told. What becomes of stored state, up to the last
// byte of the disk and under load, is tried in test/crash.
func TestAFullDiskIsToldAndEndsByItself(t *testing.T) {
	target := kit.NewTarget(t)
	d := kit.New(t, target.Config(""))
	kit.Must(t, os.Mkdir(d.Store(), 0o700))
	if err := syscall.Mount("pawl-ops", d.Store(), "tmpfs", 0, "size=256m"); err != nil {
		t.Skip("needs the right to mount a tmpfs: ", err)
	}
	t.Cleanup(func() { kit.Must(t, syscall.Unmount(d.Store(), syscall.MNT_DETACH)) })
	d.Start()
	target.Leave()
	_, err := d.Put(t.Context(), web("waits"), api.PutRequest{Payload: json.RawMessage(`{}`)})
	kit.Must(t, err)
	ballast := filepath.Join(d.Store(), "ballast")
	fillUp(t, ballast, 32<<20) // half of the reserve

	kit.Eventually(t, "Puts are refused", func(ctx context.Context) error {
		_, err := d.Put(ctx, web("refused"), api.PutRequest{Payload: json.RawMessage(`{}`)})
		if api.CodeOf(err) != api.CodeNoSpace {
			return fmt.Errorf("a Put on a nearly full disk: %w", err)
		}
		t.Log("a client is told: ", err)
		return nil
	})
	d.Reaches("pawl_store_refusing_puts", 1) // the alert PawlRefusesPuts
	d.Show("status", "disk")
	if err := d.Ready(t.Context()); api.CodeOf(err) != api.CodeNotReady {
		t.Errorf("/readyz: %v", err)
	}
	d.Logged("the disk is nearly full", `"level":"ERROR"`)
	target.Return() // what was accepted goes out
	d.Show("wait web/waits --timeout 0")

	kit.Must(t, os.Remove(ballast))
	d.Reaches("pawl_store_refusing_puts", 0)
	kit.Eventually(t, "Puts are taken again", func(ctx context.Context) error {
		_, err := d.Put(ctx, web("taken"), api.PutRequest{Payload: json.RawMessage(`{}`)})
		return errors.Join(err, d.Ready(ctx))
	})
	d.Logged("there is space again")
	d.Show("status")
}

// fillUp makes the file at path so large that left bytes of its file system are free.
func fillUp(t *testing.T, path string, left int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	kit.Must(t, err)
	defer f.Close()
	var st syscall.Statfs_t
	kit.Must(t, syscall.Statfs(filepath.Dir(path), &st))
	kit.Must(t, syscall.Fallocate(int(f.Fd()), 0, 0, int64(st.Bavail)*st.Bsize-left))
}
