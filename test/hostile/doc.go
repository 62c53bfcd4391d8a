// Package hostile runs plugins that are out to do harm, in the real host under
// the real engine, beside a sink that behaves.
//
// A trial (trial_test.go) is a module and how it must end: it is refused when it
// is loaded or opened, or its calls end as a fault of a certain kind, or the host
// carries on. While it does its worst, for each of them:
//
//   - the neighbour, a sink that gets work at a fixed rate, is served at that
//     rate, and the 99th percentile of how long its work takes is at most three
//     times that of the same neighbour undisturbed in the same run
//     (neighbour_test.go says how this is measured on a busy machine);
//   - memory stays bounded;
//   - the error names plugin, sink, key and cause, as a result, in the log and in
//     the resource's status;
//   - nothing is left behind: no goroutine, no instance, no byte on the books.
//
// The trials are in files by what they attack. daemon_test.go has all of them in
// one run of the real daemon.
package hostile
