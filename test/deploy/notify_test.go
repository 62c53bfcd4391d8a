package deploy

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// manager is a service manager's end of the protocol: what the daemon tells.
type manager struct {
	*net.UnixConn
	pings int // told so far
}

func listen(t *testing.T, address string) *manager {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &manager{UnixConn: c}
}

// next returns the next message, by name; pings are left out but where they are what
// is waited for. A daemon that says nothing more fails the test.
func (m *manager) next(t *testing.T, want string) map[string]string {
	t.Helper()
	buffer := make([]byte, 4096)
	for {
		if err := m.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		n, err := m.Read(buffer)
		if err != nil {
			t.Fatalf("waiting for %s: %v", want, err)
		}
		said := map[string]string{}
		for line := range strings.SplitSeq(string(buffer[:n]), "\n") {
			name, value, _ := strings.Cut(line, "=")
			said[name] = value
		}
		_, ping := said["WATCHDOG"]
		if ping {
			m.pings++
		}
		if !ping || want == "WATCHDOG" {
			if _, ok := said[want]; !ok {
				t.Fatalf("it said %q, want %s", buffer[:n], want)
			}
			return said
		}
	}
}

const quiet = `
server: {listen: "127.0.0.1:0", shutdown_grace: 7s}
store: {path: store, reserve_bytes: 64MiB}
sinks: {}
`

func TestTheManagerIsToldOfTheDaemonsWholeLife(t *testing.T) {
	for _, c := range []struct{ name, socket string }{
		{"a socket in the file system", filepath.Join(t.TempDir(), "notify")},
		{"an abstract socket", fmt.Sprintf("@pawl-test-%d", os.Getpid())},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := listen(t, c.socket)
			p := start(t, quiet, "NOTIFY_SOCKET="+c.socket)
			if said := m.next(t, "READY"); said["READY"] != "1" || !strings.Contains(said["STATUS"], p.address) {
				t.Errorf("when it was ready it said %q", said)
			}
			if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			since, err := strconv.ParseInt(m.next(t, "RELOADING")["MONOTONIC_USEC"], 10, 64)
			if uptime := uptime(t); err != nil || since <= 0 || time.Duration(since)*time.Microsecond > uptime {
				t.Errorf("it reloads since %d µs (%v), while the machine runs for %s", since, err, uptime)
			}
			m.next(t, "READY")
			p.stop(t)
			if said := m.next(t, "STOPPING"); !strings.Contains(said["STATUS"], "7s") {
				t.Errorf("when it stopped it said %q", said)
			}
		})
	}
}

// uptime is what the clock of MONOTONIC_USEC shows at most.
func uptime(t *testing.T) time.Duration {
	t.Helper()
	text, _, _ := strings.Cut(read(t, "/proc/uptime"), " ")
	d, err := time.ParseDuration(text + "s")
	if err != nil {
		t.Fatal(err)
	}
	return d + 10*time.Millisecond // it is cut to hundredths
}

func TestTheWatchdogIsFedWhileTheDaemonWorks(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	m := listen(t, socket)
	p := start(t, quiet, "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=20000")
	for range 3 {
		m.next(t, "WATCHDOG")
	}
	p.stop(t)
}

func TestAManagerOfAnotherProcessIsNotFed(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	m := listen(t, socket)
	p := start(t, quiet, "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=1000", "WATCHDOG_PID=1")
	p.stop(t)
	m.next(t, "READY")
	m.next(t, "STOPPING")
	if m.pings != 0 {
		t.Errorf("it pinged %d times for somebody else", m.pings)
	}
}

func TestADaemonWhoseManagerIsGoneGoesOn(t *testing.T) {
	p := start(t, quiet, "NOTIFY_SOCKET="+filepath.Join(t.TempDir(), "nobody"))
	p.until(t, "the service manager can't be told how the daemon is")
	p.stop(t)
}
