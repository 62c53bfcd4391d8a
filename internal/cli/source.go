package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
	"github.com/pawlsync/pawl/internal/duration"
)

const sourceLong = `A source is a place where desired state is kept, outside of pawl: a directory, a
cluster, another pawl. It owns the resources that it puts, and what it no longer
has is deleted, as far as its fuse allows. docs/sources.md says more.`

func (a *app) sourceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "source",
		Short: "Look after the sources of desired state",
		Long:  sourceLong,
		Args:  onlyCommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.sourceListCommand(), a.sourceStatusCommand(), a.sourceRescanCommand(), a.sourceConfirmCommand(), a.sourceHandoverCommand())
	return cmd
}

func (a *app) sourceListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List sources",
		Long: `List shows every source of the configuration, the pawls that have sent, and what
belongs to sources that left the configuration: that stays as it is until it is
handed over (` + "`pawl source handover`" + `) or its source returns.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(func(c *client.Client) error {
				list, err := c.Sources(cmd.Context())
				if err != nil {
					return err
				}
				return a.print(api.SourceList{Items: list}, func() { a.printSources(list) })
			})
		},
	}
	a.outputFlag(cmd)
	return cmd
}

func (a *app) printSources(list []api.Source) {
	if len(list) == 0 {
		fmt.Fprintln(a.Out, "no sources")
		return
	}
	t := a.table("SOURCE", "KIND", "STATE", "RESOURCES", "LAST FULL SET", "LAST CONTACT", "HELD", "BAD", "TROUBLE")
	t.colour = func(column int, cell string) string {
		if column == 2 {
			return paintSource(cell)
		}
		if (column == 6 || column == 7) && cell != "0" {
			return "\x1b[31m" + cell + "\x1b[0m"
		}
		return cell
	}
	for i := range list {
		s := &list[i]
		t.add(s.Name, cmp.Or(s.Kind, "-"), s.State, strconv.Itoa(s.Resources), a.since(s.FullAt), a.since(s.ContactAt), strconv.Itoa(s.Held), strconv.Itoa(s.Kept),
			cmp.Or(s.Trouble, s.NothingDeleted()))
	}
	t.print()
}

// since says how long ago something was; "-": never.
func (a *app) since(t time.Time) string { return ternary(t.IsZero(), "-", a.age(t)+" ago") }

// paintSource colours a source's state as paintPhase does a phase.
func paintSource(state string) string {
	switch state {
	case api.SourceDeclares:
		return state
	case api.SourceRunning:
		return "\x1b[32m" + state + "\x1b[0m"
	case api.SourceFailing, api.SourceNotConfigured:
		return "\x1b[31m" + state + "\x1b[0m"
	}
	return "\x1b[33m" + state + "\x1b[0m"
}

func (a *app) sourceStatusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status NAME",
		Short: "Show how a source does, and what is wrong with what it has",
		Long: `Status shows a source with its fuse, and the first 100 things that it has and that
can't be read or were refused, each with its place: a file and a line, say. What
they stand for stays as it is.`,
		Example:           "  pawl source status manifests",
		Args:              exactly("NAME"),
		ValidArgsFunction: a.completeSources,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(c *client.Client) error {
				s, err := c.Source(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.print(s, func() { a.printSource(&s) })
			})
		},
	}
	a.outputFlag(cmd)
	return cmd
}

// printSource prints all that people want to know of one source.
func (a *app) printSource(s *api.Source) {
	t := a.table("Source:", s.Name)
	row := func(name, value string) {
		if value != "" {
			t.add(name+":", value)
		}
	}
	row("Kind", s.Kind)
	row("Settings of", s.Group)
	row("State", s.State)
	if s.Trouble != "" {
		row("Trouble", fmt.Sprintf("%s (for %s)", s.Trouble, a.age(s.TroubleAt)))
	}
	if !s.FullAt.IsZero() {
		row("Last full set", fmt.Sprintf("%s, %s ago", plural(s.FullItems, "resource"), a.age(s.FullAt)))
	}
	if !s.ContactAt.IsZero() {
		row("Last contact", a.since(s.ContactAt))
	} else if s.Group != "" { // a pawl that sends
		row("Last contact", "none since the daemon started")
	}
	if s.Senders {
		row("Declares", "senders "+strings.Join(s.Declares, ", ")+", each a source by its own name")
		t.print()
		return
	}
	row("Owns", plural(s.Resources, "resource"))
	row("Deletions", s.NothingDeleted())
	if s.Held > 0 {
		row("Held", fmt.Sprintf("%s, for %s: %s", plural(s.Held, "deletion"), a.age(s.HeldAt), s.HeldWhy))
		t.add("", "see `pawl source confirm "+s.Name+"`")
	}
	if f := s.Fuse; f != nil {
		row("Fuse", fmt.Sprintf("%d of %d deletions used within %s, of at most %s%s", f.Deleted, f.Allowed, duration.Text(time.Duration(f.Window)),
			plural(f.Largest, "resource"), ternary(f.Blown, "; blown: everything further is held", "")))
	}
	if s.State == api.SourceNotConfigured {
		row("Next", "what it owns stays; put it back into the configuration, or `pawl source handover "+s.Name+"`")
	}
	t.print()
	if s.Kept == 0 {
		return
	}
	fmt.Fprintf(a.Out, "\n%s can't be taken:\n", plural(s.Kept, "thing"))
	p := a.table("PLACE", "RESOURCE", "WHY")
	for _, x := range s.Problems {
		p.add(cmp.Or(x.Place, "-"), ternary(x.Key == "", "-", x.Sink+"/"+x.Key), x.Message)
	}
	p.print()
	if more := s.Kept - len(s.Problems); more > 0 {
		fmt.Fprintf(a.Out, "and %d more\n", more)
	}
}

func (a *app) sourceRescanCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rescan NAME ...",
		Short: "Ask sources for everything that they have",
		Long: `Rescan makes a source tell everything that it has, as soon as it can, as it does
at the start. It does not wait for that; ` + "`pawl source status`" + ` shows when it was.`,
		Args:              atLeastOne("NAME"),
		ValidArgsFunction: a.completeSources,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(c *client.Client) error {
				return eachOf(a, args, func(name string) error {
					err := c.RescanSource(cmd.Context(), name)
					if err == nil {
						fmt.Fprintf(a.Out, "source %s: will be read again\n", name)
					}
					return err
				})
			})
		},
	}
}
