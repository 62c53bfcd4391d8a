package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/internal/api"
)

// errRefused is why a command ends with 1 that has printed what is wrong.
var errRefused = errors.New("the configuration is refused, and the daemon goes on as it was")

func (a *app) reloadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Make the daemon read its configuration again",
		Long: `Reload makes the running daemon read its configuration file again, and says what
changed once that is in force: sinks, plugins, upstreams, sources, saga templates,
limits.max_in_flight and log.level, added, changed and removed while deliveries go
on. The daemon does the same by itself within seconds of a change of the file, and
at SIGHUP; no delivery is lost.

A configuration that is wrong in any place is refused as a whole: the one in force
goes on, and what is wrong is told as pawl config check tells it. Keys that need a
restart are left as they are, and named.

  + sinks.web                                added
  ~ sinks.crm.timeout: 30s -> 1m             changed
  - upstreams.old                            removed
  ! store.path: /var/a -> /var/b             needs a restart`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.reload(cmd, false) },
	}
	a.outputFlag(cmd)
	return cmd
}

func (a *app) configDiffCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff",
		Short: "Show what a reload would do",
		Long: `Diff compares the configuration that the running daemon goes by with its file, and
says what pawl reload would do. The daemon reads and checks the file, configures
the plugins of what is new, and closes all of it again: nothing changes. Secrets
are never shown.

The exit code tells what was found: 0 no difference, 1 the file would be refused,
or something went wrong, 2 there are differences.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.reload(cmd, true) },
	}
	a.outputFlag(cmd)
	return cmd
}

func (a *app) reload(cmd *cobra.Command, dryRun bool) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	out, err := c.Reload(cmd.Context(), dryRun)
	if err != nil {
		return err
	}
	if err := a.print(out, func() { a.printReload(&out) }); err != nil {
		return err
	}
	switch {
	case out.Result == api.ReloadRefused:
		return errRefused
	case len(out.Problems) > 0:
		return errors.New("not all of it could be taken over; pawl reload tries the rest again")
	case dryRun && (out.Result == api.ReloadApplied || len(out.Changes) > 0):
		return errSilent{ExitChanges}
	}
	return nil
}

// printReload prints changes by key, then what becomes of sinks and sources.
func (a *app) printReload(r *api.Reload) {
	for _, e := range r.Errors {
		fmt.Fprintln(a.Out, e.Text)
	}
	if r.Result == api.ReloadRefused {
		return
	}
	for i := range r.Changes {
		fmt.Fprintln(a.Out, changeLine(&r.Changes[i]))
	}
	for _, p := range r.Problems {
		fmt.Fprintln(a.Out, a.loud("! "+p))
	}
	for _, part := range []struct {
		what  string
		names []string
	}{
		{"sinks that begin", r.Sinks.Added}, {"sinks that are opened anew", r.Sinks.Reopened}, {"sinks with other limits", r.Sinks.Changed},
		{"sinks that end", r.Sinks.Removed}, {"sinks whose target does not answer yet", r.Sinks.NotReady},
		{"sources that begin", r.Sources.Begun}, {"sources that end", r.Sources.Ended},
	} {
		if len(part.names) > 0 {
			fmt.Fprintf(a.Out, "%s: %s\n", part.what, strings.Join(part.names, ", "))
		}
	}
	fmt.Fprintln(a.Out, reloadSummary(r))
}

// changeLine is "~ sinks.web.timeout: 30s -> 1m".
func changeLine(c *api.ConfigChange) string {
	sign := map[string]string{"added": signCreate, "removed": signDelete, "changed": signUpdate}[c.Change]
	if c.Restart {
		sign = "!"
	}
	line := sign + " " + c.Key
	switch {
	case c.Change != "changed":
	case c.From == c.To: // a secret
		line += ": another " + c.To
	default:
		line += fmt.Sprintf(": %s -> %s", shownValue(c.From), shownValue(c.To))
	}
	return line + ternary(c.Restart, " (needs a restart)", "")
}

func shownValue(s string) string { return ternary(s == "", "nothing", s) }

func reloadSummary(r *api.Reload) string {
	restart := 0
	for _, c := range r.Changes {
		if c.Restart {
			restart++
		}
	}
	file := ternary(r.File == "", "the configuration", r.File)
	done, same := "is in force", "nothing changed that a running daemon takes over"
	if r.DryRun {
		done, same = "would be taken over", "nothing differs that a running daemon takes over"
	}
	out := file + ": " + ternary(r.Result == api.ReloadApplied, done, same)
	if restart > 0 {
		out += fmt.Sprintf("; %s for a restart", ternary(restart == 1, "1 key waits", fmt.Sprintf("%d keys wait", restart)))
	}
	return out
}
