package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlsync/pawl/internal/client"
	"github.com/pawlsync/pawl/internal/nearest"
)

const rootLong = `Pawl holds the newest desired state of every resource until its target has
confirmed it. ` + "`pawl run`" + ` is the daemon; the other commands talk to it.

A resource is named SINK/KEY: what stands before the first slash is the sink,
the rest, further slashes included, is the key.

` + exitCodes

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:               "pawl",
		Short:             "Keep other systems at the desired state",
		Long:              rootLong,
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		Args:              onlyCommands,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(flagError)
	flags := root.PersistentFlags()
	flags.StringVar(&a.address, "address", "", "where the daemon listens: URL, host:port or unix:///path (default $PAWL_ADDRESS, else "+client.DefaultAddress+")")
	flags.StringVar(&a.tokenFile, "token-file", "", "file with the bearer token (default the token in $PAWL_TOKEN)")
	flags.StringVar(&a.tls.ca, "ca-file", "", "PEM certificates to trust over https (default $PAWL_CA_FILE, else the system's)")
	flags.StringVar(&a.tls.cert, "cert-file", "", "PEM client certificate, where the daemon asks for one (default $PAWL_CERT_FILE)")
	flags.StringVar(&a.tls.key, "key-file", "", "PEM private key of --cert-file (default $PAWL_KEY_FILE)")
	root.AddGroup(&cobra.Group{ID: "state", Title: "Desired state:"}, &cobra.Group{ID: "look", Title: "Look:"},
		&cobra.Group{ID: "operate", Title: "Operate:"}, &cobra.Group{ID: "daemon", Title: "Daemon:"})
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("state", a.applyCommand(), a.planCommand(), a.deleteCommand(), a.sagaCommand())
	add("look", a.getCommand(), a.listCommand(), a.statusCommand(), a.topCommand(), a.explainCommand(), a.diffCommand(), a.waitCommand(), a.watchCommand())
	add("operate", a.sourceCommand(), a.retryCommand(), a.suspendCommand(), a.resumeCommand(), a.acceptCommand(), a.forceCommand(), a.forgetCommand())
	add("daemon", a.runCommand(), a.logLevelCommand(), a.debugCommand(), a.reloadCommand(), a.configCommand(), a.storeCommand(), a.pluginCommand(), a.tokenCommand(), a.versionCommand(), a.completionCommand())
	root.AddCommand(a.compileApartCommand())
	help := helpCommand()
	root.SetHelpCommand(help)
	add("daemon", help)
	return root
}

// helpCommand is cobra's, but that an unknown command is an error.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || found == nil { // of the root, whose arguments cobra looks at
				return onlyCommands(cmd.Root(), args)
			}
			if len(rest) > 0 && found.HasAvailableSubCommands() {
				return onlyCommands(found, rest)
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			found, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var out []string
			for _, c := range found.Commands() {
				if c.IsAvailableCommand() && strings.HasPrefix(c.Name(), toComplete) {
					out = append(out, c.Name())
				}
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// onlyCommands refuses arguments of a command that only holds others, with the
// nearest of them.
func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	if n := nearest.Of(args[0], names); n != "" {
		return usage(cmd, "unknown command %q; did you mean `%s %s`?", args[0], cmd.CommandPath(), n)
	}
	return usage(cmd, "unknown command %q", args[0])
}

// exactly wants n arguments, named as people know them.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return usage(cmd, "%s takes %s, but got %s", words(cmd), orNothing(strings.Join(names, " ")), given(args))
		}
		return nil
	}
}

// atLeastOne wants one argument or more.
func atLeastOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage(cmd, "%s takes at least one %s, but got nothing", words(cmd), name)
		}
		return nil
	}
}

// words is the command as it is typed after the program's name.
func words(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

func orNothing(s string) string {
	if s == "" {
		return "no argument"
	}
	return s
}

func given(args []string) string {
	if len(args) == 0 {
		return "nothing"
	}
	return strings.Join(args, " ")
}

// flagError adds the nearest right name to an unknown flag. Where a command is
// misspelt, its flags are unknown too, and the command is what to tell of.
func flagError(cmd *cobra.Command, err error) error {
	if cmd.HasAvailableSubCommands() {
		if wrong := onlyCommands(cmd, cmd.Flags().Args()); wrong != nil {
			return wrong
		}
	}
	what := err.Error()
	if name, ok := strings.CutPrefix(what, "unknown flag: --"); ok {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if n := nearest.Of(name, names); n != "" {
			what += "; did you mean --" + n + "?"
		}
	}
	return usage(cmd, "%s", what)
}
