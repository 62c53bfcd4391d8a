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
//
// The tests explore all that can happen to small sagas (explore_test.go), at targets
// that keep the contract of engine/sink/saga.go (world_test.go). What these need to
// keep for the promises to hold:
//
//   - A write or a restore lands at most once, and never after State.Steps.Pending:
//     its caller ends it by then, however long the journal took before.
//   - "Not now", "at it" and an OK that proves nothing leave a request on its way. Only
//     NotSent says that there is none.
//   - Conflict, AlreadyExists and NotFound may speak of what a proxy's first try wrote,
//     and are asked about. Any other refusal says that nothing was written.
//   - A write takes the locks, marks and changes the object in one, or does none of it.
//   - A deletion that is not the last step is marked as well: of an object that is gone
//     Observe says whose deletion it was, or the saga stays unresolved. Of the last
//     step it is enough that the object is gone.
//   - A later run's write takes an earlier run's mark away.
//   - Unlock and Restore may come any number of times. A restore looks for the mark when
//     it lands; where that can't be, the lock, which is not given up before the last
//     restore's deadline, keeps others off meanwhile.
//
// # What it does not promise
//
// The optimistic mode keeps nobody off. Rivals that begin by creating the same object
// are kept apart by that; others may see, overwrite and bring back what is not
// committed. Within one store the holds on resources exclude that.
//
// Whoever changes an object between the two tries of a restore makes the saga stuck,
// even though the first try had done all: from outside it looks like a change of what
// the saga wrote. An operator decides.
package saga
