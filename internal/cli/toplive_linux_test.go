package cli

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/pawlsync/pawl/internal/api"
)

// openTerminal returns both ends of a pseudo terminal.
func openTerminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("there are no pseudo terminals here: ", err)
	}
	t.Cleanup(func() { person.Close() })
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	if program, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	if err := unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 20, Col: 120}); err != nil {
		t.Fatal(err)
	}
	return person, program
}

// readUntil reads what a program draws until it has drawn want.
func readUntil(t *testing.T, person *os.File, want string) string {
	t.Helper()
	var drawn bytes.Buffer
	b := make([]byte, 4096)
	for !strings.Contains(drawn.String(), want) {
		n, err := person.Read(b)
		if err != nil {
			t.Fatalf("%v after\n%q\nwithout %q", err, drawn.String(), want)
		}
		drawn.Write(b[:n])
	}
	return drawn.String()
}

func TestTopIsLiveOnATerminal(t *testing.T) {
	d := newFakeDaemon(t)
	person, program := openTerminal(t)
	before, err := term.GetState(int(program.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan int, 1)
	go func() {
		s := Streams{In: program, Out: program, Err: program, Env: []string{"PAWL_ADDRESS=" + d.URL}, InTerminal: true, OutTerminal: true, Width: 120}
		ended <- Main(t.Context(), []string{"top", "--interval", "10ms"}, s, api.Version{Version: "v1.2.3"})
	}()
	first := readUntil(t, person, "by name;")
	if !strings.Contains(first, "\x1b[?1049h") || !strings.Contains(first, "web") {
		t.Errorf("it draws %q", first)
	}
	for _, key := range []struct{ press, shows string }{{"w", "by waiting;"}, {"x", "by waiting;"}, {"i", "by in-flight;"}} {
		if _, err := person.WriteString(key.press); err != nil {
			t.Fatal(err)
		}
		readUntil(t, person, key.shows)
	}
	d.CloseClientConnections()
	d.Listener.Close()
	readUntil(t, person, "! ") // and it goes on
	if _, err := person.WriteString("q"); err != nil {
		t.Fatal(err)
	}
	readUntil(t, person, "\x1b[?1049l")
	if code := <-ended; code != ExitDone {
		t.Errorf("exit code %d", code)
	}
	if after, err := term.GetState(int(program.Fd())); err != nil || *after != *before {
		t.Errorf("the terminal is left changed: %v", err)
	}
}
