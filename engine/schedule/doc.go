// Package schedule decides which resource is delivered next: what is due, in
// which order, how much at once, and which sink has to wait.
//
// It is pure. Time comes in as an argument, decisions go out as values; it
// starts no goroutine, reads no clock and does no I/O, so that a simulated year
// runs in seconds. It is also a cache: whatever it holds can be rebuilt from the
// store at Open. A Schedule is not safe for concurrent use: the engine guards it
// with one mutex.
//
// # The states of an entry
//
// One entry stands for one resource. The engine calls Set after each commit that
// changed what is planned, Next when it can take work, Done when a delivery has
// ended, and Settle when the outcome of that delivery is in the store. Between
// Done and Settle the entry is held: its plan is of the past, and dispatching it
// would repeat what was just done. A commit that has nothing to do with the
// delivery (a Put during it) calls Set, which changes the plan and nothing else:
//
//	state      Set            Remove    Next        Done      Settle                Release
//	absent     waiting        -         -           -         waiting               -
//	waiting    new plan       absent    in flight   -         new plan              -
//	in flight  new plan       removed   -           held      new plan, in flight   -
//	removed    in flight      -         -           absent    in flight             -
//	held       new plan       absent    -           -         waiting, new plan     waiting
//
// "removed" is in flight still, and goes when the delivery ends; a Set until then
// is a new life of the key, which waits for the end of the old life's call. A
// dash means that the call does nothing.
//
// An entry is dispatchable if and only if it is waiting and due, its sink is
// configured, not suspended and not paused, the sink's breaker is closed or the
// entry is to be its next probe, no limit is reached (the sink's in flight and rate,
// and Options.MaxInFlight), and, where the sink takes batches, fresh entries don't wait
// for company (batch.go).
//
// # Order
//
// Sinks that have something dispatchable take turns, one dispatch each, so none
// is delayed by how much waits for another. Within a sink, where several classes
// have due work, Fresh, Retry and Check share dispatches 12:3:1; within a class
// what was due first goes first.
//
// # Clocks
//
// Waits are kept on a clock of the schedule's own that never goes back. Where the
// caller's was set back by more than a second, that clock goes on from where it
// was: a backoff, pause, probe or rate that was waited for ends after the
// time that it had left, however far away its wall time now looks (R40).
//
// # Memory
//
// 5 million entries live in memory beside the store, so entries, names, heaps and
// the hash table are chunks without pointers: the garbage collector has nothing
// to scan, nothing is copied whole when it grows, and an entry costs under 100
// bytes, a name of 30 bytes included. Space of removed entries is used again, not
// given back. At most 1<<31 resources and 32 GiB of names fit.
package schedule
