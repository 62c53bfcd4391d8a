package wasmhost

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Compiler is how modules that nobody vouches for are compiled: a small module
// can make a compiler take minutes and gigabytes. So it runs in a process apart
// with limits of its own, and this process only loads what it made.
type Compiler struct {
	// Command starts a process that calls CompileApart with the arguments that
	// follow Command's own. Defaults to none: modules are compiled in this
	// process, within the static limits of package meter only.
	Command []string
	// MemoryBytes is how much memory it may use. It is enforced on Linux.
	// Defaults to 1 GiB.
	MemoryBytes int64
	// CPU is how much CPU time it may use, in whole seconds. It is enforced on
	// Linux. Defaults to 1m.
	CPU time.Duration
	// Timeout is how long it may take. Defaults to 2m.
	Timeout time.Duration
}

// ErrCompile: a module could not be compiled within the limits.
var ErrCompile = errors.New("not compiled")

func (c *Compiler) setDefaults() {
	def(&c.MemoryBytes, 1<<30)
	def(&c.CPU, time.Minute)
	def(&c.Timeout, 2*time.Minute)
}

func (c *Compiler) validate() error {
	if c.MemoryBytes < 64<<20 || c.CPU < time.Second || c.Timeout < time.Second {
		return fmt.Errorf("the compiler's limits are %d bytes, %v of CPU time and %v; they must be at least 64 MiB, 1s and 1s", c.MemoryBytes, c.CPU, c.Timeout)
	}
	return nil
}

// order is what the compiling process is told, as its last argument. The module
// comes on its standard input.
type order struct {
	Dir         string        `json:"dir"`    // where the code goes
	Memory      int64         `json:"memory"` // bytes, of the host's limit for instances
	MemoryBytes int64         `json:"memory_bytes"`
	CPU         time.Duration `json:"cpu"`
	Timeout     time.Duration `json:"timeout"`
}

// run compiles wasm into dir in a process of its own.
func (c *Compiler) run(ctx context.Context, wasm []byte, dir string, memory int64) error {
	text, err := json.Marshal(order{dir, memory, c.MemoryBytes, c.CPU, c.Timeout})
	if err != nil {
		return err
	}
	timed, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	cmd := exec.CommandContext(timed, c.Command[0], append(c.Command[1:len(c.Command):len(c.Command)], string(text))...)
	cmd.Env, cmd.Dir = []string{}, dir // no secret of this process is any of its business
	cmd.Stdin = bytes.NewReader(wasm)
	var out, complaint head
	cmd.Stdout, cmd.Stderr = &out, &complaint
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case timed.Err() != nil:
		return fmt.Errorf("%w: it took longer than the limit compile_timeout of %v", ErrCompile, c.Timeout)
	case err != nil:
		return c.failed(cmd, err, complaint.String())
	case out.String() != compilerID():
		// Its code would not be found, and the module compiled here after all.
		return fmt.Errorf("%w: the compiling process is %q, and this one %q; restart the daemon", ErrCompile, out.String(), compilerID())
	}
	return nil
}

// failed says why the process ended as it did.
func (c *Compiler) failed(cmd *exec.Cmd, err error, complaint string) error {
	if cmd.ProcessState == nil {
		return fmt.Errorf("%w: the compiling process did not start: %w", ErrCompile, err)
	}
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	switch {
	case strings.Contains(complaint, "out of memory"), strings.Contains(complaint, "cannot allocate memory"),
		strings.Contains(complaint, "failed to allocate"),                                                                   // the race detector's words
		strings.Contains(complaint, "pthread_create failed"), strings.Contains(complaint, "failed to create new OS thread"), // no room for a stack
		strings.HasPrefix(complaint, "SIGSEGV") && peakBytes(cmd.ProcessState) >= c.MemoryBytes/2: // a mapping was refused to who did not check
		return fmt.Errorf("%w: it needs more memory than the limit compile_memory_bytes of %d", ErrCompile, c.MemoryBytes)
	case !cmd.ProcessState.Exited() && cpu >= c.CPU*3/4: // the kernel tells a tenth less than it counted
		return fmt.Errorf("%w: it took more CPU time than the limit compile_cpu of %v", ErrCompile, c.CPU)
	case complaint != "":
		line, _, _ := strings.Cut(complaint, "\n")
		return fmt.Errorf("%w: %s", ErrCompile, line)
	}
	return fmt.Errorf("%w: the compiling process: %w", ErrCompile, err)
}

// head keeps the first bytes of what is written to it.
type head struct{ bytes.Buffer }

func (h *head) Write(b []byte) (int, error) {
	const most = 4096
	h.Buffer.Write(b[:min(len(b), max(0, most-h.Len()))])
	return len(b), nil
}

// CompileApart is the main function of the process that Compiler.Command
// starts: args are what was appended to it. It limits its own process, so
// nothing else is to run there, and exits by itself when its time is up.
func CompileApart(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	var o order
	if len(args) != 1 {
		return errors.New("this is run by the daemon, with one argument")
	}
	if err := json.Unmarshal([]byte(args[0]), &o); err != nil {
		return fmt.Errorf("this is run by the daemon: %w", err)
	}
	if o.Dir == "" || o.Memory <= 0 || o.MemoryBytes <= 0 || o.CPU < time.Second || o.Timeout <= 0 {
		return errors.New("this is run by the daemon, with its limits")
	}
	time.AfterFunc(o.Timeout, func() { os.Exit(1) }) // were the daemon killed, nobody else would end it
	if err := limitProcess(o.MemoryBytes, o.CPU); err != nil {
		return fmt.Errorf("limiting the compiling process: %w", err)
	}
	wasm, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	rt, cache, _, err := compileModule(ctx, wasm, o.Dir, o.Memory)
	if err != nil {
		return err
	}
	if err := errors.Join(rt.Close(ctx), cache.Close(ctx)); err != nil {
		return err
	}
	_, err = io.WriteString(out, compilerID())
	return err
}
