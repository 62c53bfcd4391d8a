package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// notifier tells the service manager that runs the daemon, such as systemd, how the
// daemon is: sd_notify(3). Without a manager that wants to know it tells nobody.
type notifier struct {
	socket   string        // its datagram socket; "": there is none. A leading @ stands for NUL
	watchdog time.Duration // without a ping for so long it kills the daemon; 0: never
	patience time.Duration // with a manager that does not read what it is told
	log      *slog.Logger
}

func newNotifier(lookup func(string) (string, bool), pid int, log *slog.Logger) *notifier {
	n := &notifier{patience: time.Second, log: log}
	if socket, set := lookup("NOTIFY_SOCKET"); set {
		n.socket = socket
	}
	for_, named := lookup("WATCHDOG_PID")
	if named && for_ != strconv.Itoa(pid) {
		return n // the variables came down from a parent
	}
	text, _ := lookup("WATCHDOG_USEC")
	if us, err := strconv.ParseInt(text, 10, 64); err == nil && us > 0 {
		n.watchdog = time.Duration(us) * time.Microsecond
	}
	return n
}

// tell sends assignments, each NAME=value. What can't be told is logged: the daemon
// works without being heard.
func (n *notifier) tell(assignments ...string) {
	if n.socket == "" {
		return
	}
	err := n.send(strings.Join(assignments, "\n"))
	if err != nil {
		n.log.Warn("the service manager can't be told how the daemon is", "socket", n.socket, "telling", assignments[0], "error", err)
	}
}

func (n *notifier) send(message string) error {
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer c.Close()
	// A manager that reads nothing lets its queue fill, and would hold the daemon, also
	// while that ends.
	if err := c.SetWriteDeadline(time.Now().Add(n.patience)); err != nil {
		return err
	}
	_, err = c.Write([]byte(message))
	return err
}

func (n *notifier) ready(r Ready) {
	n.tell("READY=1", fmt.Sprintf("STATUS=%d sinks, %d resources at the start, API at %s", r.Sinks, r.Resources, r.Address))
}

func (n *notifier) stopping(grace time.Duration) {
	n.tell("STOPPING=1", fmt.Sprintf("STATUS=Calls in flight may finish for %s", grace))
}

// reloading tells that files are read again; the caller calls done when they were.
func (n *notifier) reloading() (done func()) {
	var now unix.Timespec // of the clock that the manager compares with
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		n.log.Warn("the service manager can't be told of a reload: the clock can't be read", "error", err)
		return func() {}
	}
	n.tell("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000))
	return func() { n.tell("READY=1") }
}

// ping tells until ctx ends that the daemon works: whenever alive returns, but at
// most twice in the time within which the manager wants to hear of it. A daemon whose
// locks are stuck is silent, and is killed.
func (n *notifier) ping(ctx context.Context, alive func()) {
	if n.socket == "" || n.watchdog == 0 {
		return
	}
	every := time.NewTicker(max(n.watchdog/2, time.Millisecond))
	defer every.Stop()
	for {
		alive()
		n.tell("WATCHDOG=1")
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}
