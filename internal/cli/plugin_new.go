package cli

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/internal/nearest"
	"github.com/pawlsync/pawl/internal/scaffold"
)

// newPlugin is what `pawl plugin new` prints.
type newPlugin struct {
	Name     string   `json:"name"`
	Language string   `json:"language"`
	Folder   string   `json:"folder"`
	Files    []string `json:"files"` // the SDK's apart
}

func (a *app) pluginNewCommand() *cobra.Command {
	var lang, dir string
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Start the project of a plugin",
		Long: `New writes a project that builds and passes its tests at once, without a network:
an adapter for a small key-value service over HTTP, its tests, a fixture for
` + "`pawl plugin test`" + `, and a copy of the language's SDK.

Go needs Go 1.26 or later; Rust a rustc with the target wasm32-unknown-unknown;
C needs clang and lld.`,
		Example: `  pawl plugin new my-things --lang go
  cd my-things
  pawl plugin build
  pawl plugin test my-things.wasm`,
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir == "" {
				dir = args[0]
			}
			files, err := scaffold.New(dir, args[0], lang)
			switch {
			case errors.Is(err, scaffold.ErrLanguage):
				if n := nearest.Of(lang, scaffold.Languages()); n != "" {
					return usage(cmd, "%v; did you mean --lang %s?", err, n)
				}
				return usage(cmd, "%v", err)
			case errors.Is(err, scaffold.ErrName):
				return usage(cmd, "%v", err)
			case err != nil:
				return err
			}
			return a.print(newPlugin{Name: args[0], Language: lang, Folder: dir, Files: files}, func() {
				for _, f := range files {
					fmt.Fprintln(a.Out, filepath.Join(dir, filepath.FromSlash(f)))
				}
				fmt.Fprintf(a.Out, "Next: cd %s && pawl plugin build && pawl plugin test %s.wasm\n", dir, args[0])
			})
		},
	}
	a.outputFlag(cmd)
	cmd.Flags().StringVar(&lang, "lang", "go", "language: go, rust or c")
	cmd.Flags().StringVar(&dir, "dir", "", "folder of the project; it must not exist or be empty (default NAME)")
	_ = cmd.RegisterFlagCompletionFunc("lang", cobra.FixedCompletions(scaffold.Languages(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
