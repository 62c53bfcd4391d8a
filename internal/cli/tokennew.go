package cli

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/internal/access"
)

func (a *app) tokenNewCommand() *cobra.Command {
	var (
		p       tokenPlace
		token   access.Token
		grant   access.TokenGrant
		scope   string
		expires string
	)
	cmd := &cobra.Command{
		Use:   "new --name NAME --scope read|write|admin",
		Short: "Make a token for a caller",
		Long: `New makes a token, writes its name, its grant and its hash into the token file, and
prints the token itself on standard output, this once. A running daemon takes it from
the next request on.

--sink and --prefix bound where the scope holds; without them it holds everywhere. A
token with more than one grant is made by adding grants to its line in the file.

--sender is for another pawl that sends here (docs/relay.md): it may then send under
that name and no other, to what the grant allows.`,
		Example: `  pawl token new --name ci --scope write --sink web --prefix users/ --expires 90d
  pawl token new --name edge-1 --scope write --sink cluster --sender edge-1 > edge-1.token
  pawl token new --name prometheus --scope read`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case token.Name == "":
				return usage(cmd, "token new needs --name, which logs and denials then show")
			case scope == "":
				return usage(cmd, "token new needs --scope read, write or admin")
			}
			return exactly()(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if grant.Scope, err = access.ParseScope(scope); err != nil {
				return usage(cmd, "--scope: %v", err)
			}
			if token.Expires, err = a.parseExpiry(expires); err != nil {
				return usage(cmd, "--expires: %v", err)
			}
			token.Grants = []access.TokenGrant{grant}
			return a.newToken(&p, &token)
		},
	}
	p.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&token.Name, "name", "", "the caller's name, unique in the file")
	f.StringVar(&scope, "scope", "", "what it may do: read, write or admin; each includes those before it")
	f.StringArrayVar(&grant.Sinks, "sink", nil, "a sink that this holds for; may be given several times (default all)")
	f.StringVar(&grant.Prefix, "prefix", "", "what keys start with that this holds for (default all keys)")
	f.StringVar(&expires, "expires", "", "how long it is valid, as 90d or 12h, or until when, as 2030-01-31 (default without end)")
	f.StringArrayVar(&token.Senders, "sender", nil, `name under which it may send as another pawl, "*" for any; may be given several times`)
	_ = cmd.RegisterFlagCompletionFunc("scope", cobra.FixedCompletions([]string{"read", "write", "admin"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// newToken writes t's entry and prints the token.
func (a *app) newToken(p *tokenPlace, t *access.Token) error {
	path, err := a.tokenPath(p)
	if err != nil {
		return err
	}
	_, missing := os.Stat(path)
	var sent string
	sent, t.Hash = access.NewToken()
	t.Created = a.Now().UTC().Truncate(time.Second)
	if err := access.AddToken(path, t); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(a.Out, sent); err != nil {
		return fmt.Errorf("the token could not be printed, and can't be shown again: revoke %s and make another: %w", t.Name, err)
	}
	fmt.Fprintf(a.Err, "%s may: %s. It is valid %s; it is not shown again.\n", t.Name, grantWords(t.Grants[0]), validity(t))
	if os.IsNotExist(missing) {
		fmt.Fprintf(a.Err, "%s is new, and only its owner may read it; the daemon's user has to be able to.\n", path)
	}
	return nil
}

func validity(t *access.Token) string {
	if t.Expires.IsZero() {
		return "until it is revoked"
	}
	return "until " + t.Expires.UTC().Format(time.RFC3339)
}

// parseExpiry reads a number of days, a duration, a day or a moment; "": never.
func (a *app) parseExpiry(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, ok := a.moment(text)
	switch {
	case !ok:
		return at, fmt.Errorf("%.40q is neither a duration, as 90d or 12h, nor a day, as 2030-01-31, nor a moment, as 2030-01-31T12:00:00Z", text)
	case !at.After(a.Now()):
		return at, fmt.Errorf("%s is past already", at.Format(time.RFC3339))
	}
	return at.UTC().Truncate(time.Second), nil
}

func (a *app) moment(text string) (time.Time, bool) {
	const longest = 100 * 365 // days, so that no year has five digits
	if days, err := strconv.Atoi(strings.TrimSuffix(text, "d")); err == nil && strings.HasSuffix(text, "d") {
		return a.Now().AddDate(0, 0, days), days <= longest
	}
	if d, err := time.ParseDuration(text); err == nil {
		return a.Now().Add(d), true
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}
