package cli

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/internal/daemon"
	"github.com/pawlsync/pawl/internal/failpoint"
)

// runFlags are the flags that set keys of the configuration, by key.
var runFlags = []struct{ flag, key, short string }{
	{"listen", "server.listen", "address and port of the API"},
	{"store", "store.path", "folder of the store"},
	{"log-level", "log.level", "debug, info, warn or error"},
	{"log-format", "log.format", "auto, text or json"},
}

func (a *app) runCommand() *cobra.Command {
	var (
		file       string
		acceptLoss bool
	)
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the daemon",
		Long: `Run is the daemon: it keeps desired state, delivers it, and answers the other
commands, until it gets SIGTERM or SIGINT; calls in flight may then finish for
server.shutdown_grace. A second signal ends it at once, which loses nothing that
was accepted.

The daemon looks every two seconds whether its configuration file or the file of a
plugin has changed, and at once at SIGHUP or ` + "`pawl reload`" + `. What a changed
configuration says is taken over while deliveries go on: what began ends by the old
settings, and a configuration that is wrong is refused whole. Keys that need a
restart are named in the log. A plugin whose file is replaced takes over when it was
loaded and configured; where that fails the old one goes on, and the log says why.

A sink whose target does not answer when its plugin is configured starts later, by
itself; what is put for it meanwhile is stored and waits.

A store that lost data which it had acknowledged (a damaged disk, files restored
by hand) is refused. --accept-loss goes on with what is left: every sink stays
suspended until its sources sent their full set or you resume it.`,
		Example: "  pawl run --config pawl.yaml",
		Args:    exactly(),
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		flags := map[string]string{}
		for _, f := range runFlags {
			if cmd.Flags().Changed(f.flag) {
				flags[f.key] = cmd.Flag(f.flag).Value.String()
			}
		}
		c, err := a.loadConfig(file, flags)
		if err != nil {
			return err
		}
		reload := func() (*config.Config, error) { return a.loadConfig(c.File, flags) }
		return a.runDaemon(cmd, c, reload, acceptLoss)
	}
	configFlag(cmd, &file)
	for _, f := range runFlags {
		cmd.Flags().String(f.flag, "", f.short+" (default "+f.key+" of the configuration)")
	}
	cmd.Flags().BoolVar(&acceptLoss, "accept-loss", false, "start although the store lost data")
	return cmd
}

func (a *app) runDaemon(cmd *cobra.Command, c *config.Config, reload func() (*config.Config, error), acceptLoss bool) error {
	log, level, err := daemon.NewLogger(c.Log, a.Err, a.ErrTerminal)
	if err != nil {
		return err
	}
	a.warnOfNoSinks(log, c)
	o := daemon.Options{Version: a.version, Logger: log, LogLevel: level, AcceptLoss: acceptLoss, LookupEnv: a.lookupEnv, CompileCommand: a.compileCommand()}
	points, _ := a.lookupEnv(failpoint.Env)
	if o.Failpoint, err = failpoint.Parse(points); err != nil {
		return fmt.Errorf("%s: %w", failpoint.Env, err)
	}
	if o.Failpoint != nil {
		log.Warn("failpoints are set: the daemon fails where it is told to", "variable", failpoint.Env, "points", points)
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	o.Reload, o.Hangup = reload, hangup
	if a.OutTerminal {
		o.Ready = func(r daemon.Ready) {
			fmt.Fprintf(a.Out, "pawl is ready at %s: %s, %s in %s\n", r.Address, plural(r.Sinks, "sink"), plural(r.Resources, "resource"), r.Store)
		}
	}
	return daemon.Run(cmd.Context(), c, o)
}

// warnOfNoSinks says so where there is nothing to do, which is seldom meant.
func (a *app) warnOfNoSinks(log *slog.Logger, c *config.Config) {
	switch {
	case len(c.Sinks) > 0:
	case c.File == "":
		log.Warn("no configuration file was found, so that there are no sinks; `pawl config example` prints one to start from", "looked for", config.Places(a.Env))
	default:
		log.Warn("the configuration has no sinks", "file", c.File)
	}
}
