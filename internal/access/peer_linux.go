package access

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// peerOf asks for the user that connected, and for the groups it had.
func peerOf(fd int) (Peer, error) {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Peer{}, err
	}
	more, err := peerGroups(fd)
	return Peer{UID: c.Uid, Groups: append([]uint32{c.Gid}, more...)}, err
}

// peerGroups asks for the supplementary groups, which package unix has no function for.
func peerGroups(fd int) ([]uint32, error) {
	groups := make([]uint32, 64)
	for {
		size := uint32(len(groups) * 4) // in bytes; the kernel answers with what it has
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0)
		switch {
		case errno == 0:
			return groups[:size/4], nil
		case errors.Is(errno, unix.ERANGE) && int(size/4) > len(groups):
			groups = make([]uint32, size/4)
		case errors.Is(errno, unix.ENOPROTOOPT): // a kernel before 4.13
			return nil, nil
		default:
			return nil, errno
		}
	}
}
