package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// process is a program that runs along, its output in a log.
type process struct {
	cmd  *exec.Cmd
	log  *os.File
	done chan error // the end of it; buffered
}

func startProcess(logFile string, env []string, name string, args ...string) (*process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(name, args...), log: log, done: make(chan error, 1)}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = log, log, env
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	go func() { p.done <- p.cmd.Wait() }()
	return p, nil
}

// ended reports whether the program ended by itself.
func (p *process) ended() bool {
	select {
	case err := <-p.done:
		p.done <- err
		return true
	default:
		return false
	}
}

// kill ends the program with SIGKILL: it can't clean up.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	p.done <- <-p.done
	return p.log.Close()
}

// stop asks the program to end, and kills it if it does not.
func (p *process) stop() error {
	if p.ended() {
		return nil
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return p.kill()
	}
	select {
	case err := <-p.done:
		p.done <- err
		return errors.Join(err, p.log.Close())
	case <-time.After(patience):
		return errors.Join(fmt.Errorf("%s did not stop when told to", p.cmd.Path), p.kill())
	}
}

func (d *demo) startTarget(ctx context.Context) (err error) {
	address := strings.TrimPrefix(d.store.base, "http://")
	d.targetProcess, err = startProcess(filepath.Join(d.state, "target.log"), os.Environ(),
		d.target, "-listen", address, "-dir", filepath.Join(d.state, "target"))
	if err != nil {
		return err
	}
	return d.answers(ctx, "the target", d.targetProcess, d.store.base+"/control/stats")
}

// startDaemon overrides the two addresses of pawl.yaml, which may be taken, and
// the store, which is the tour's.
func (d *demo) startDaemon(ctx context.Context) (err error) {
	store, err := filepath.Abs(filepath.Join(d.state, "store"))
	if err != nil {
		return err
	}
	d.daemonProcess, err = startProcess(filepath.Join(d.state, "daemon.log"),
		append(environment(), "PAWL_SERVER_LISTEN="+d.address, "PAWL_UPSTREAMS_TARGET_BASE_URL="+d.store.base, "PAWL_STORE_PATH="+store),
		d.pawl, "run", "--config", filepath.Join(d.dir, "pawl.yaml"))
	if err != nil {
		return err
	}
	return d.answers(ctx, "the daemon", d.daemonProcess, "http://"+d.address+"/readyz")
}

// environment is ours without what would configure pawl otherwise.
func environment() []string {
	var out []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "PAWL_") {
			out = append(out, kv)
		}
	}
	return out
}

// answers waits until url answers with success.
func (d *demo) answers(ctx context.Context, who string, p *process, url string) error {
	err := until(ctx, func() (bool, error) {
		if p.ended() {
			return false, errors.New("it ended")
		}
		res, err := request(ctx, http.MethodGet, url, "")
		if err != nil {
			return false, nil // not yet
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusOK, nil
	})
	if err != nil {
		return fmt.Errorf("%s does not answer at %s: %w", who, url, err)
	}
	return nil
}

// until calls fn until it returns true, for as long as there is patience.
func until(ctx context.Context, fn func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		done, err := fn()
		if done || err != nil {
			return err
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return fmt.Errorf("gave up after %s", patience)
		}
	}
}

func (d *demo) stopAll() error {
	var errs []error
	for _, p := range []*process{d.daemonProcess, d.targetProcess} {
		if p != nil {
			errs = append(errs, p.stop())
		}
	}
	return errors.Join(errs...)
}

// command shows and runs a pawl command; its output is the demo's.
func (d *demo) command(ctx context.Context, stdin string, args ...string) error {
	fmt.Printf("$ pawl %s\n", strings.Join(args, " "))
	cmd := d.pawlCommand(ctx, args)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("pawl %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// output runs a pawl command and returns what it printed.
func (d *demo) output(ctx context.Context, args ...string) ([]byte, error) {
	cmd := d.pawlCommand(ctx, args)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("pawl %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// apply applies documents without showing it.
func (d *demo) apply(ctx context.Context, docs string) (string, error) {
	cmd := d.pawlCommand(ctx, []string{"apply", "-f", "-", "-q"})
	cmd.Stdin = strings.NewReader(docs)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("pawl apply: %w: %s", err, bytes.TrimSpace(out))
	}
	return string(out), nil
}

func (d *demo) pawlCommand(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, d.pawl, args...)
	cmd.Env = append(environment(), "PAWL_ADDRESS=http://"+d.address)
	return cmd
}

// freeAddress returns preferred, or another port of this machine where that one is taken.
func freeAddress(preferred string) (string, error) {
	l, err := net.Listen("tcp", preferred)
	if err != nil {
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return "", err
		}
	}
	return l.Addr().String(), l.Close()
}
