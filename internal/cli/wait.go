package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
)

// waiters bounds how many requests wait at a time. Later ones find most of
// their resources acked already.
const waiters = 32

func waitFlags(cmd *cobra.Command, wait *bool, timeout *time.Duration) {
	cmd.Flags().BoolVar(wait, "wait", false, "wait until the targets confirmed it")
	timeoutFlag(cmd, timeout)
}

func timeoutFlag(cmd *cobra.Command, timeout *time.Duration) {
	*timeout = time.Minute
	cmd.Flags().Var((*patience)(timeout), "timeout", "how long to wait; 0: for ever")
}

// patience is the value of a flag: a duration that is not negative.
type patience time.Duration

func (p *patience) String() string { return time.Duration(*p).String() }
func (p *patience) Type() string   { return "duration" }

func (p *patience) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = errors.New("less than nothing; 0 waits for ever")
	}
	*p = patience(d)
	return err
}

func (a *app) waitCommand() *cobra.Command {
	var (
		generation uint64
		timeout    time.Duration
		all, gone  bool
	)
	cmd := &cobra.Command{
		Use:   "wait SINK/KEY ... | --all [SINK[/PREFIX]]",
		Short: "Wait until targets confirmed the desired state",
		Long: `Wait ends when the newest generation of each resource, or the one given, is
acknowledged, or when it comes to rest otherwise: Failed, Obsolete or Drifted.
The exit code is 0 when all are acknowledged, or were deleted meanwhile, else 3.

A resource that is not there to begin with is an error (4), since its name may be
wrong. After ` + "`pawl delete`" + `, which may be done before wait begins, give --gone: then
what is not there is what was waited for.`,
		Example: `  pawl wait web/users/alice
  pawl wait --all web --timeout 5m`,
		Args: func(cmd *cobra.Command, args []string) error {
			if all && gone {
				return usage(cmd, "--gone speaks of resources by name and can't go with --all")
			}
			if all && generation > 0 {
				return usage(cmd, "--generation speaks of one resource and can't go with --all")
			}
			if all {
				return nil
			}
			if generation > 0 && len(args) > 1 {
				return usage(cmd, "--generation speaks of one resource, but %d are given", len(args))
			}
			return atLeastOne("SINK/KEY")(cmd, args)
		},
		ValidArgsFunction: a.completeKeys,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		defer c.Close()
		var items []waitItem
		if all {
			items, err = unacked(cmd, c, args)
		} else {
			items, err = named(cmd, args, generation, gone)
		}
		if err != nil {
			return err
		}
		return a.waitAndReport(cmd.Context(), c, items, timeout, true)
	}
	cmd.Flags().Uint64Var(&generation, "generation", 0, "wait for this generation or a newer one (default the newest)")
	cmd.Flags().BoolVar(&gone, "gone", false, "wait until the resources are deleted, or are not there")
	cmd.Flags().BoolVar(&all, "all", false, "wait for every resource that is not acknowledged")
	timeoutFlag(cmd, &timeout)
	a.outputFlag(cmd)
	return cmd
}

// waitItem is one resource to wait for; Generation 0: the newest.
type waitItem struct {
	Key        record.Key
	Generation uint64
	Gone       bool // only its deletion is what is waited for
}

func named(cmd *cobra.Command, args []string, generation uint64, gone bool) ([]waitItem, error) {
	keys, err := parseKeys(cmd, args)
	items := make([]waitItem, len(keys))
	for i, k := range keys {
		items[i] = waitItem{k, generation, gone}
	}
	return items, err
}

// unacked lists what is not acknowledged.
func unacked(cmd *cobra.Command, c *client.Client, args []string) ([]waitItem, error) {
	sink, prefix, err := parseKeyPrefix(cmd, args)
	if err != nil {
		return nil, err
	}
	var phases []record.Phase
	for _, p := range record.Phases() {
		if p != record.AckedPhase {
			phases = append(phases, p)
		}
	}
	var items []waitItem
	for r, err := range c.All(cmd.Context(), client.ListOptions{Sink: sink, Prefix: prefix, Phases: phases, Limit: pageSize}) {
		if err != nil {
			return nil, err
		}
		items = append(items, waitItem{Key: r.RecordKey(), Generation: r.Generation})
	}
	return items, nil
}

// waited is how one wait ended.
type waited struct {
	Sink string `json:"sink"`
	Key  string `json:"key"`
	api.WaitResult
	Held string `json:"held,omitempty"` // what kept it from being called about when time ran out

	item waitItem
}

func (w *waited) name() string { return w.Sink + "/" + w.Key }

// waitAndReport waits for all items together and prints how that ended; verbose:
// those that ended well, too.
func (a *app) waitAndReport(ctx context.Context, c *client.Client, items []waitItem, timeout time.Duration, verbose bool) error {
	outcomes, errs := a.waitAll(ctx, c, items, timeout)
	failed := a.reportAll(errs)
	if failed != nil && len(outcomes) == 0 {
		return failed
	}
	return cmp.Or(failed, a.reportWaited(outcomes, verbose))
}

// waitAll returns the outcomes of those that could be waited for, and the errors
// of the others. An item that time ran out for is TimedOut, with the phase that
// it is in.
func (a *app) waitAll(ctx context.Context, c *client.Client, items []waitItem, timeout time.Duration) (outcomes []waited, errs []error) {
	patience := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		patience, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	all := make([]waited, len(items))
	errs = make([]error, len(items))
	progress := a.progress(len(items))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(waiters, len(items)) {
		wg.Go(func() {
			for i := range next {
				all[i], errs[i] = a.waitOne(ctx, patience, c, items[i])
				progress.step()
			}
		})
	}
	for i := range items {
		next <- i
	}
	close(next)
	wg.Wait()
	progress.done()
	for i := range all {
		if errs[i] == nil {
			outcomes = append(outcomes, all[i])
		}
	}
	return outcomes, errs
}

func (a *app) waitOne(ctx, patience context.Context, c *client.Client, item waitItem) (waited, error) {
	w := waited{Sink: item.Key.Sink, Key: item.Key.Name, item: item}
	gone := func() (waited, error) {
		w.WaitResult = api.WaitResult{Done: true, Gone: true}
		return w, nil
	}
	var err error
	w.WaitResult, err = c.Wait(patience, item.Key, item.Generation)
	switch {
	case ctx.Err() != nil:
		return w, context.Cause(ctx)
	case (item.Generation > 0 || item.Gone) && api.CodeOf(err) == api.CodeNotFound: // its deletion is done
		return gone()
	case patience.Err() == nil:
		w.Done = w.Done && (w.Gone || !item.Gone)
		return w, err
	}
	w.TimedOut = true
	e, err := c.Explain(ctx, item.Key)
	if api.CodeOf(err) == api.CodeNotFound { // it went while the time ran out
		return gone()
	}
	st := &e.Resource.Status
	w.Phase, w.Reason, w.Message, w.Generation = st.Phase, st.Reason, st.Message, e.Resource.Generation
	w.Held = api.Held(&e.Resource, &e.Sink, a.Now())
	return w, err
}

// reportWaited prints how the waits ended; verbose: those that ended well, too.
func (a *app) reportWaited(outcomes []waited, verbose bool) error {
	var bad []*waited
	gone := 0
	for i := range outcomes {
		switch w := &outcomes[i]; {
		case !w.Done:
			bad = append(bad, w)
		case w.Gone:
			gone++
		}
	}
	switch {
	case a.output != "table" && !verbose:
	case a.output != "table":
		if err := a.print(map[string]any{"items": outcomes}, nil); err != nil {
			return err
		}
	case len(outcomes) == 0:
		fmt.Fprintln(a.Out, "nothing to wait for: all is acknowledged")
	default:
		fmt.Fprintln(a.Out, waitSummary(len(outcomes), len(outcomes)-len(bad)-gone, gone))
	}
	const shown = 20
	for i, w := range bad {
		if i == shown {
			fmt.Fprintf(a.Err, "pawl: and %d more; see `pawl list`\n", len(bad)-shown)
			break
		}
		fmt.Fprintf(a.Err, "pawl: %s is not %s: %s; see `pawl explain %s`\n", w.name(), ternary(w.item.Gone, "gone", "acknowledged"), whyNot(w), w.name())
	}
	if len(bad) > 0 {
		return errSilent{ExitNotAcked}
	}
	return nil
}

func waitSummary(total, acked, gone int) string {
	switch {
	case gone == 0:
		return fmt.Sprintf("%d of %s acknowledged", acked, plural(total, "resource"))
	case acked == 0:
		return fmt.Sprintf("%d of %s gone", gone, plural(total, "resource"))
	}
	return fmt.Sprintf("%d of %s acknowledged, %d gone", acked, plural(total, "resource"), gone)
}

func whyNot(w *waited) string {
	s := string(w.Phase)
	switch {
	case w.TimedOut && w.item.Generation > w.Generation:
		return fmt.Sprintf("time ran out, and generation %d was not put yet: the newest is %d", w.item.Generation, w.Generation)
	case w.TimedOut && w.Held != "":
		s = "time ran out while it was " + s + " and held (" + w.Held + ")"
	case w.TimedOut:
		s = "time ran out while it was " + s
	}
	return join(s, string(w.Reason), w.Message)
}

// join puts the parts that are there in a row: "Failed: Rejected: bad name".
func join(parts ...string) string { return joinBy(": ", parts...) }

func joinBy(sep string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), sep)
}

// progress counts on a terminal's standard error; elsewhere it is silent.
type progress struct {
	app   *app
	total int
	mu    sync.Mutex
	n     int
}

func (a *app) progress(total int) *progress { return &progress{app: a, total: total} }

func (p *progress) step() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	if p.app.ErrTerminal {
		fmt.Fprintf(p.app.Err, "\r%d of %d", p.n, p.total)
	}
}

func (p *progress) done() {
	if p.app.ErrTerminal {
		fmt.Fprint(p.app.Err, "\r\x1b[K")
	}
}
