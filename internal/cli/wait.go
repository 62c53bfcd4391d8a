package cli

import (
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
	cmd.Flags().DurationVar(timeout, "timeout", time.Minute, "how long to wait; 0: for ever")
}

func (a *app) waitCommand() *cobra.Command {
	var (
		generation uint64
		timeout    time.Duration
		all        bool
	)
	cmd := &cobra.Command{
		Use:   "wait SINK/KEY ... | --all [SINK[/PREFIX]]",
		Short: "Wait until targets confirmed the desired state",
		Long: `Wait ends when the newest generation of each resource, or the one given, is
acknowledged, or when it comes to rest otherwise: Failed, Obsolete or Drifted.
The exit code is 0 when all are acknowledged or gone, else 3.`,
		Example: `  pawl wait web/users/alice
  pawl wait --all web --timeout 5m`,
		Args: func(cmd *cobra.Command, args []string) error {
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
			items, err = named(cmd, args, generation)
		}
		if err != nil {
			return err
		}
		outcomes, err := a.waitAll(cmd.Context(), c, items, timeout)
		if err != nil {
			return err
		}
		return a.reportWaited(outcomes, true)
	}
	cmd.Flags().Uint64Var(&generation, "generation", 0, "wait for this generation or a newer one (default the newest)")
	cmd.Flags().BoolVar(&all, "all", false, "wait for every resource that is not acknowledged")
	timeoutFlag(cmd, &timeout)
	a.outputFlag(cmd)
	return cmd
}

// waitItem is one resource to wait for; Generation 0: the newest.
type waitItem struct {
	Key        record.Key
	Generation uint64
}

func named(cmd *cobra.Command, args []string, generation uint64) ([]waitItem, error) {
	keys, err := parseKeys(cmd, args)
	items := make([]waitItem, len(keys))
	for i, k := range keys {
		items[i] = waitItem{k, generation}
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
		items = append(items, waitItem{r.RecordKey(), r.Generation})
	}
	return items, nil
}

// waited is how one wait ended.
type waited struct {
	Sink string `json:"sink"`
	Key  string `json:"key"`
	api.WaitResult
}

func (w *waited) name() string { return w.Sink + "/" + w.Key }

// waitAll waits for all items together. An item that time ran out for is
// TimedOut, with the phase that it is in.
func (a *app) waitAll(ctx context.Context, c *client.Client, items []waitItem, timeout time.Duration) ([]waited, error) {
	patience := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		patience, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	outcomes := make([]waited, len(items))
	errs := make([]error, len(items))
	progress := a.progress(len(items))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(waiters, len(items)) {
		wg.Go(func() {
			for i := range next {
				outcomes[i], errs[i] = waitOne(ctx, patience, c, items[i])
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
	return outcomes, errors.Join(firstOf(errs))
}

func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func waitOne(ctx, patience context.Context, c *client.Client, item waitItem) (waited, error) {
	w := waited{Sink: item.Key.Sink, Key: item.Key.Name}
	var err error
	w.WaitResult, err = c.Wait(patience, item.Key, item.Generation)
	switch {
	case ctx.Err() != nil:
		return w, context.Cause(ctx)
	case item.Generation > 0 && api.CodeOf(err) == api.CodeNotFound: // it was there, and its deletion is done
		w.WaitResult = api.WaitResult{Done: true, Gone: true}
		return w, nil
	case patience.Err() == nil:
		return w, err
	}
	w.TimedOut = true
	r, err := c.Get(ctx, item.Key, client.GetOptions{})
	if api.CodeOf(err) == api.CodeNotFound { // it went while the time ran out
		w.WaitResult = api.WaitResult{Done: true, Gone: true}
		return w, nil
	}
	w.Phase, w.Reason, w.Message, w.Generation = r.Status.Phase, r.Status.Reason, r.Status.Message, r.Generation
	return w, err
}

// reportWaited prints how the waits ended; verbose: those that ended well, too.
func (a *app) reportWaited(outcomes []waited, verbose bool) error {
	var bad []*waited
	for i := range outcomes {
		if !outcomes[i].Done {
			bad = append(bad, &outcomes[i])
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
		fmt.Fprintf(a.Out, "%d of %s acknowledged\n", len(outcomes)-len(bad), plural(len(outcomes), "resource"))
	}
	const shown = 20
	for i, w := range bad {
		if i == shown {
			fmt.Fprintf(a.Err, "pawl: and %d more; see `pawl list`\n", len(bad)-shown)
			break
		}
		fmt.Fprintf(a.Err, "pawl: %s is not acknowledged: %s; see `pawl explain %s`\n", w.name(), whyNot(w), w.name())
	}
	if len(bad) > 0 {
		return errSilent{ExitNotAcked}
	}
	return nil
}

func whyNot(w *waited) string {
	s := string(w.Phase)
	if w.TimedOut {
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
