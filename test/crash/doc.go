// Package crash runs the real daemon, with the real http plugin, and does to it
// what the world does: SIGKILL at any instant, power cuts, damaged files, a full
// disk, two daemons on one store. The promises of docs/behaviour.md are checked
// against a ledger of every answer that clients got, and against a target that
// checks the order of what reaches it.
//
// A failing test prints its seed and the history of the resource that it is
// about, and keeps its folder:
//
//	go test ./test/crash -run Kills -seed 42
//	go test ./test/crash -run Kills -kills 500    # many more than by default
package crash
