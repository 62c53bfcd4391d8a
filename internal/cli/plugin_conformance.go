package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/internal/conformance"
)

const pluginTestLong = `Test runs the conformance kit on the plugin in FILE, which may also be the name of a
bundled one: it plays the engine, and a target that works, fails and is changed
by others, and looks whether the plugin keeps the contract. Each failed check says
what the contract wants, what happened, and how to fix it.

The plugin runs in the real host. Its one upstream is by default a scripted
key-value store over HTTP, in which every path is an object (PUT or POST, GET,
PATCH, DELETE); --upstream puts a target of yours in its place, behind a gate that
makes it fail. Keys there begin as the fixture says, and are deleted afterwards.

What to try it with stands in a fixture: the file fixture.yaml beside FILE, or
the one of --fixture. All of it is optional:

  config: {prefix: /objects}      # of the sink
  bad_configs: [{prefix: 7}]      # configure must refuse them
  key: conformance-{n}            # {n} tells keys apart
  payloads:                       # JSON of a mapping, or a text as it is; {key}, {key.base64} and {n} are filled in
    create: {text: one, size: 1}
    update: {text: two, size: 2}
    removed: {text: two}          # update without a field
  upstream:
    name: target                  # what the config calls it
    kind: http
    url: http://127.0.0.1:8080    # a real target, as --upstream
    protocol: h2c                 # how the plugin and it speak; left out: HTTP/1.1
    bearer_file: token            # credentials for it, which the plugin never sees
    header_files: {X-Api-Key: key}
  store:                          # the scripted one
    adds: {id: 7}                 # fields that it adds to every JSON object
    routes: [{method: GET, path: /version, status: 200, body: {version: 1}}]
  drift: {method: PUT, path: "/objects/{key}", body: {text: other}}   # at a real target, somebody else's change of what update wrote
  vanish: {method: DELETE, path: "/objects/{key}"}                    # the same, a removal
  reads: [/search]                # below these paths a POST changes nothing
  skip: {unicode-keys: the target takes ASCII alone}`

func (a *app) pluginTestCommand() *cobra.Command {
	var fixture, target, filter, junit string
	var list, verbose bool
	var calls int
	cmd := &cobra.Command{
		Use:   "test FILE",
		Short: "Test whether a plugin keeps the contract",
		Long:  pluginTestLong,
		Example: `  pawl plugin test things.wasm
  pawl plugin test things.wasm --run 'fault-|replay' --verbose
  pawl plugin test things.wasm --upstream http://127.0.0.1:8080 --junit report.xml
  pawl plugin test --list`,
		Args: func(cmd *cobra.Command, args []string) error {
			if list {
				return exactly()(cmd, args)
			}
			return exactly("FILE")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if list {
				return a.listChecks()
			}
			if calls < 1 {
				return usage(cmd, "--calls needs a number above 0")
			}
			o := conformance.Options{Host: a.hostOptions(), Calls: calls}
			if filter != "" {
				var err error
				if o.Filter, err = regexp.Compile(filter); err != nil {
					return usage(cmd, "--run is no regular expression: %v", err)
				}
			}
			wasm, name, err := readModule(args[0])
			if err != nil {
				return err
			}
			if o.Fixture, err = readFixture(fixture, args[0], target); err != nil {
				return err
			}
			report, err := conformance.Run(cmd.Context(), wasm, name, o)
			if err != nil {
				return err
			}
			return a.printReport(report, junit, verbose)
		},
	}
	a.outputFlag(cmd)
	cmd.Flags().StringVar(&fixture, "fixture", "", "file that says what to try it with (default fixture.yaml beside FILE, if there is one)")
	cmd.Flags().StringVar(&target, "upstream", "", "[NAME=]URL of a real target, instead of the scripted one")
	cmd.Flags().StringVar(&filter, "run", "", "run only the checks whose ID this regular expression matches")
	cmd.Flags().IntVar(&calls, "calls", 500, "calls in each round of the check that memory stays flat; more find smaller leaks")
	cmd.Flags().StringVar(&junit, "junit", "", "write the report as JUnit XML too, to this file")
	cmd.Flags().BoolVar(&list, "list", false, "list the checks and what each wants")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "show the checks that passed, too")
	return cmd
}

// listedCheck is one line of `pawl plugin test --list`.
type listedCheck struct {
	ID    string `json:"id"`
	Wants string `json:"wants"`
	Fix   string `json:"fix"`
}

func (a *app) listChecks() error {
	var checks []listedCheck
	t := a.table("CHECK", "WANTS")
	for _, c := range conformance.Checks() {
		checks = append(checks, listedCheck{ID: c.ID, Wants: c.Wants, Fix: c.Fix})
		t.add(c.ID, c.Wants)
	}
	return a.print(map[string]any{"items": checks}, t.print)
}

func (a *app) printReport(r *conformance.Report, junit string, verbose bool) error {
	if junit != "" {
		if err := writeFile(junit, r.WriteJUnit); err != nil {
			return fmt.Errorf("writing --junit: %w", err)
		}
	}
	var printed error
	err := a.print(r, func() { printed = r.WriteText(a.Out, verbose) })
	if err := errors.Join(err, printed); err != nil {
		return err
	}
	if r.Count(conformance.Failed) > 0 {
		return errSilent{ExitError}
	}
	return nil
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
