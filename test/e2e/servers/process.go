// Package servers builds and starts the real servers that end-to-end tests and
// demos run against: etcd with kube-apiserver, SpiceDB, and Prometheus. They are built from
// pinned modules (../tools) into the user's cache folder, the first time that
// they are asked for, which takes minutes.
package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/pawlsync/pawl/internal/buildcache"
)

// packages maps programs to what is built, and in which folder of ../tools.
var packages = map[string]struct {
	module, pkg string
	flags       []string
}{
	"etcd":            {"etcd", "go.etcd.io/etcd/server/v3", nil},
	"kube-apiserver":  {"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", nil},
	"spicedb":         {"spicedb", "github.com/authzed/spicedb/cmd/spicedb", nil},
	"kubectl":         {"kubectl", "k8s.io/kubernetes/cmd/kubectl", nil},
	"prometheus":      {"prometheus", "github.com/prometheus/prometheus/cmd/prometheus", withoutDiscovery},
	"cyclonedx-gomod": {"../../../tools/sbom", "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod", nil},
	"promtool":        {"prometheus", "github.com/prometheus/prometheus/cmd/promtool", withoutDiscovery},
}

// withoutDiscovery leaves the clients of thirty clouds out of Prometheus: its targets
// are named here, not discovered.
var withoutDiscovery = []string{"-tags=remove_all_sd"}

// Build returns the path of a server's program, or of a tool that goes with one, and
// builds it where it is not in the cache yet.
func Build(ctx context.Context, name string) (string, error) {
	p, ok := packages[name]
	if !ok {
		return "", fmt.Errorf("no such server: %q", name)
	}
	_, here, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(here) {
		return "", errors.New("the sources of the servers' tools can't be found: this program was built with -trimpath")
	}
	return buildcache.Program(ctx, filepath.Join(filepath.Dir(here), "..", "tools", p.module), name, p.pkg, p.flags...)
}

// process is a server that runs.
type process struct {
	cmd  *exec.Cmd
	log  string // the file with its output
	done chan struct{}
}

// start runs a program with its output in dir/NAME.log.
func start(program, dir string, args ...string) (*process, error) {
	name := filepath.Base(program)
	log := filepath.Join(dir, name+".log")
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, log: log, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// stop ends the server: kindly, and after 10 s by force.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		p.kill()
	}
}

// kill ends the server as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// ready waits until check succeeds.
func (p *process) ready(ctx context.Context, check func(context.Context) error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended: %s\n%s", p.cmd.Path, p.cmd.ProcessState, tail(p.log))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w\n%s", p.cmd.Path, err, tail(p.log))
		case <-tick.C:
		}
	}
}

// tail returns the end of a log file.
func tail(path string) []byte {
	b, err := os.ReadFile(path)
	if err != nil {
		return []byte(err.Error())
	}
	return b[max(0, len(b)-4096):]
}

// freePorts returns n ports of the loopback address that nobody listens on.
func freePorts(n int) ([]string, error) {
	var ports []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all are held until the last is known, so that they differ
		ports = append(ports, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return ports, nil
}
