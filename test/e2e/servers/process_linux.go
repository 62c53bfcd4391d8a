package servers

import "syscall"

// dieWithParent keeps a server from outliving the test that started it.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
