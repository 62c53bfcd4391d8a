package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/pawlsync/pawl/test/e2e/servers"
)

// spiceArgs starts a PostgreSQL and returns the flags that make SpiceDB keep its data
// there, as it does in earnest. Where there is no PostgreSQL there are no flags, and
// SpiceDB keeps its data in memory.
func spiceArgs(r *report) (args []string, stop func(), err error) {
	initdb, err := exec.LookPath("initdb")
	if err != nil {
		r.line("there is no initdb in PATH: SpiceDB keeps its data in memory, where a write waits for no disk")
		return nil, func() {}, nil
	}
	// A folder of its own: PostgreSQL does not run as root, nor in root's folders.
	dir, err := os.MkdirTemp("", "pawl-bench-pg-")
	if err != nil {
		return nil, nil, err
	}
	attr := &syscall.SysProcAttr{}
	if u, err := user.Lookup("postgres"); err == nil && os.Geteuid() == 0 {
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, uid, gid); err != nil {
			return nil, nil, err
		}
	}
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(r.ctx, name, args...)
		cmd.Dir, cmd.SysProcAttr = dir, attr
		return cmd
	}
	data := filepath.Join(dir, "data")
	if out, err := command(initdb, "-D", data, "-A", "trust", "-U", "postgres").CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	server := command(filepath.Join(filepath.Dir(initdb), "postgres"), "-D", data, "-k", dir, "-h", "127.0.0.1", "-p", port)
	if err := server.Start(); err != nil {
		return nil, nil, err
	}
	stop = func() {
		_ = server.Process.Signal(syscall.SIGINT)
		_ = server.Wait()
		_ = os.RemoveAll(dir)
	}
	uri := "postgres://postgres@127.0.0.1:" + port + "/postgres?sslmode=disable"
	args = []string{"--datastore-engine", "postgres", "--datastore-conn-uri", uri}
	if err := migrate(r.ctx, args); err != nil {
		stop()
		return nil, nil, err
	}
	return args, stop, nil
}

// migrate makes SpiceDB's tables. PostgreSQL takes a moment until it listens.
func migrate(ctx context.Context, args []string) error {
	spicedb, err := servers.Build(ctx, "spicedb")
	if err != nil {
		return err
	}
	var out []byte
	for range 20 {
		cmd := exec.CommandContext(ctx, spicedb, append([]string{"datastore", "migrate", "head", "--skip-release-check"}, args...)...)
		if out, err = cmd.CombinedOutput(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("spicedb datastore migrate: %w\n%s", err, out)
}
