package conformance

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("update", false, "rewrite docs/plugins/conformance.md")

const docsHead = `# The conformance kit

<!-- Generated from internal/conformance; write it anew with: go test ./internal/conformance -run Fresh -update -->

` + "`pawl plugin test FILE`" + ` tells whether a plugin keeps the contract. It runs the module in the
real host, plays the engine, and puts a target behind the plugin that works, fails and is changed by
others. [Its flags and the fixture](../cli.md#pawl-plugin-test) say what it is tried with.

What it takes for granted is what the engine takes for granted:

- The plugin's one upstream is a gate in front of the target: a scripted key-value store in which
  every path is an object, or with ` + "`--upstream`" + ` a target of yours. The gate records what is sent, and
  breaks it.
- Each check has a sink, a gate and keys of its own, and checks run side by side. At a target of
  yours, keys are the fixture's with a number that no other run has, and are deleted afterwards.
- A resource is brought to a content as the engine does it: one Apply where the manifest claims
  apply_confirms and apply_idempotent, else Observe, Apply, Observe. What was acknowledged goes to the
  calls that follow.
- The checks of sagas play a run's steps: a look for the image, the write, a question for the mark,
  Restore, Unlock. Others' writes are Applies that are no saga's and, at a target of yours, the fixture's
  ` + "`drift`" + ` and ` + "`vanish`" + `; without these two, what they would show is not tried.
- A check that an adapter can't take (no batches, nothing to observe) is skipped, and says why. What a
  target can't do is skipped by the fixture's ` + "`skip`" + `, with a reason.
- Whatever a check does, the plugin must not trap or break the ABI.

Each check has a wrong adapter that fails it, ` + "`plugins/testguest/wrong`" + `: a check that nothing fails is
no check.

| check | what the contract wants | how to mend it |
|---|---|---|
`

func TestTheReferenceIsFresh(t *testing.T) {
	var b strings.Builder
	b.WriteString(docsHead)
	for _, c := range Checks() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", c.ID, c.Wants, c.Fix)
	}
	path := filepath.Join("..", "..", "docs", "plugins", "conformance.md")
	if *rewrite {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != b.String() {
		t.Errorf("%s is stale (%v); write it anew with: go test ./internal/conformance -run Fresh -update", path, err)
	}
}
