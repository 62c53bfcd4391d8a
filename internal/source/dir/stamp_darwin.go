package dir

import "syscall"

func stampOfStat(st *syscall.Stat_t) stamp {
	return stamp{size: st.Size, modified: st.Mtimespec.Nano(), changed: st.Ctimespec.Nano(), id: fileID{uint64(st.Dev), st.Ino}}
}
