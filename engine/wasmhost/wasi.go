package wasmhost

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	"time"
)

// The part of WASI preview 1 that Go, Rust and C guests link. A guest has a
// clock, entropy, and a stderr that goes to the log; no arguments, environment,
// files or sockets. Every length is capped, so that no call takes long.

// Error numbers of WASI.
const (
	wasiOK    = 0
	wasiBadF  = 8
	wasiInval = 28
	wasiNoSys = 52
)

// Caps of what one call may ask for.
const (
	maxEntropy       = 64 << 10 // bytes of random_get
	maxVectors       = 64       // of fd_write; the guest writes the rest itself
	maxSubscriptions = 64       // of poll_oneoff
	maxPollSleep     = 100 * time.Millisecond
	unitsPerEntropy  = 4 // a byte, in fuel
)

var wasiFuncs = []hostFunc{
	{"args_get", types(i32, i32), types(i32), errno(wasiOK)},
	{"args_sizes_get", types(i32, i32), types(i32), wasiNone},
	{"environ_get", types(i32, i32), types(i32), errno(wasiOK)},
	{"environ_sizes_get", types(i32, i32), types(i32), wasiNone},
	{"clock_res_get", types(i32, i32), types(i32), clockRes},
	{"clock_time_get", types(i32, i64, i32), types(i32), clockTime},
	{"random_get", types(i32, i32), types(i32), randomGet},
	{"sched_yield", types(), types(i32), errno(wasiOK)},
	{"proc_exit", types(i32), types(), procExit},
	{"proc_raise", types(i32), types(i32), errno(wasiNoSys)},
	{"poll_oneoff", types(i32, i32, i32, i32), types(i32), pollOneoff},
	{"fd_write", types(i32, i32, i32, i32), types(i32), fdWrite},
	{"fd_read", types(i32, i32, i32, i32), types(i32), fdRead},
	{"fd_fdstat_get", types(i32, i32), types(i32), fdstatGet},
	{"fd_close", types(i32), types(i32), errno(wasiBadF)},
	{"fd_fdstat_set_flags", types(i32, i32), types(i32), errno(wasiBadF)},
	{"fd_fdstat_set_rights", types(i32, i64, i64), types(i32), errno(wasiBadF)},
	{"fd_advise", types(i32, i64, i64, i32), types(i32), errno(wasiBadF)},
	{"fd_allocate", types(i32, i64, i64), types(i32), errno(wasiBadF)},
	{"fd_datasync", types(i32), types(i32), errno(wasiBadF)},
	{"fd_filestat_get", types(i32, i32), types(i32), errno(wasiBadF)},
	{"fd_filestat_set_size", types(i32, i64), types(i32), errno(wasiBadF)},
	{"fd_filestat_set_times", types(i32, i64, i64, i32), types(i32), errno(wasiBadF)},
	{"fd_pread", types(i32, i32, i32, i64, i32), types(i32), errno(wasiBadF)},
	{"fd_prestat_get", types(i32, i32), types(i32), errno(wasiBadF)},
	{"fd_prestat_dir_name", types(i32, i32, i32), types(i32), errno(wasiBadF)},
	{"fd_pwrite", types(i32, i32, i32, i64, i32), types(i32), errno(wasiBadF)},
	{"fd_readdir", types(i32, i32, i32, i64, i32), types(i32), errno(wasiBadF)},
	{"fd_renumber", types(i32, i32), types(i32), errno(wasiBadF)},
	{"fd_seek", types(i32, i64, i32, i32), types(i32), errno(wasiBadF)},
	{"fd_sync", types(i32), types(i32), errno(wasiBadF)},
	{"fd_tell", types(i32, i32), types(i32), errno(wasiBadF)},
	{"path_create_directory", types(i32, i32, i32), types(i32), errno(wasiBadF)},
	{"path_filestat_get", types(i32, i32, i32, i32, i32), types(i32), errno(wasiBadF)},
	{"path_filestat_set_times", types(i32, i32, i32, i32, i64, i64, i32), types(i32), errno(wasiBadF)},
	{"path_link", types(i32, i32, i32, i32, i32, i32, i32), types(i32), errno(wasiBadF)},
	{"path_open", types(i32, i32, i32, i32, i32, i64, i64, i32, i32), types(i32), errno(wasiBadF)},
	{"path_readlink", types(i32, i32, i32, i32, i32, i32), types(i32), errno(wasiBadF)},
	{"path_remove_directory", types(i32, i32, i32), types(i32), errno(wasiBadF)},
	{"path_rename", types(i32, i32, i32, i32, i32, i32), types(i32), errno(wasiBadF)},
	{"path_symlink", types(i32, i32, i32, i32, i32), types(i32), errno(wasiBadF)},
	{"path_unlink_file", types(i32, i32, i32), types(i32), errno(wasiBadF)},
	{"sock_accept", types(i32, i32, i32), types(i32), errno(wasiNoSys)},
	{"sock_recv", types(i32, i32, i32, i32, i32, i32), types(i32), errno(wasiNoSys)},
	{"sock_send", types(i32, i32, i32, i32, i32), types(i32), errno(wasiNoSys)},
	{"sock_shutdown", types(i32, i32), types(i32), errno(wasiNoSys)},
}

func errno(code uint64) func(*instance, []uint64) {
	return func(_ *instance, stack []uint64) { stack[0] = code }
}

// wasiNone says that there are 0 arguments or variables, of 0 bytes.
func wasiNone(in *instance, stack []uint64) {
	in.put32(stack[0], 0)
	in.put32(stack[1], 0)
	stack[0] = wasiOK
}

func (in *instance) put32(ptr uint64, v uint32) {
	binary.LittleEndian.PutUint32(in.view(ptr, 4), v)
}

func (in *instance) put64(ptr uint64, v uint64) {
	binary.LittleEndian.PutUint64(in.view(ptr, 8), v)
}

func clockRes(in *instance, stack []uint64) {
	if uint32(stack[0]) > 1 {
		stack[0] = wasiInval
		return
	}
	in.put64(stack[1], 1)
	stack[0] = wasiOK
}

// clockTime offers the real (0) and the monotonic (1) clock, in nanoseconds.
func clockTime(in *instance, stack []uint64) {
	in.charge(unitsPerCall)
	now, ok := in.clock(uint32(stack[0]))
	if !ok {
		stack[0] = wasiInval
		return
	}
	in.put64(stack[2], now)
	stack[0] = wasiOK
}

func (in *instance) clock(id uint32) (uint64, bool) {
	switch id {
	case 0:
		return uint64(time.Now().UnixNano()), true
	case 1:
		// 0 would read as "no time" in some guests.
		return uint64(time.Since(in.born)) + 1, true
	}
	return 0, false
}

func randomGet(in *instance, stack []uint64) {
	b := in.view(stack[0], stack[1])
	if len(b) > maxEntropy {
		stack[0] = wasiInval
		return
	}
	in.charge(unitsPerCall + unitsPerEntropy*int64(len(b)))
	rand.Read(b) // never fails
	stack[0] = wasiOK
}

func procExit(_ *instance, stack []uint64) {
	violate(FaultExit, "it ended itself with proc_exit(%d)", int32(stack[0]))
}

// fdWrite takes what is written to stdout and stderr as lines for the log.
func fdWrite(in *instance, stack []uint64) {
	fd := uint32(stack[0])
	if fd != 1 && fd != 2 {
		stack[0] = wasiBadF
		return
	}
	vectors := in.view(stack[1], uint64(min(uint32(stack[2]), maxVectors))*8)
	var text []byte
	for total := 0; len(vectors) > 0 && total < maxLine; vectors = vectors[8:] {
		ptr, n := binary.LittleEndian.Uint32(vectors), binary.LittleEndian.Uint32(vectors[4:])
		n = min(n, uint32(maxLine-total))
		text = append(text, in.view(uint64(ptr), uint64(n))...)
		total += int(n)
	}
	in.chargeBytes(len(text))
	in.stderr(text)
	in.put32(stack[3], uint32(len(text)))
	stack[0] = wasiOK
}

// stderr logs whole lines and keeps the rest for the next write.
func (in *instance) stderr(text []byte) {
	in.line = append(in.line, text...)
	rest := in.line
	for {
		line, after, found := bytes.Cut(rest, []byte{'\n'})
		if !found && len(rest) < maxLine {
			break
		}
		in.charge(unitsPerCall)
		if len(bytes.TrimSpace(line)) > 0 {
			in.sink.guestLog.line(slog.LevelInfo, "", line)
		}
		rest = after
	}
	in.line = append(in.line[:0], rest...)
}

// fdRead finds stdin at its end.
func fdRead(in *instance, stack []uint64) {
	if uint32(stack[0]) != 0 {
		stack[0] = wasiBadF
		return
	}
	in.put32(stack[3], 0)
	stack[0] = wasiOK
}

// fdstatGet describes the standard streams as character devices.
func fdstatGet(in *instance, stack []uint64) {
	if uint32(stack[0]) > 2 {
		stack[0] = wasiBadF
		return
	}
	b := in.view(stack[1], 24)
	clear(b)
	b[0] = 2                                   // character device
	binary.LittleEndian.PutUint64(b[8:], 1<<6) // the right to write
	stack[0] = wasiOK
}

// pollOneoff sleeps until the earliest clock of the subscriptions, but not for
// long: the instance is blocked meanwhile. A guest that wakes early looks at
// its clock and waits again. Descriptors are ready at once.
//
// A subscription has 48 bytes: user data at 0, tag at 8 (0: clock), and for a
// clock its id at 16, timeout at 24, flags at 40 (1: absolute). An event has
// 32: user data at 0, error at 8, type at 10.
func pollOneoff(in *instance, stack []uint64) {
	n := uint32(stack[2])
	if n == 0 || n > maxSubscriptions {
		stack[0] = wasiInval
		return
	}
	subs, events := in.view(stack[0], uint64(n)*48), in.view(stack[1], uint64(n)*32)
	wait := maxPollSleep
	for i := range n {
		sub := subs[i*48:][:48]
		if sub[8] != 0 {
			wait = 0
			continue
		}
		wait = min(wait, in.clockWait(sub))
	}
	in.charge(unitsPerCall + unitsPerByte*80*int64(n))
	if wait > 0 {
		began := time.Now()
		in.sleep(wait)
		in.slept(time.Since(began))
	}
	for i := range n {
		sub, ev := subs[i*48:][:48], events[i*32:][:32]
		clear(ev)
		copy(ev[:8], sub[:8])
		ev[10] = sub[8]
	}
	in.put32(stack[3], n)
	stack[0] = wasiOK
}

func (in *instance) clockWait(sub []byte) time.Duration {
	timeout := binary.LittleEndian.Uint64(sub[24:])
	if sub[40]&1 != 0 {
		now, ok := in.clock(binary.LittleEndian.Uint32(sub[16:]))
		if !ok || timeout <= now {
			return 0
		}
		timeout -= now
	}
	return time.Duration(min(timeout, uint64(maxPollSleep)))
}
