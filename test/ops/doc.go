// Package ops holds drills: what happens to a daemon that somebody operates, done to
// the built program, and shown as that person sees it, by commands, log and metrics.
// It has no code of its own.
//
// make drills runs all of them at full size, and prints what they show:
//
//	go test ./test/ops -count=1 -v -full
//
// What a disk and the death of processes do to stored state is test/crash's in depth.
package ops
