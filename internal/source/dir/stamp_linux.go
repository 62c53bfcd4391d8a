package dir

import "syscall"

func stampOfStat(st *syscall.Stat_t) stamp {
	return stamp{size: st.Size, modified: st.Mtim.Nano(), changed: st.Ctim.Nano(), id: fileID{uint64(st.Dev), st.Ino}}
}
