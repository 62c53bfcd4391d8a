package docs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlsync/pawl/test/ops/kit"
)

// prelude is what every page's script begins with.
const prelude = `set -euo pipefail
ip link set lo up
printf 'silent\nshow-error\nwrite-out = "\\n"\n' >.curlrc
daemon() { # starts the daemon of pawl.yaml, and returns when it takes Puts
	PAGE_DAEMON= pawl run --config pawl.yaml 2>>pawl.log &
	daemon=$!
	while kill -0 $daemon; do curl -sf http://127.0.0.1:7295/readyz >readyz && return; sleep 0.1; done
	cat pawl.log; exit 1
}
stop() { kill $daemon; wait $daemon; }
`

// wrapper is pawl as the scripts call it: what never ends by itself is interrupted after a
// while; "there are differences", and that nothing is deleted without --yes where nobody can
// be asked, are no failures.
const wrapper = `#!/bin/sh
case "$1" in
run) [ "${PAGE_DAEMON-}" ] || exec %[1]s "$@"; timeout -s INT 2 %[1]s "$@" || [ $? = 124 ] ;;
watch|top) timeout -s INT 2 %[1]s "$@" || [ $? = 124 ] ;;
plan|diff) %[1]s "$@" || [ $? = 2 ] ;;
source) %[1]s "$@" || [ "$2 $?" = "confirm 1" ] ;;
*) exec %[1]s "$@" ;;
esac
`

// run runs a script on a machine of its own in dir, and returns all that it printed.
func run(t *testing.T, dir, script string) (string, error) {
	t.Helper()
	programs := t.TempDir()
	pawl := kit.Pawl(t)
	target := kit.Build(t, "target", "./examples/quickstart/target")
	kit.Must(t, os.Symlink(target, filepath.Join(programs, "target")))
	kit.Must(t, os.WriteFile(filepath.Join(programs, "pawl"), fmt.Appendf(nil, wrapper, pawl), 0o755))
	kit.Must(t, os.WriteFile(filepath.Join(programs, "ssh"), []byte("#!/bin/sh\nshift; exec sh -c \"$*\"\n"), 0o755))
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-c", prelude+script)
	shell.Dir = dir
	shell.Env = append(kit.Environment(), "PATH="+programs+":"+os.Getenv("PATH"), "HOME="+dir,
		"GOCACHE="+goEnv(t, "GOCACHE"), "GOMODCACHE="+goEnv(t, "GOMODCACHE"), "GOFLAGS=-mod=mod", "GOPROXY=off", "XDG_CACHE_HOME="+cache(t))
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: syscall.CLONE_NEWNET}
	if os.Getuid() != 0 {
		shell.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		shell.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		shell.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	// A file, not a pipe: what goes on in the background would hold a pipe open.
	out, err := os.CreateTemp(programs, "out")
	kit.Must(t, err)
	defer out.Close()
	shell.Stdout, shell.Stderr = out, out
	if err := shell.Start(); err != nil {
		t.Skip("needs the right to make a network namespace: ", err)
	}
	defer func() { _ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) }()
	ended := shell.Wait()
	said, err := os.ReadFile(out.Name())
	kit.Must(t, err)
	return string(said), ended
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	kit.Must(t, err)
	return strings.TrimSpace(string(out))
}

// cache is the user's own, so that compiled plugins are found there.
func cache(t *testing.T) string {
	t.Helper()
	dir, err := os.UserCacheDir()
	kit.Must(t, err)
	return dir
}
