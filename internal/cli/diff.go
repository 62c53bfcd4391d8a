package cli

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
)

const diffLong = `Diff looks at the targets and says where they differ from what is desired. It
changes nothing, and counts as no attempt; a delivery that is under way is waited
for.

  + web/users/alice: missing at the target
  ~ web/users/bob: differs, changed by somebody else
      ~ /name
  - web/users/carol: still there, to be deleted
  ? web/users/fred: can't tell         the target does not answer, is suspended, …

The signs say what would make the target as desired: + add, - remove, ~ change; of
a path ~ also where the plugin does not report enough to tell. In brackets is why
pawl leaves a difference as it is, where it does. A resource of direction inbound
never differs: nothing is ever sent. No values are shown, unless
--values asks for those that the plugin reports; sensitive ones stay hidden.

The exit code tells what was found: 0 no difference, 1 something went wrong (also
where it can't be told), 2 there are differences. Note that diff(1) has 1 and 2
the other way round.`

type diffFlags struct {
	sink, prefix string
	all, values  bool
}

func (a *app) diffCommand() *cobra.Command {
	var f diffFlags
	cmd := &cobra.Command{
		Use:   "diff [SINK/KEY ...]",
		Short: "Compare what is desired with what the targets have",
		Long:  diffLong,
		Example: `  pawl diff web/users/alice
  pawl diff --sink web --prefix users/
  pawl diff --all -o json`,
		Args:              func(cmd *cobra.Command, args []string) error { return f.check(cmd, args) },
		ValidArgsFunction: a.completeKeys,
		RunE: func(cmd *cobra.Command, args []string) error {
			keys, err := parseKeys(cmd, args)
			if err != nil {
				return err
			}
			return a.diff(cmd.Context(), &f, keys)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.sink, "sink", "", "every resource of this sink")
	flags.StringVar(&f.prefix, "prefix", "", "every resource whose key begins so")
	flags.BoolVar(&f.all, "all", false, "every resource")
	flags.BoolVar(&f.values, "values", false, "show values at the paths that differ, where the plugin reports them; sensitive ones as ***")
	_ = cmd.RegisterFlagCompletionFunc("sink", a.completeSinks)
	return a.comparison(cmd)
}

func (f *diffFlags) check(cmd *cobra.Command, args []string) error {
	many := f.sink != "" || f.prefix != "" || f.all
	switch {
	case len(args) > 0 && many:
		return usage(cmd, "name resources, or choose them with --sink, --prefix and --all, but not both")
	case len(args) == 0 && !many:
		return usage(cmd, "nothing to compare: name resources as SINK/KEY, or give --sink, --prefix or --all")
	case f.all && (f.sink != "" || f.prefix != ""):
		return usage(cmd, "--all is every resource; leave it out to have those of --sink and --prefix")
	}
	return nil
}

// The words of a comparison's summary.
const (
	countDiffers = "different"
	countMissing = "missing"
	countThere   = "still there"
	countSame    = "the same"
)

var diffCounts = []string{countDiffers, countMissing, countThere, countSame, countUnknown, countRefused}

// comparing is one run of pawl diff.
type comparing struct {
	app    *app
	flags  *diffFlags
	keys   []record.Key // as they were named; none: of the flags
	counts map[string]int
	total  int
	items  []*api.Difference     // of -o json and yaml alone
	listed atomic.Pointer[error] // why there are no more resources
}

func (a *app) diff(ctx context.Context, f *diffFlags, keys []record.Key) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	d := &comparing{app: a, flags: f, keys: keys, counts: map[string]int{}, items: []*api.Difference{}}
	if err := a.compare(ctx, c, f.values, d.lines(ctx, c), d.answer); err != nil {
		return err
	}
	if err := d.listed.Load(); err != nil {
		return *err
	}
	return d.end()
}

// lines ask about each resource. Their order of names is the daemon's.
func (d *comparing) lines(ctx context.Context, c *client.Client) iter.Seq[api.PlanLine] {
	return func(yield func(api.PlanLine) bool) {
		for _, key := range d.keys {
			if !yield(api.PlanLine{Sink: key.Sink, Key: key.Name}) {
				return
			}
		}
		if len(d.keys) > 0 {
			return
		}
		for r, err := range c.All(ctx, client.ListOptions{Sink: d.flags.sink, Prefix: d.flags.prefix, Limit: pageSize}) {
			if err != nil {
				d.listed.Store(&err)
				return
			}
			if !yield(api.PlanLine{Sink: r.Sink, Key: r.Key}) {
				return
			}
		}
	}
}

// answer takes in how one resource stands.
func (d *comparing) answer(answer *api.PlanAnswer) (func(), error) {
	if p := answer.Error; p != nil {
		if p.Code == api.CodeNotFound && len(d.keys) == 0 {
			return nil, nil // gone since it was listed
		}
		d.counts[countRefused]++
		d.total++
		return func() { fmt.Fprintf(d.app.Err, "pawl: %v%s\n", p, d.prefixHint(answer.Line, p)) }, nil
	}
	d.total++
	s := d.settle(answer.Difference)
	if d.app.output != "table" {
		d.items = append(d.items, answer.Difference)
		return nil, nil
	}
	if s.sign == "" {
		return nil, nil
	}
	return func() { d.app.printShown(s) }, nil
}

// prefixHint says how a prefix is given, where what was named looks like one.
func (d *comparing) prefixHint(line int, p *api.Problem) string {
	if p.Code != api.CodeNotFound || line < 1 || line > len(d.keys) || !strings.HasSuffix(d.keys[line-1].Name, "/") {
		return ""
	}
	key := d.keys[line-1]
	return fmt.Sprintf("; for all whose keys begin so give --sink %s --prefix %s", key.Sink, key.Name)
}

// settle counts a resource and says how it is shown.
func (d *comparing) settle(x *api.Difference) shown {
	count := func(what, sign, text string) shown {
		d.counts[what]++
		return shown{sign: sign, text: text, d: x}
	}
	switch {
	case x.Action == api.ActionUnknown, x.Action == api.ActionRefused:
		return count(countUnknown, signUnknown, "can't tell: "+x.Why)
	case x.Same:
		return count(countSame, "", "")
	case x.Tombstone && x.Drift:
		return count(countDiffers, signUpdate, reasoned("deleted at the target before, and there again", x.Why))
	case x.Tombstone:
		return count(countThere, signDelete, reasoned("still there, to be deleted", x.Why))
	case !x.Exists:
		return count(countMissing, signCreate, reasoned("missing at the target", x.Why))
	case x.Drift:
		return count(countDiffers, signUpdate, reasoned("differs, changed by somebody else", x.Why))
	}
	return count(countDiffers, signUpdate, reasoned("differs", x.Why))
}

// end prints the summary and ends with the comparison's exit code.
func (d *comparing) end() error {
	differ := d.counts[countDiffers] + d.counts[countMissing] + d.counts[countThere]
	summary := map[string]int{
		"different": d.counts[countDiffers], "missing": d.counts[countMissing], "stillThere": d.counts[countThere],
		"same": d.counts[countSame], "unknown": d.counts[countUnknown], "refused": d.counts[countRefused],
	}
	err := d.app.print(map[string]any{"items": d.items, "summary": summary}, func() {
		if d.total == 0 {
			fmt.Fprintln(d.app.Out, "no resources")
			return
		}
		fmt.Fprintf(d.app.Out, "%s: %s.\n", plural(d.total, "resource"), counted(d.counts, diffCounts))
	})
	switch {
	case err != nil:
		return err
	case d.counts[countUnknown]+d.counts[countRefused] > 0:
		return errSilent{ExitError}
	case differ > 0:
		return errSilent{ExitChanges}
	}
	return nil
}

// completeSinks offers the daemon's sinks.
func (a *app) completeSinks(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	names, directive := a.completeKeys(cmd, nil, toComplete)
	for i := range names {
		names[i] = strings.TrimSuffix(names[i], "/")
	}
	return names, directive &^ cobra.ShellCompDirectiveNoSpace
}
