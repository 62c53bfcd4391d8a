package saga

import (
	"fmt"
	"os"
	"strings"

	"github.com/pawlsync/pawl/internal/api"
)

// failed is the result of a case that broke the promise, or could not be played.
const failed = "FAILED"

// faults are the columns.
var faults = []string{killed, twice, killedLate, lost, late, down, away}

// letters are how a result is written in a cell.
var letters = map[string]string{api.SagaCommitted: "C", api.SagaRolledBack: "R", failed: "**failed**"}

// writeTable writes what became of the cases that were played.
func writeTable(path string, results map[trial]string) error {
	var b strings.Builder
	bad := 0
	for _, r := range results {
		if r == failed {
			bad++
		}
	}
	fmt.Fprintf(&b, tableHead, len(results), len(trials()), bad)
	summary(&b, results)
	for _, mode := range []string{"pessimistic", "optimistic"} {
		for i := range operations {
			o := &operations[i]
			for _, refused := range []bool{false, true} {
				section(&b, mode, o, refused, results)
			}
		}
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// summary counts the cases by mode and fault.
func summary(b *strings.Builder, results map[trial]string) {
	b.WriteString("\n| mode | fault | cases | committed | rolled back | failed |\n|---|---|---|---|---|---|\n")
	for _, mode := range []string{"pessimistic", "optimistic"} {
		for _, fault := range faults {
			count, all := map[string]int{}, 0
			for c, r := range results {
				if c.mode == mode && c.fault == fault {
					count[r]++
					all++
				}
			}
			fmt.Fprintf(b, "| %s | %s | %d | %d | %d | %d |\n", mode, fault, all, count[api.SagaCommitted], count[api.SagaRolledBack], count[failed])
		}
	}
}

// section is the table of one operation, by point.
func section(b *strings.Builder, mode string, o *operation, refused bool, results map[trial]string) {
	if o.optimisticOnly && mode == "pessimistic" {
		return
	}
	var points []string
	cells := map[string]map[string]string{}
	for _, c := range o.trials(mode, refused) {
		if cells[c.point] == nil {
			points, cells[c.point] = append(points, c.point), map[string]string{}
		}
		cells[c.point][c.fault] = "not played"
		if r, ok := results[c]; ok {
			cells[c.point][c.fault] = letters[r]
		}
	}
	title := mode + ", " + o.name
	if refused {
		title += ", the last step refused"
	}
	fmt.Fprintf(b, "\n## %s\n\n| point | %s |\n|---|%s\n", title, strings.Join(faults, " | "), strings.Repeat("---|", len(faults)))
	for _, p := range points {
		fmt.Fprintf(b, "| %s |", p)
		for _, f := range faults {
			fmt.Fprintf(b, " %s |", cells[p][f])
		}
		b.WriteString("\n")
	}
}

const tableHead = `# Sagas: the fault matrix

Written by ` + "`make saga-matrix`" + ` against a real kube-apiserver with etcd, and SpiceDB: %d of %d cases, %d failed.

A case is one saga over an object and the relationships that say who may use it, and one fault. The daemon is a process
of its own; "killed" is SIGKILL. After the fault, and a restart where it died, the same saga is asked for again until it
has ended. Then both servers are asked, not through Pawl:

- all of it is written where the caller was told Committed, and all is as it was where the caller was told RolledBack,
  row by row, and the same object by its uid; no answer ever told another outcome;
- no lock and no mark of the run is left in SpiceDB, once every request that was still on its way has arrived;
- a saga whose last step its target refuses is rolled back; a pessimistic one that is not refused commits, unless the
  target was away past the saga's deadline.

| operation | steps, in this order |
|---|---|
| create | the grant of its owner; the object |
| update | the owner's grant replaced by another's; the object's content |
| delete | one grant, another hand's stays; the object |
| delete by filter | all grants of the object, with their caveats; the object |
| create, three steps | a grant; the object; another grant removed |
| create, update, cluster first | the object; the grant |

| fault | |
|---|---|
| killed | at a point without a number of a request: there. At a request: when the target has answered it, before the daemon sees that |
| killed twice | there, and again where the next process comes by the same point |
| killed, then late | when the request is sent; it lands when the daemon runs again, shortly before its deadline |
| answer lost | the target did it, and the connection ends without an answer |
| late | the connection ends, and the request lands shortly before its deadline |
| down for a while | from this request on the target does not answer; it comes back within the saga's time |
| down past deadline | it comes back when the saga's time is over |

Points are the daemon's failpoints ("before-journal write 2": nothing says yet that the second step's write is sent), and
requests ("write 2"). "Adopt" and "end" are the journal's last two entries, "unlock" gives up locks and marks, "restore"
is an undo. C: committed. R: rolled back. Empty: there is no such case.
`
