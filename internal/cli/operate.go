package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
)

// operate gives one order for each resource and says so once it is durable.
func (a *app) operate(cmd *cobra.Command, args []string, o order) error {
	keys, err := parseKeys(cmd, args)
	if err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	return eachOf(a, keys, func(key record.Key) error { return a.give(cmd.Context(), c, key, o) })
}

// order is what an operator may order about a resource.
type order struct {
	do func(*client.Client, context.Context, record.Key) error
	// said says what was ordered. Of one that is to be delivered it is in the
	// future: it is not done yet, and may be held.
	said      string
	delivered bool
}

func (a *app) give(ctx context.Context, c *client.Client, key record.Key, o order) error {
	if err := o.do(c, ctx, key); err != nil {
		return err
	}
	held := ""
	if o.delivered {
		e, err := c.Explain(ctx, key)
		if err == nil { // else it is gone already, or the order is durable and the rest not known
			held = api.Held(&e.Resource, &e.Sink, a.Now())
		}
	}
	fmt.Fprintf(a.Out, "%s: %s%s\n", key, o.said, ternary(held == "", "", ", but is held: "+held))
	return nil
}

// eachOf does something to every item. It goes on after one that fails, unless
// no other could succeed, tells all errors, and ends as the first did.
func eachOf[T any](a *app, items []T, do func(T) error) error {
	errs := make([]error, len(items))
	for i, item := range items {
		if errs[i] = do(item); errs[i] != nil && hopeless(errs[i]) {
			break
		}
	}
	return a.reportAll(errs)
}

// hopeless reports whether the same would happen to whatever else is tried.
func hopeless(err error) bool {
	code := exitCode(err)
	return code == ExitInterrupted || code == ExitUnreachable
}

// reportAll prints the errors of many items and returns one that ends the
// command with the first one's exit code; nil: there are none.
func (a *app) reportAll(errs []error) error {
	code := ExitDone
	for _, err := range errs {
		if err == nil {
			continue
		}
		if c := a.report(err); code == ExitDone {
			code = c
		}
		if hopeless(err) { // and so are all others
			break
		}
	}
	if code == ExitDone {
		return nil
	}
	return errSilent{code}
}

// orderCommand is a command that gives one order.
func (a *app) orderCommand(name, short, long string, o order) *cobra.Command {
	return &cobra.Command{
		Use: name + " SINK/KEY ...", Short: short, Long: long,
		Args: atLeastOne("SINK/KEY"), ValidArgsFunction: a.completeKeys,
		RunE: func(cmd *cobra.Command, args []string) error { return a.operate(cmd, args, o) },
	}
}

func (a *app) retryCommand() *cobra.Command {
	return a.orderCommand("retry", "Deliver resources at once",
		"Retry delivers a resource at once, whatever it waits for, with its attempts counted\nanew. It returns when that is ordered; `pawl wait` waits for the outcome.",
		order{do: (*client.Client).Retry, said: "will be tried again", delivered: true})
}

func (a *app) acceptCommand() *cobra.Command {
	return a.orderCommand("accept", "Take what the target holds for acknowledged",
		"Accept ends drift the other way round: what the target holds counts as\nacknowledged, until the desired state changes. A resource that is to be deleted\nand can't be told to be ours is taken over, so that it can be deleted.",
		order{do: (*client.Client).Accept, said: "what the target holds will be taken over", delivered: true})
}

var forceOrder = order{do: (*client.Client).Force, said: "will be applied, whatever the policy", delivered: true}

func (a *app) forceCommand() *cobra.Command {
	return a.orderCommand("force", "Deliver the desired state whatever the conflict policy",
		"Force applies the desired state once, whatever the resource's conflict policy\nsays. It returns when that is ordered. `pawl apply --force SINK/KEY` is the same.", forceOrder)
}

func (a *app) forgetCommand() *cobra.Command {
	return a.orderCommand("forget", "Give resources up and leave the target as it is",
		"Forget removes a resource from the outbox, waiting work and tombstones\nincluded, and also one whose stored record is damaged. The target keeps what it\nhas. This can't be taken back.",
		order{do: (*client.Client).Forget, said: "forgotten; the target keeps what it has"})
}

// hold is suspend and resume: for resources, or for whole sinks.
type hold struct {
	name, short, long, done string

	resource func(*client.Client, context.Context, record.Key) error
	sink     func(*client.Client, context.Context, string) error
}

func (a *app) suspendCommand() *cobra.Command {
	return a.holdCommand(hold{
		name: "suspend", short: "Hold the calls of resources or sinks", done: "suspended",
		long: "Suspend holds all calls of a resource, or of a whole sink, until `pawl resume`.\n" +
			"New desired state is still accepted. A suspended sink holds deletions too, a\nsuspended resource does not.",
		resource: (*client.Client).Suspend, sink: (*client.Client).SuspendSink,
	})
}

func (a *app) resumeCommand() *cobra.Command {
	return a.holdCommand(hold{
		name: "resume", short: "Let resources or sinks go on", done: "goes on",
		long:     "Resume takes `pawl suspend` back.",
		resource: (*client.Client).Resume, sink: (*client.Client).ResumeSink,
	})
}

func (a *app) holdCommand(h hold) *cobra.Command {
	var sinks []string
	cmd := &cobra.Command{
		Use: h.name + " SINK/KEY ... | --sink SINK", Short: h.short, Long: h.long,
		Example: fmt.Sprintf("  pawl %s web/users/alice\n  pawl %s --sink web", h.name, h.name),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(sinks) > 0 {
				return nil
			}
			return atLeastOne("SINK/KEY, or --sink")(cmd, args)
		},
		ValidArgsFunction: a.completeKeys,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.hold(cmd, args, sinks, h) },
	}
	cmd.Flags().StringArrayVar(&sinks, "sink", nil, "a whole sink; may be given many times")
	return cmd
}

func (a *app) hold(cmd *cobra.Command, args, sinks []string, h hold) error {
	keys, err := parseKeys(cmd, args)
	if err != nil {
		return err
	}
	for _, sink := range sinks {
		if err := record.ValidateSink(sink); err != nil {
			return usage(cmd, "%q names no sink: %v", sink, err)
		}
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	var jobs []func() error
	for _, key := range keys {
		jobs = append(jobs, func() error { return a.give(cmd.Context(), c, key, order{do: h.resource, said: h.done}) })
	}
	for _, sink := range sinks {
		jobs = append(jobs, func() error {
			err := h.sink(c, cmd.Context(), sink)
			if err == nil {
				fmt.Fprintf(a.Out, "sink %s: %s\n", sink, h.done)
			}
			return err
		})
	}
	return eachOf(a, jobs, func(job func() error) error { return job() })
}

func (a *app) deleteCommand() *cobra.Command {
	var (
		policy  string
		wait    bool
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use:   "delete SINK/KEY ...",
		Short: "Delete resources, and their objects at the target",
		Long: `Delete stores a tombstone, which is delivered as any other change; the
resource is gone when the target confirmed. The policy says what becomes of the
target's object: delete, ack-then-delete (store what is there first) or retain.`,
		Args: atLeastOne("SINK/KEY"), ValidArgsFunction: a.completeKeys,
		RunE: func(cmd *cobra.Command, args []string) error {
			keys, err := parseKeys(cmd, args)
			if err != nil {
				return err
			}
			if err := checkPolicy(cmd, policy); err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			var items []waitItem
			failed := eachOf(a, keys, func(key record.Key) error {
				put, err := c.Delete(cmd.Context(), key, api.DeleteRequest{Deletion: record.DeletionPolicy(policy)})
				if err != nil {
					return err
				}
				items = append(items, waitItem{Key: key, Generation: put.Generation})
				fmt.Fprintf(a.Out, "%s: to be deleted, generation %d\n", key, put.Generation)
				return nil
			})
			if !wait || len(items) == 0 {
				return failed
			}
			return cmp.Or(failed, a.waitAndReport(cmd.Context(), c, items, timeout, false))
		},
	}
	cmd.Flags().StringVar(&policy, "policy", "", "deletion policy: delete, ack-then-delete or retain (default the resource's, else the sink's)")
	_ = cmd.RegisterFlagCompletionFunc("policy", cobra.FixedCompletions(deletionPolicies, cobra.ShellCompDirectiveNoFileComp))
	waitFlags(cmd, &wait, &timeout)
	return cmd
}

var deletionPolicies = []string{string(record.DeleteTarget), string(record.AckThenDelete), string(record.Retain)}

func checkPolicy(cmd *cobra.Command, policy string) error {
	if policy == "" || slices.Contains(deletionPolicies, policy) {
		return nil
	}
	return usage(cmd, "unknown --policy %q; %s", policy, api.DidYouMean(policy, deletionPolicies))
}
