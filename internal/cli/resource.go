package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/client"
)

// parseKey reads SINK/KEY.
func parseKey(cmd *cobra.Command, arg string) (record.Key, error) {
	sink, name, ok := strings.Cut(arg, "/")
	key := record.Key{Sink: sink, Name: name}
	switch {
	case !ok && cmd.Flags().Lookup("sink") != nil && record.ValidateSink(sink) == nil:
		return key, usage(cmd, "%q names no resource; write SINK/KEY, or --sink %s for all of that sink", arg, arg)
	case !ok:
		return key, usage(cmd, "%q names no resource; write SINK/KEY, as in web/users/alice", arg)
	}
	if err := key.Validate(); err != nil {
		return key, usage(cmd, "%q names no resource: %v", arg, err)
	}
	return key, nil
}

func parseKeys(cmd *cobra.Command, args []string) ([]record.Key, error) {
	keys := make([]record.Key, len(args))
	for i, arg := range args {
		var err error
		if keys[i], err = parseKey(cmd, arg); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// parseKeyPrefix reads what selects resources: "" is all, SINK those of one
// sink, SINK/PREFIX those whose keys start so.
func parseKeyPrefix(cmd *cobra.Command, args []string) (sink, prefix string, err error) {
	if len(args) == 0 {
		return "", "", nil
	}
	if len(args) > 1 {
		return "", "", usage(cmd, "%s takes one SINK or SINK/PREFIX, but got %s", words(cmd), given(args))
	}
	sink, prefix, _ = strings.Cut(args[0], "/")
	if err := record.ValidateSink(sink); err != nil {
		return "", "", usage(cmd, "%q names no sink: %v", args[0], err)
	}
	return sink, prefix, nil
}

const (
	completions        = 50          // most names offered
	completionPatience = time.Second // a shell that hangs on Tab is worse than no offer
)

// completeKeys offers the daemon's resources: sinks first, then keys.
func (a *app) completeKeys(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	c, err := a.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
	defer cancel()
	sink, prefix, isKey := strings.Cut(toComplete, "/")
	var out []string
	if !isKey {
		sinks, _ := c.Sinks(ctx)
		for _, s := range sinks {
			if strings.HasPrefix(s.Name, sink) {
				out = append(out, s.Name+"/")
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	page, _ := c.List(ctx, client.ListOptions{Sink: sink, Prefix: prefix, Limit: completions})
	for _, r := range page.Items {
		out = append(out, r.RecordKey().String())
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
