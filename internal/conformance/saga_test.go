package conformance

import (
	"regexp"
	"strings"
	"testing"
)

// sagaFaults are further ways to break what the checks of sagas hold, for
// TestEachCheckFailsOnTheFaultMadeForIt: each fails the checks of its row, and no
// other of them.
var sagaFaults = map[string][]string{
	"saga-mark-equal":    {"saga-mark"}, // equal content is taken for the step's
	"saga-mark-deletion": {"saga-mark"}, // takes others' deletion for the step's
	"saga-mark-lost":     {"saga-mark"}, // what was written is known by its answer alone

	"saga-image-create":  {"saga-image"},                                        // create-only takes over what is there
	"saga-image-window":  {"saga-image"},                                        // looks, then writes whatever is there
	"saga-image-content": {"saga-image", "saga-restore", "saga-restore-delete"}, // none to bring back

	"saga-restore-idle":            {"saga-restore", "saga-restore-delete"}, // says OK and does nothing
	"saga-restore-empty":           {"saga-restore", "saga-restore-delete"}, // brings back another content
	"saga-restore-mark":            {"saga-restore", "saga-restore-delete"}, // leaves the mark
	"saga-restore-changed":         {"saga-restore"},                        // overwrites others' change
	"saga-restore-recreated":       {"saga-restore"},                        // removes others' object
	"saga-restore-delete-replaced": {"saga-restore-delete"},                 // overwrites others' object

	"saga-lock-none":    {"saga-lock"},                // takes none
	"saga-lock-partial": {"saga-lock"},                // takes one after the other
	"saga-lock-own":     {"saga-lock", "saga-unlock"}, // takes them for the step, not for the run
	"saga-lock-written": {"saga-lock"},                // says CONFLICT, and writes

	"saga-unlock-kept":   {"saga-lock", "saga-unlock"}, // gives nothing up
	"saga-unlock-twice":  {"saga-unlock"},
	"saga-unlock-object": {"saga-restore", "saga-restore-delete", "saga-unlock"}, // takes the object along
	"saga-unlock-others": {"saga-unlock"},                                        // gives up other runs' as well
}

var sagasOnly = regexp.MustCompile("^saga-")

func TestChecksOfSagasAreForThoseThatClaimThem(t *testing.T) {
	r := run(t, wrongGuest(t), `{"modest":true}`, sagasOnly)
	for _, res := range r.Results {
		if res.Outcome != Skipped || !strings.Contains(res.Text, "the manifest does not claim") {
			t.Errorf("%s of an adapter that takes no part: %s %s", res.ID, res.Outcome, res.Text)
		}
	}
}
