package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/engine/wasmhost"
)

const compileName = "compile-plugin"

// compileApartCommand is for the daemon, which starts it to have a plugin compiled.
func (a *app) compileApartCommand() *cobra.Command {
	return &cobra.Command{
		Use:    compileName,
		Short:  "Compile a plugin for a daemon",
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return wasmhost.CompileApart(cmd.Context(), args, a.In, a.Out)
		},
	}
}

// compileCommand is how a daemon starts that; nil where it can't.
func (a *app) compileCommand() []string {
	if len(a.Self) == 0 {
		return nil
	}
	return append(slices.Clone(a.Self), compileName)
}
