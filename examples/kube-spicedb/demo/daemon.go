package main

import (
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

// daemon is a `pawl run`, its log in a file.
type daemon struct {
	cmd    *exec.Cmd
	socket string
	ended  chan struct{}
	err    error // how it ended; after ended is closed
}

// startDaemon runs pawl with the example's configuration, but for what is this
// run's: the targets' addresses and keys, the store, and a socket in place of the
// usual port, which may be taken. It dies where failpoints say, as PAWL_FAILPOINTS.
func (d *demo) startDaemon(ctx context.Context, failpoints string) (*daemon, error) {
	log, err := os.OpenFile(filepath.Join(d.state, "daemon.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &daemon{
		cmd:    exec.Command(d.pawl, "run", "--config", filepath.Join(d.dir, "pawl.yaml")),
		socket: filepath.Join(d.state, "pawl.sock"), ended: make(chan struct{}),
	}
	p.cmd.Env = append(environment(),
		"PAWL_SERVER_LISTEN=127.0.0.1:0", "PAWL_SERVER_SOCKET="+p.socket,
		"PAWL_STORE_PATH="+filepath.Join(d.state, "store"), "PAWL_FAILPOINTS="+failpoints,
		"PAWL_UPSTREAMS_CLUSTER_KUBERNETES_KUBECONFIG="+d.cluster.Kubeconfig,
		"PAWL_UPSTREAMS_SPICEDB_BASE_URL=http://"+d.spicedb.Address,
		"SPICEDB_KEY="+d.spicedb.Key)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	if err := p.ready(ctx); err != nil {
		return nil, fmt.Errorf("the daemon does not answer: %w", errors.Join(err, p.stop()))
	}
	return p, nil
}

// ready waits until the daemon answers.
func (p *daemon) ready(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-p.ended: // it will never answer
			cancel()
		case <-ctx.Done():
		}
	}()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", p.socket)
	}}}
	defer client.CloseIdleConnections()
	return until(ctx, func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://pawl/readyz", nil)
		if err != nil {
			return err
		}
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return errors.New(res.Status)
		}
		return nil
	})
}

// stop asks the daemon to end, and kills it if it does not.
func (p *daemon) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return p.err
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.ended
		return errors.New("the daemon did not stop when told to")
	}
}

// killed waits until the daemon has ended, and fails where anything but SIGKILL
// ended it.
func (p *daemon) killed(ctx context.Context) error {
	select {
	case <-p.ended:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(patience):
		return errors.New("the daemon lives")
	}
	var exit *exec.ExitError
	if errors.As(p.err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			return nil
		}
	}
	return fmt.Errorf("the daemon was not killed, but ended by itself: %v", p.err)
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

// command shows and runs a pawl command; its output is the demo's.
func (d *demo) command(ctx context.Context, args ...string) error {
	fmt.Printf("$ pawl %s\n", strings.Join(args, " "))
	cmd := d.pawlCommand(ctx, args)
	cmd.Stdout = os.Stdout
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("pawl %s: %w", args[0], err)
	}
	return nil
}

// fails runs a command as d.command does, which has to end with the exit code.
func (d *demo) fails(ctx context.Context, code int, args ...string) error {
	var exit *exec.ExitError
	switch err := d.command(ctx, args...); {
	case err == nil:
		return fmt.Errorf("pawl %s ended with 0, and should have with %d", args[0], code)
	case !errors.As(err, &exit) || exit.ExitCode() != code:
		return fmt.Errorf("%w, and should have ended with %d", err, code)
	}
	fmt.Printf("  (exit code %d)\n", code)
	return nil
}

// output runs a pawl command and returns what it printed.
func (d *demo) output(ctx context.Context, args ...string) ([]byte, error) {
	out, err := d.pawlCommand(ctx, args).Output()
	if err != nil {
		return nil, fmt.Errorf("pawl %s: %w", args[0], err)
	}
	return out, nil
}

func (d *demo) pawlCommand(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, d.pawl, args...)
	cmd.Env = append(environment(), "PAWL_ADDRESS=unix://"+d.daemon.socket)
	cmd.Stderr = os.Stderr
	return cmd
}
