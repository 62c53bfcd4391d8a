package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
)

func (a *app) watchCommand() *cobra.Command {
	var (
		from    string
		initial bool
	)
	cmd := &cobra.Command{
		Use:   "watch [SINK[/PREFIX]]",
		Short: "Print changes as they happen, until interrupted",
		Long: `Watch prints the newest state of each resource that changes; states in
between may be skipped. It goes on by itself, without a gap, when the
connection or the daemon restarts.`,
		Example: `  pawl watch web --initial
  pawl watch -o json | jq .resource.status.phase`,
		ValidArgsFunction: a.completeKeys,
		RunE: func(cmd *cobra.Command, args []string) error {
			if initial && from != "" {
				return usage(cmd, "--initial starts with the present state, --from with an older one; give one of them")
			}
			sink, prefix, err := parseKeyPrefix(cmd, args)
			if err != nil {
				return err
			}
			return a.watch(cmd, client.WatchOptions{Sink: sink, Prefix: prefix, From: from}, initial)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "resume after the event with this token (default from now on)")
	cmd.Flags().BoolVar(&initial, "initial", false, "print the present state first")
	a.outputFlag(cmd)
	return cmd
}

func (a *app) watch(cmd *cobra.Command, o client.WatchOptions, initial bool) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	if initial {
		if o.From, err = a.printInitial(cmd, c, o); err != nil {
			return err
		}
	}
	for event, err := range c.Watch(cmd.Context(), o) {
		if err != nil {
			return err
		}
		if err := a.printEvent(&event); err != nil {
			return err
		}
	}
	return nil
}

// printInitial prints what there is and returns the token from which nothing
// that happens since is missed.
func (a *app) printInitial(cmd *cobra.Command, c *client.Client, o client.WatchOptions) (token string, err error) {
	list := client.ListOptions{Sink: o.Sink, Prefix: o.Prefix, Limit: pageSize}
	for {
		page, err := c.List(cmd.Context(), list)
		if err != nil {
			return "", err
		}
		if token == "" {
			token = page.Token
		}
		for _, r := range page.Items {
			if err := a.printEvent(&api.WatchEvent{Resource: r, Token: token}); err != nil {
				return "", err
			}
		}
		if list.Page = page.Next; list.Page == "" {
			return token, nil
		}
	}
}

func (a *app) printEvent(e *api.WatchEvent) error {
	return a.printLine(e, func() {
		r := &e.Resource
		at := r.Status.UpdatedAt
		if at.IsZero() {
			at = a.Now()
		}
		phase := string(r.Status.Phase)
		if a.colours {
			phase = paintPhase(phase)
		}
		if e.Removed {
			phase = "gone"
		}
		line := fmt.Sprintf("%s  %s  %s", at.Format(time.TimeOnly), r.RecordKey(), phase)
		if !e.Removed {
			line += fmt.Sprintf("  generation %d", r.Generation)
		}
		if why := join(string(r.Status.Reason), r.Status.Message); why != "" {
			line += "  " + why
		}
		fmt.Fprintln(a.Out, line)
	})
}
