package access

import (
	"net"
	"os"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestTheSystemSaysWhichOtherUserConnectedAndItsGroups(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	var many []uint32 // more than are asked for at first
	for g := range uint32(100) {
		many = append(many, 6000+g)
	}
	type answer struct {
		peer Peer
		err  error
	}
	answers := make(chan answer)
	go func() {
		defer close(answers)
		runtime.LockOSThread() // for good: the thread is somebody else from here on, and ends with us
		p, err := dialled(t, func(path string) (net.Conn, error) {
			// The calls of package unix are for all threads of the process.
			for _, call := range [][4]uintptr{
				{unix.SYS_SETGROUPS, uintptr(len(many)), uintptr(unsafe.Pointer(&many[0])), 0},
				{unix.SYS_SETRESGID, ^uintptr(0), 5001, ^uintptr(0)},
				{unix.SYS_SETRESUID, ^uintptr(0), 5000, ^uintptr(0)},
			} {
				if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
					return nil, errno
				}
			}
			conn, err := net.Dial("unix", path)
			_, _, _ = unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 0, ^uintptr(0))
			return conn, err
		})
		answers <- answer{p, err}
	}()
	a := <-answers
	if a.err != nil || a.peer.UID != 5000 || !slices.Equal(a.peer.Groups, append([]uint32{5001}, many...)) {
		t.Errorf("%+v, %v", a.peer, a.err)
	}
}
