package ops

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
	"github.com/pawlsync/pawl/test/ops/kit"
)

// TestTenThousandClientsThatWatchAllSeeTheChange connects many watchers, each over a
// connection of its own, and puts: every one of them is told, Puts go on, and the memory
// that they took is given back.
func TestTenThousandClientsThatWatchAllSeeTheChange(t *testing.T) {
	n := kit.Many(10_000, 300)
	needFiles(t, n) // here, and as many in the daemon
	target := kit.NewTarget(t)
	d := kit.New(t, target.Config(""))
	d.Start()
	alone, before := putTime(t, d, "alone"), d.MemoryBytes()

	ctx, stop := context.WithCancelCause(t.Context())
	var told atomic.Int64
	var clients sync.WaitGroup
	for range n {
		clients.Go(func() { watchFor(ctx, t, d, "signal", &told) })
	}
	d.Reaches("pawl_watchers", float64(n))
	watched := d.MemoryBytes()
	t.Logf("%d watchers: the daemon has %d MiB, %d MiB before: %d KiB for each", n, watched>>20, before>>20, (watched-before)>>10/int64(n))

	began := time.Now()
	took := putTime(t, d, "signal")
	kit.Approaches(t, "all are told", func() float64 { return float64(int64(n) - told.Load()) })
	t.Logf("a Put was answered after %v (%v without watchers), and all %d knew of it after %v", took, alone, n, time.Since(began).Round(time.Millisecond))
	d.Show("status")

	stop(errors.New("seen"))
	clients.Wait()
	d.Reaches("pawl_watchers", 0)
}

// watchFor watches until it was told of the change of a key, counts that, and goes on
// until ctx ends.
func watchFor(ctx context.Context, t *testing.T, d *kit.Daemon, key string, told *atomic.Int64) {
	c, err := client.New(client.Options{Address: d.URL()})
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	seen := false
	for e, err := range c.Watch(ctx, client.WatchOptions{Sink: "web"}) {
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			t.Errorf("a watch ended: %v", err)
			return
		}
		if e.Resource.Key == key && !seen {
			seen = true
			told.Add(1)
		}
	}
}

// putTime is how long a Put took.
func putTime(t *testing.T, d *kit.Daemon, key string) time.Duration {
	t.Helper()
	began := time.Now()
	_, err := d.Put(t.Context(), web(key), api.PutRequest{Payload: json.RawMessage(`{}`)})
	kit.Must(t, err)
	return time.Since(began).Round(10 * time.Microsecond)
}

// needFiles raises this process's limit of open files, or skips.
func needFiles(t *testing.T, n int) {
	t.Helper()
	var l syscall.Rlimit
	kit.Must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l))
	want := uint64(n + 1000)
	if l.Cur < want {
		l.Cur, l.Max = want, max(l.Max, want)
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
			t.Skipf("needs %d open files: %v", want, err)
		}
	}
}
