package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
)

const sourceConfirmLong = `Confirm shows the deletions that the fuse of a source holds, and deletes them when
you say so. It deletes exactly what it showed: where the source has told something
else meanwhile, nothing is deleted and the list is to be looked at again. On a
terminal it asks; elsewhere, and with -o json or yaml, it deletes only with --yes.

What is not to be deleted needs no command: give it back to the source. The list
is empty again when the source has everything that was held.`

func (a *app) sourceConfirmCommand() *cobra.Command {
	var (
		yes   bool
		limit int
	)
	cmd := &cobra.Command{
		Use:   "confirm NAME",
		Short: "Delete what a source's fuse holds",
		Long:  sourceConfirmLong,
		Example: `  pawl source confirm manifests
  pawl source confirm manifests --limit 1000 -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > pageSize {
				return usage(cmd, "--limit %d is not from 1 to %d", limit, pageSize)
			}
			return exactly("NAME")(cmd, args)
		},
		ValidArgsFunction: a.completeSources,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(c *client.Client) error { return a.confirmSource(cmd.Context(), c, args[0], limit, yes) })
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "delete without asking")
	cmd.Flags().IntVar(&limit, "limit", 20, "show at most so many; the whole is counted in any case")
	a.outputFlag(cmd)
	return cmd
}

func (a *app) confirmSource(ctx context.Context, c *client.Client, name string, limit int, yes bool) error {
	held, err := c.HeldOfSource(ctx, name, "", limit)
	if err != nil {
		return err
	}
	err = a.print(held, func() { a.printHeld(name, &held) })
	if err != nil || !yes && (held.Total == 0 || a.output != "table") { // a program that wants to know
		return err
	}
	if !yes {
		switch yes, asked := a.agreed(fmt.Sprintf("Delete %s?", plural(held.Total, "resource"))); {
		case !asked:
			fmt.Fprintf(a.Err, "pawl: nothing is deleted without --yes\n")
			return errSilent{ExitError}
		case !yes:
			fmt.Fprintln(a.Err, "pawl: nothing was deleted")
			return errSilent{ExitError}
		}
	}
	n, err := c.ConfirmSource(ctx, name, held.Digest)
	if p := new(api.Problem); held.Total == 0 && errors.As(err, &p) && p.Code == api.CodeNothingToDo {
		return nil // which is said already
	}
	if err != nil {
		return err
	}
	if a.output == "table" {
		fmt.Fprintf(a.Out, "source %s: %s to be deleted\n", name, plural(n, "resource"))
	}
	return nil
}

func (a *app) printHeld(name string, held *api.SourceHeld) {
	if held.Total == 0 {
		fmt.Fprintf(a.Out, "source %s: nothing is held\n", name)
		return
	}
	fmt.Fprintf(a.Out, "%s of source %s held for %s: %s\n\n", plural(held.Total, "deletion"), name, a.age(held.Since), held.Why)
	columns := []string{"RESOURCE"} // no place is known of what was told before the start, or is another pawl's
	if slices.ContainsFunc(held.Items, func(it api.SourceHeldItem) bool { return it.Place != "" }) {
		columns = append(columns, "LAST SEEN AT")
	}
	t := a.table(columns...)
	for _, it := range held.Items {
		cells := []string{it.Sink + "/" + it.Key, cmp.Or(it.Place, "-")}
		t.add(cells[:len(columns)]...)
	}
	t.print()
	if more := held.Total - len(held.Items); more > 0 {
		fmt.Fprintf(a.Out, "and %d more; --limit shows them\n", more)
	}
	fmt.Fprintln(a.Out)
}

// agreed asks the person at the terminal; asked: there is one.
func (a *app) agreed(question string) (yes, asked bool) {
	if !a.InTerminal || !a.ErrTerminal {
		return false, false
	}
	fmt.Fprintf(a.Err, "%s [y/N] ", question)
	line, _ := bufio.NewReader(a.In).ReadString('\n')
	line = strings.ToLower(strings.TrimSpace(line))
	return line == "y" || line == "yes", true
}
