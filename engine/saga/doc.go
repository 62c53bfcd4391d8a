// Package saga writes to several targets: in the end all of them are written or
// none, whatever dies in between.
//
// The way of one saga, in the order of the files: a Spec is checked against what
// its sinks can do (spec.go); the pure core decides what comes next (state.go,
// forward.go, backward.go): State.Next says which effect to carry out and whether
// the state must be durable first, State.Answered takes what came of it. The
// runner (runner.go) carries effects out and keeps the journal (journal.go), which
// is a record of the outbox's store.
//
// # What the core relies on
//
// Every write bears the mark of its run and step, and is conditional on the
// object's image from before. So a write whose answer was lost is asked for: the
// object bears the mark, or it does not and, once the deadline that every
// unanswered request carried has passed, it never will. Only a definitive answer
// of the target moves a saga; "don't know" is never success or failure.
package saga
