package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/internal/access"
)

func (a *app) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make, list and revoke the tokens of callers",
		Args:  onlyCommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.tokenNewCommand(), a.tokenListCommand(), a.tokenRevokeCommand(), a.tokenConvertCommand())
	return cmd
}

// tokenPlace is where a command finds the token file.
type tokenPlace struct{ file, config string }

func (p *tokenPlace) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.file, "file", "", "the token file (default server.token_file of the configuration)")
	configFlag(cmd, &p.config)
}

// path is the token file's.
func (a *app) tokenPath(p *tokenPlace) (string, error) {
	if p.file != "" {
		return p.file, nil
	}
	c, err := a.loadConfig(p.config, nil)
	if err != nil {
		return "", err
	}
	if c.Server.TokenFile == "" {
		return "", fmt.Errorf("%s has no server.token_file; name the file with --file, and set that key to it", configName(c))
	}
	return c.Server.TokenFile, nil
}

func (a *app) tokenListCommand() *cobra.Command {
	var p tokenPlace
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tokens of the file",
		Long:  "List prints the name of each token, what it may do and when it expires. What its\nbearer sends is not in the file, and can't be shown again.",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			path, err := a.tokenPath(&p)
			if err != nil {
				return err
			}
			list, err := access.ListTokens(path)
			if err != nil {
				return err
			}
			return a.print(list, func() { a.printTokens(list) })
		},
	}
	p.flags(cmd)
	a.outputFlag(cmd)
	return cmd
}

func (a *app) printTokens(list []access.Token) {
	t := a.table("NAME", "MAY", "SENDS AS", "EXPIRES")
	for _, token := range list {
		var may []string
		for _, g := range token.Grants {
			may = append(may, grantWords(g))
		}
		t.add(token.Name, strings.Join(may, "; "), strings.Join(token.Senders, " "), a.expiry(&token))
	}
	t.print()
}

// grantWords says what a grant allows, as: write on web users/…
func grantWords(g access.TokenGrant) string {
	out := string(g.Scope)
	if len(g.Sinks) > 0 {
		out += " on " + strings.Join(g.Sinks, ", ")
	}
	if g.Prefix != "" {
		out += fmt.Sprintf(" keys %s…", g.Prefix)
	}
	return out
}

func (a *app) expiry(t *access.Token) string {
	switch {
	case t.Plain:
		return "never; in plain text: pawl token convert"
	case t.Expires.IsZero():
		return "never"
	case !a.Now().Before(t.Expires):
		return "expired " + t.Expires.UTC().Format(time.DateTime)
	}
	return t.Expires.UTC().Format(time.DateTime)
}

func (a *app) tokenRevokeCommand() *cobra.Command {
	var p tokenPlace
	cmd := &cobra.Command{
		Use:   "revoke NAME",
		Short: "Take a token out of the file",
		Long:  "Revoke removes a token. A running daemon refuses it from the next request on, and\nends within seconds what its bearer has under way, watches say.",
		Args:  exactly("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := a.tokenPath(&p)
			if err != nil {
				return err
			}
			if err := access.RemoveToken(path, args[0]); err != nil {
				return err
			}
			fmt.Fprintf(a.Out, "%s is revoked\n", args[0])
			return nil
		},
	}
	p.flags(cmd)
	return cmd
}

func (a *app) tokenConvertCommand() *cobra.Command {
	var p tokenPlace
	cmd := &cobra.Command{
		Use:   "convert",
		Short: "Replace tokens in plain text by their hashes",
		Long: `Convert puts a hash in the place of each token that the file has in plain text, one
a line. Such a token goes on being valid, and may do everything, as before; it has
the name line-N now. Give each caller one of their own with ` + "`pawl token new`" + `, and
revoke the old one then.`,
		Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			path, err := a.tokenPath(&p)
			if err != nil {
				return err
			}
			names, err := access.ConvertTokens(path)
			if err != nil {
				return err
			}
			if len(names) == 0 {
				fmt.Fprintf(a.Out, "%s has no token in plain text\n", path)
				return nil
			}
			fmt.Fprintf(a.Out, "converted: %s\n", strings.Join(names, ", "))
			return nil
		},
	}
	p.flags(cmd)
	return cmd
}
