package cli

import (
	"fmt"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/engine/outbox/badger"
)

func (a *app) storeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Look at the store on disk",
		Args:  onlyCommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.storeCheckCommand())
	return cmd
}

func (a *app) storeCheckCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "check [DIR]",
		Short: "Read everything in a store and say what is wrong",
		Long: `Check reads every record of the store in DIR, or of the configuration's, and
compares checksums, numbers and the mark of what was acknowledged. It changes
nothing. The daemon must not run meanwhile. The exit code is 1 when something is
wrong.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(cmd, "store check takes one DIR, but got %s", given(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := a.storeDir(file, args)
			if err != nil {
				return err
			}
			report, err := badger.Check(cmd.Context(), dir, a.checkProgress())
			if err != nil {
				return err
			}
			return a.printCheck(&report)
		},
	}
	configFlag(cmd, &file)
	a.outputFlag(cmd)
	return cmd
}

func (a *app) storeDir(file string, args []string) (string, error) {
	if len(args) == 1 {
		return args[0], nil
	}
	c, err := a.loadConfig(file, nil)
	if err != nil {
		return "", err
	}
	return c.Store.Path, nil
}

// checkProgress counts keys on a terminal; nil elsewhere.
func (a *app) checkProgress() func(done, total int) {
	if !a.ErrTerminal {
		return nil
	}
	return func(done, total int) {
		fmt.Fprintf(a.Err, "\r%d of %d keys", done, total)
		if done == total {
			fmt.Fprint(a.Err, "\r\x1b[K")
		}
	}
}

// shadowFolder is where a check opens the tables, so as to write nothing into the
// store's own folder. People know only the latter.
var shadowFolder = regexp.MustCompile(`[^\s"]*pawl-check-[0-9]+`)

func (a *app) printCheck(r *badger.Report) error {
	view := struct {
		Directory string   `json:"directory"`
		Format    int      `json:"format"`
		Epoch     string   `json:"epoch"`
		Lossy     bool     `json:"lossy,omitempty"`
		Revision  uint64   `json:"revision"`
		Resources int      `json:"resources"`
		Statuses  int      `json:"statuses"`
		Documents int      `json:"documents"`
		Bytes     int64    `json:"bytes"`
		Frames    int      `json:"frames"`
		Problems  []string `json:"problems"`
		Omitted   int      `json:"problemsOmitted,omitempty"`
	}(*r)
	view.Problems = []string{} // an empty list, not null
	for _, p := range r.Problems {
		view.Problems = append(view.Problems, shadowFolder.ReplaceAllLiteralString(p, filepath.Join(r.Directory, "data")))
	}
	err := a.print(view, func() {
		fmt.Fprintf(a.Out, "%s: format %d, revision %d, %s, %s\n", r.Directory, r.Format, r.Revision, plural(r.Resources, "resource"), size(r.Bytes))
		if r.Lossy {
			fmt.Fprintln(a.Out, "it lost acknowledged data once, and that was accepted")
		}
		if len(view.Problems) == 0 {
			fmt.Fprintln(a.Out, "nothing is wrong")
		}
		for _, p := range view.Problems {
			fmt.Fprintln(a.Out, a.loud("! "+p))
		}
		if r.Omitted > 0 {
			fmt.Fprintf(a.Out, "and %s more\n", plural(r.Omitted, "problem"))
		}
	})
	if err == nil && len(r.Problems) > 0 {
		err = errSilent{ExitError}
	}
	return err
}
