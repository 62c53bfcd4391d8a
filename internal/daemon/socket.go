package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"

	"github.com/pawlsync/pawl/config"
)

// socketMode is who may open the socket: our own user alone, or everybody, where
// the system's word on who it is decides. See access.Peers.
func socketMode(s config.Server) fs.FileMode {
	if len(s.SocketClients) > 0 {
		return 0o666
	}
	return 0o600
}

// listenSocket listens at a unix socket of that mode. One that a killed daemon left
// is replaced; one that somebody listens at, or another kind of file, is not touched.
func listenSocket(ctx context.Context, path string, mode fs.FileMode) (net.Listener, error) {
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	// Linux gives the file the mode that the socket has before it is bound, so
	// that nobody can come in between; elsewhere Fchmod fails and Chmod does it.
	lc := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) error {
		return conn.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), uint32(mode)) })
	}}
	l, err := lc.Listen(ctx, "unix", path)
	if err == nil {
		if err = os.Chmod(path, mode); err != nil {
			l.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the API can't listen at server.socket: %w", err)
	}
	return l, nil
}

func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("the API can't listen at server.socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("the API can't listen at server.socket: %s is there and is no socket; remove it, or choose another path", path)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		conn.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) { // somebody listens, or we may not ask
		return fmt.Errorf("the socket %s is in use; is another pawl running? Stop it, or choose another path with server.socket", path)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("the socket %s of a daemon that is gone can't be removed: %w", path, err)
	}
	return nil
}
