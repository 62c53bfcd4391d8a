// Package sim simulates the whole engine under faults: a seed decides what
// clients ask for, how targets behave, when the disk fails and when the power is
// cut, and the promises of docs/behaviour.md are checked at every step and at the
// end. Its clock is fake: an hour takes milliseconds.
//
// A failing seed prints the history of the resource that it is about. It can be
// played again:
//
//	go test ./test/sim -seed 42
//	go test ./test/sim -seeds 20000    # many more than by default
package sim
