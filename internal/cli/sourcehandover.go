package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
)

const sourceHandoverLong = `Handover makes what a source owns another source's own, or nobody's. Nothing changes
at the targets, and no call is made. It is for a source that was renamed, split or
removed: what a source of the configuration no longer has would be deleted
otherwise, and what belongs to one that left can't be changed by anybody else.

The new owner is asked for all that it has. What it does not have is deleted then,
as far as its fuse allows. What nobody owns belongs to the first source that puts it.`

func (a *app) sourceHandoverCommand() *cobra.Command {
	var (
		nobody bool
		prefix string
	)
	cmd := &cobra.Command{
		Use:   "handover FROM TO | FROM --nobody",
		Short: "Make a source's resources another one's",
		Long:  sourceHandoverLong,
		Example: `  pawl source handover old-manifests manifests
  pawl source handover manifests users --prefix web/users/
  pawl source handover manifests --nobody`,
		Args: func(cmd *cobra.Command, args []string) error {
			if nobody {
				return exactly("FROM")(cmd, args)
			}
			if len(args) == 1 {
				return usage(cmd, "name the source that takes over after %s, or say --nobody", args[0])
			}
			if len(args) == 2 && args[0] == args[1] {
				return usage(cmd, "%s can't hand over to itself; name another source", args[0])
			}
			return exactly("FROM", "TO")(cmd, args)
		},
		ValidArgsFunction: a.completeSourcePair,
		RunE: func(cmd *cobra.Command, args []string) error {
			r := api.SourceHandover{Nobody: nobody}
			if !nobody {
				r.To = args[1]
			}
			if prefix != "" {
				r.Sink, r.Prefix, _ = strings.Cut(prefix, "/")
			}
			return a.withClient(func(c *client.Client) error {
				n, err := c.HandOver(cmd.Context(), args[0], r)
				if err != nil {
					return err
				}
				return a.print(api.SourceHandedOver{Resources: n}, func() {
					fmt.Fprintf(a.Out, "%s of %s: now %s\n", plural(n, "resource"), args[0], ternary(nobody, "nobody's", "those of "+r.To))
				})
			})
		},
	}
	cmd.Flags().BoolVar(&nobody, "nobody", false, "nobody takes over")
	cmd.Flags().StringVar(&prefix, "prefix", "", "only of this sink, or with keys that begin so: SINK or SINK/PREFIX")
	a.outputFlag(cmd)
	return cmd
}

// completeSources offers the names of sources that are not there yet.
func (a *app) completeSources(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	var out []string
	_ = a.withClient(func(c *client.Client) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
		defer cancel()
		list, err := c.Sources(ctx)
	next:
		for i := range list {
			for _, arg := range args {
				if arg == list[i].Name {
					continue next
				}
			}
			if strings.HasPrefix(list[i].Name, toComplete) {
				out = append(out, list[i].Name)
			}
		}
		return err
	})
	return out, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) completeSourcePair(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeSources(cmd, args, toComplete)
}
