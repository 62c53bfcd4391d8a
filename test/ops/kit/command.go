package kit

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
)

// Command is a command of pawl that runs beside the test.
type Command struct {
	d     *Daemon
	name  string
	cmd   *exec.Cmd
	ended chan struct{}
	out   output
}

// output is what a command has printed so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Begin starts a command that goes on until it ends by itself, or the test does.
func (d *Daemon) Begin(command string) *Command {
	d.t.Helper()
	c := &Command{d: d, name: command, cmd: exec.Command(d.Program, strings.Fields(command)...), ended: make(chan struct{})}
	c.cmd.Dir, c.cmd.Env = d.Dir, d.environment()
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.out
	Must(d.t, c.cmd.Start())
	go func() {
		_ = c.cmd.Wait() // its exit code tells
		close(c.ended)
	}()
	d.t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.ended
	})
	return c
}

// Says waits until the command has printed that.
func (c *Command) Says(text string) {
	c.d.t.Helper()
	Eventually(c.d.t, "pawl "+c.name, func(context.Context) error {
		if out := c.out.String(); !strings.Contains(out, text) {
			return fmt.Errorf("it does not say %q, but:\n%s", text, out)
		}
		return nil
	})
}

// GoesOn checks that the command has not ended.
func (c *Command) GoesOn() {
	c.d.t.Helper()
	select {
	case <-c.ended:
		c.d.t.Errorf("pawl %s ended with exit code %d:\n%s", c.name, c.cmd.ProcessState.ExitCode(), c.out.String())
	default:
	}
}

// Fails waits until the command ends by itself, shows what it printed, and checks that
// it failed and says each part.
func (c *Command) Fails(parts ...string) {
	c.d.t.Helper()
	Eventually(c.d.t, "pawl "+c.name+" ends", func(context.Context) error {
		select {
		case <-c.ended:
			return nil
		default:
			return fmt.Errorf("it goes on:\n%s", c.out.String())
		}
	})
	c.d.failed(c.name, c.out.String(), c.cmd.ProcessState.ExitCode(), parts)
}
