package access

import "golang.org/x/sys/unix"

// peerOf asks for the user that connected, and for the groups it had.
func peerOf(fd int) (Peer, error) {
	const local = 0 // SOL_LOCAL of sys/un.h
	c, err := unix.GetsockoptXucred(fd, local, unix.LOCAL_PEERCRED)
	if err != nil {
		return Peer{}, err
	}
	n := min(max(int(c.Ngroups), 0), len(c.Groups))
	return Peer{UID: c.Uid, Groups: append([]uint32(nil), c.Groups[:n]...)}, nil
}
