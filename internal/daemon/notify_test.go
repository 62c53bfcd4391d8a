package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A daemon that no longer gets at its own state is silent, so that it is killed.
func TestOnlyADaemonThatWorksFeedsTheWatchdog(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	env := map[string]string{"NOTIFY_SOCKET": socket, "WATCHDOG_USEC": "1", "WATCHDOG_PID": "77"}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	n := newNotifier(lookup, 77, slog.New(slog.DiscardHandler))
	if n.watchdog != time.Microsecond {
		t.Fatalf("the watchdog waits for %s, want 1µs", n.watchdog)
	}
	ctx, stop := context.WithCancel(t.Context())
	stuck, free, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		first := true
		n.ping(ctx, func() {
			if first {
				first = false
				close(stuck)
				<-free
			}
		})
	}()
	<-stuck
	n.tell("STATUS=stuck")
	close(free)
	for _, want := range []string{"STATUS=stuck", "WATCHDOG=1", "WATCHDOG=1"} {
		buffer := make([]byte, 64)
		size, err := manager.Read(buffer)
		if err != nil || string(buffer[:size]) != want {
			t.Fatalf("it said %q, %v; want %q", buffer[:size], err, want)
		}
	}
	stop()
	// It may hang in a full socket.
	go func() {
		for buffer := make([]byte, 64); ; {
			if _, err := manager.Read(buffer); err != nil {
				return
			}
		}
	}()
	<-ended
}

// A manager that does not read must not hold the daemon.
func TestAManagerThatReadsNothingIsNotWaitedForLong(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	n := &notifier{socket: socket, patience: time.Millisecond}
	for err == nil { // until its queue is full
		err = n.send("WATCHDOG=1")
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
