package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
)

// operate gives one order for each resource and says so once it is durable.
func (a *app) operate(cmd *cobra.Command, args []string, done string, order func(*client.Client, context.Context, record.Key) error) error {
	keys, err := parseKeys(cmd, args)
	if err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	for _, key := range keys {
		if err := order(c, cmd.Context(), key); err != nil {
			return err
		}
		fmt.Fprintf(a.Out, "%s: %s\n", key, done)
	}
	return nil
}

// order is a command that gives one order.
func (a *app) order(name, short, long, done string, order func(*client.Client, context.Context, record.Key) error) *cobra.Command {
	return &cobra.Command{
		Use: name + " SINK/KEY ...", Short: short, Long: long,
		Args: atLeastOne("SINK/KEY"), ValidArgsFunction: a.completeKeys,
		RunE: func(cmd *cobra.Command, args []string) error { return a.operate(cmd, args, done, order) },
	}
}

func (a *app) retryCommand() *cobra.Command {
	return a.order("retry", "Deliver resources at once",
		"Retry delivers a resource at once, whatever it waits for, with its attempts counted anew.",
		"is tried again now", (*client.Client).Retry)
}

func (a *app) acceptCommand() *cobra.Command {
	return a.order("accept", "Take what the target holds for acknowledged",
		"Accept ends drift the other way round: what the target holds counts as\nacknowledged, until the desired state changes. A resource that is to be deleted\nand can't be told to be ours is taken over, so that it can be deleted.",
		"what the target holds is taken over", (*client.Client).Accept)
}

func (a *app) forceCommand() *cobra.Command {
	return a.order("force", "Deliver the desired state whatever the conflict policy",
		"Force applies the desired state once, whatever the resource's conflict policy\nsays. `pawl apply --force SINK/KEY` is the same.",
		"applied again, whatever the policy", (*client.Client).Force)
}

func (a *app) forgetCommand() *cobra.Command {
	return a.order("forget", "Give resources up and leave the target as it is",
		"Forget removes a resource from the outbox, waiting work and tombstones\nincluded. The target keeps what it has. This can't be taken back.",
		"forgotten; the target keeps what it has", (*client.Client).Forget)
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
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.operate(cmd, args, h.done, h.resource); err != nil {
				return err
			}
			return a.operateSinks(cmd, sinks, h)
		},
	}
	cmd.Flags().StringArrayVar(&sinks, "sink", nil, "a whole sink; may be given many times")
	return cmd
}

func (a *app) operateSinks(cmd *cobra.Command, sinks []string, h hold) error {
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
	for _, sink := range sinks {
		if err := h.sink(c, cmd.Context(), sink); err != nil {
			return err
		}
		fmt.Fprintf(a.Out, "sink %s: %s\n", sink, h.done)
	}
	return nil
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
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			items, err := a.deleteAll(cmd.Context(), c, keys, record.DeletionPolicy(policy))
			if err != nil || !wait {
				return err
			}
			outcomes, err := a.waitAll(cmd.Context(), c, items, timeout)
			if err != nil {
				return err
			}
			return a.reportWaited(outcomes, false)
		},
	}
	cmd.Flags().StringVar(&policy, "policy", "", "deletion policy: delete, ack-then-delete or retain (default the resource's, else the sink's)")
	waitFlags(cmd, &wait, &timeout)
	return cmd
}

func (a *app) deleteAll(ctx context.Context, c *client.Client, keys []record.Key, policy record.DeletionPolicy) ([]waitItem, error) {
	items := make([]waitItem, len(keys))
	for i, key := range keys {
		put, err := c.Delete(ctx, key, api.DeleteRequest{Deletion: policy})
		if err != nil {
			return nil, err
		}
		items[i] = waitItem{key, put.Generation}
		fmt.Fprintf(a.Out, "%s: to be deleted, generation %d\n", key, put.Generation)
	}
	return items, nil
}
