package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/internal/bundled"
)

// bundledPlugin is one line of `pawl plugin list`.
type bundledPlugin struct {
	Name   string `json:"name"`
	Built  bool   `json:"built"` // false: this binary was built without it
	Bytes  int    `json:"bytes,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
}

func (a *app) pluginCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugin",
		Short: "Make, try and look at plugins",
		Args:  onlyCommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	list := &cobra.Command{
		Use:   "list",
		Short: "List the plugins that come with pawl",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			plugins, err := bundledPlugins()
			if err != nil {
				return err
			}
			return a.print(map[string]any{"items": plugins}, func() {
				t := a.table("NAME", "SIZE", "SHA256")
				for _, p := range plugins {
					if p.Built {
						t.add(p.Name, size(int64(p.Bytes)), p.SHA256)
					} else {
						t.add(p.Name, "-", "this binary was built without it; run \"make\"")
					}
				}
				t.print()
			})
		},
	}
	a.outputFlag(list)
	cmd.AddCommand(list, a.pluginNewCommand(), a.pluginBuildCommand(), a.pluginTestCommand(), a.pluginRunCommand(), a.pluginInspectCommand())
	cmd.AddCommand(a.pluginPushCommand(), a.pluginPullCommand())
	return cmd
}

func bundledPlugins() ([]bundledPlugin, error) {
	var out []bundledPlugin
	built := bundled.Names()
	for _, name := range bundled.Known() {
		p := bundledPlugin{Name: name, Built: slices.Contains(built, name)}
		if p.Built {
			wasm, err := bundled.Plugin(name)
			if err != nil {
				return nil, err
			}
			sum := sha256.Sum256(wasm)
			p.Bytes, p.SHA256 = len(wasm), hex.EncodeToString(sum[:])
		}
		out = append(out, p)
	}
	return out, nil
}
