package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/internal/bundled"
	"github.com/pawlsync/pawl/internal/daemon"
)

// loadConfig reads the configuration as the daemon does.
func (a *app) loadConfig(file string, flags map[string]string) (*config.Config, error) {
	return config.Load(config.Options{File: file, Env: a.Env, Flags: flags, Bundled: bundled.Known()})
}

func configFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVarP(file, "config", "c", "", "configuration file (default $PAWL_CONFIG, else ./pawl.yaml, ~/.config/pawl/pawl.yaml, /etc/pawl/pawl.yaml)")
}

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check, show and look up the configuration",
		Args:  onlyCommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.configCheckCommand(), a.configDiffCommand(), a.configShowCommand(), a.configReferenceCommand(), a.configExampleCommand())
	return cmd
}

func (a *app) configCheckCommand() *cobra.Command {
	var (
		file     string
		fileOnly bool
	)
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Say what is wrong with the configuration",
		Long: `Check reads the configuration as the daemon would, environment included, and
prints everything that is wrong, with file, line and column. It also reads the
secrets, certificates and plugins that the configuration names, and hands each
plugin its config; --file-only leaves that out, for a machine that has no secrets.
No daemon is started and no target is called.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(cmd, "config check takes one FILE, but got %s", given(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				file = args[0]
			}
			c, err := a.loadConfig(file, nil)
			if err == nil && !fileOnly {
				err = daemon.Check(cmd.Context(), c, daemon.Options{LookupEnv: a.lookupEnv, CompileCommand: a.compileCommand()})
			}
			if err != nil {
				return err
			}
			parts := []string{plural(len(c.Sinks), "sink"), plural(len(c.Upstreams), "upstream")}
			if n := len(c.Sagas); n > 0 {
				parts = append(parts, plural(n, "saga template"))
			}
			fmt.Fprintf(a.Out, "%s is right: %s\n", configName(c), strings.Join(parts, ", "))
			return nil
		},
	}
	configFlag(cmd, &file)
	cmd.Flags().BoolVar(&fileOnly, "file-only", false, "look at the file alone: read no secret, ask no plugin")
	return cmd
}

func configName(c *config.Config) string {
	if c.File == "" {
		return "the configuration (no file)"
	}
	return c.File
}

func (a *app) configShowCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print the configuration in force, with every default",
		Long:  "Show prints every key that has a value, says where each that is no default comes\nfrom, and shows no secret. `pawl config reference` has the other keys too.",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			c, err := a.loadConfig(file, nil)
			if err != nil {
				return err
			}
			text, err := c.YAML()
			if err != nil {
				return err
			}
			_, err = a.Out.Write(text)
			return err
		},
	}
	configFlag(cmd, &file)
	return cmd
}

func (a *app) configExampleCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "example",
		Short: "Print a small configuration to start from",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(a.Out, config.Example())
			return err
		},
	}
}

func (a *app) configReferenceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reference",
		Short: "Print every key with its default and unit",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			entries := config.Reference()
			return a.print(entries, func() { a.printReference(entries) })
		},
	}
	a.outputFlag(cmd)
	return cmd
}

// printReference prints a section's keys below its name, each with its type,
// default and meaning.
func (a *app) printReference(entries []config.Entry) {
	section := ""
	for _, e := range entries {
		if top, _, _ := strings.Cut(e.Key, "."); top != section {
			section = top
			fmt.Fprintf(a.Out, "%s%s: %s\n", ternary(section == entries[0].Key, "", "\n"), top, e.Doc)
			continue
		}
		fmt.Fprintf(a.Out, "\n  %s (%s)\n", e.Key, joinBy("; ", e.Type+ternary(e.Unit == "", "", ", "+e.Unit), entryDefault(&e), e.Allowed()))
		for line := range strings.Lines(wrap(e.Doc, 74)) {
			fmt.Fprint(a.Out, "      "+line)
		}
		fmt.Fprintln(a.Out)
	}
}

func entryDefault(e *config.Entry) string {
	switch {
	case e.Required:
		return "required"
	case e.Inherits != "":
		return "default: that of " + e.Inherits
	case e.Default != "":
		return "default " + e.Default
	}
	return ""
}

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			return a.print(a.version, func() {
				v := a.version
				fmt.Fprintf(a.Out, "pawl %s%s (%s, %s/%s)\n", v.Version, ternary(v.Commit != "", " "+v.Commit, ""), v.Go, v.OS, v.Arch)
			})
		},
	}
	a.outputFlag(cmd)
	return cmd
}

func (a *app) completionCommand() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a script that completes commands, flags and resources",
		Example: `  source <(pawl completion bash)
  pawl completion zsh > "${fpath[1]}/_pawl"
  pawl completion fish > ~/.config/fish/completions/pawl.fish`,
		ValidArgs: shells,
		Args:      exactly("bash|zsh|fish|powershell"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				return cmd.Root().GenBashCompletionV2(a.Out, true)
			case "zsh":
				return cmd.Root().GenZshCompletion(a.Out)
			case "fish":
				return cmd.Root().GenFishCompletion(a.Out, true)
			case "powershell":
				return cmd.Root().GenPowerShellCompletionWithDesc(a.Out)
			}
			return usage(cmd, "unknown shell %q; use bash, zsh, fish or powershell", args[0])
		},
	}
}
