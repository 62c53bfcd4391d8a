package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/internal/api"
)

var logLevels = []string{"debug", "info", "warn", "error"}

func (a *app) logLevelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log-level [debug|info|warn|error]",
		Short: "Show or change how much the daemon logs",
		Long: `Log-level prints the level of the running daemon's log, or changes it at once. The
change lasts until the next one, until log.level of the configuration changes, or
until the daemon restarts.

At debug each delivery is a line. No level logs payloads or secrets.`,
		Example:   "  pawl log-level debug",
		ValidArgs: logLevels,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && !slices.Contains(logLevels, args[0]) {
				return usage(cmd, "log-level takes one of %s, or nothing, but got %s", strings.Join(logLevels, ", "), given(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			var level api.LogLevel
			if len(args) == 0 {
				level, err = c.LogLevel(cmd.Context())
			} else {
				level, err = c.SetLogLevel(cmd.Context(), args[0])
			}
			if err != nil {
				return err
			}
			return a.print(level, func() { fmt.Fprintln(a.Out, level.Level) })
		},
	}
	a.outputFlag(cmd)
	return cmd
}
