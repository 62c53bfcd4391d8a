package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
	"github.com/pawlsync/pawl/internal/nearest"
)

// pageSize is how many resources one request lists.
const pageSize = 1000

func generation(g uint64) string {
	if g == 0 {
		return "-"
	}
	return strconv.FormatUint(g, 10)
}

func problemOf(err error) *api.Problem {
	p, _ := errors.AsType[*api.Problem](err)
	return p
}

func (a *app) getCommand() *cobra.Command {
	var payload, reveal bool
	cmd := &cobra.Command{
		Use:               "get SINK/KEY ...",
		Short:             "Show single resources",
		Example:           "  pawl get web/users/alice --payload",
		Args:              atLeastOne("SINK/KEY"),
		ValidArgsFunction: a.completeKeys,
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
			printed := false
			return eachOf(a, keys, func(key record.Key) error {
				r, err := c.Get(cmd.Context(), key, client.GetOptions{Payload: payload || reveal, Reveal: reveal})
				if err != nil {
					return err
				}
				if printed && a.output == "table" {
					fmt.Fprintln(a.Out)
				}
				printed = true
				return a.printGot(len(keys) > 1, &r)
			})
		},
	}
	cmd.Flags().BoolVar(&payload, "payload", false, "show the payload, sensitive values as ***")
	cmd.Flags().BoolVar(&reveal, "reveal", false, "show the payload, sensitive values too")
	a.outputFlag(cmd)
	return cmd
}

// printGot prints one resource: one of many as an element of a stream.
func (a *app) printGot(many bool, r *api.Resource) error {
	print := a.print
	if many {
		print = a.printLine
	}
	return print(r, func() { a.printResource(r) })
}

// printResource prints all that people want to know of one resource.
func (a *app) printResource(r *api.Resource) {
	st := &r.Status
	t := a.table("Resource:", r.RecordKey().String())
	row := func(name, value string) {
		if value != "" {
			t.add(name+":", value)
		}
	}
	row("Phase", join(string(st.Phase), string(st.Reason), st.Message))
	row("Generation", generation(r.Generation)+ternary(r.Tombstone, ", to be deleted", ""))
	if ack := st.Acked; ack != nil {
		row("Acked", fmt.Sprintf("generation %d, %s ago", ack.Generation, a.age(ack.At)))
		row("Target", join(ack.Target, ack.Ref))
	}
	if !st.NextAt.IsZero() && st.Phase != record.AckedPhase {
		row("Next attempt", a.until(st.NextAt))
	}
	row("Attempts", ternary(st.Attempts > 0, strconv.Itoa(st.Attempts), ""))
	row("Differs at", strings.Join(st.DriftPaths, ", "))
	row("Suspended", suspendedBy(r))
	row("Held by saga", r.HeldBy)
	row("Order", ternary(st.Command != "", "the operator's "+string(st.Command)+" waits for its delivery", ""))
	row("Direction", join(string(r.Direction), ternary(r.Origin == record.FromTarget, "what is desired was found at the target", "")))
	row("Conflict policy", string(r.Conflict))
	row("Deletion policy", string(r.Deletion))
	row("Retry", retryText(r.Retry))
	row("Idempotency key", r.IdempotencyKey)
	row("Owner", r.Owner)
	row("Put", ternary(r.PutAt.IsZero(), "", a.age(r.PutAt)+" ago"))
	row("Payload", payloadText(r))
	row("The target has", observedText(st.Observed))
	t.print()
}

// retryText reads "base 1s, 3 attempts"; "" where all is the sink's.
func retryText(r *api.Retry) string {
	if r == nil {
		return ""
	}
	var parts []string
	add := func(name string, d api.Duration) {
		if d != 0 {
			parts = append(parts, name+" "+time.Duration(d).String())
		}
	}
	add("base", r.Base)
	add("max", r.Max)
	if r.MaxAttempts != 0 {
		parts = append(parts, strconv.Itoa(r.MaxAttempts)+" attempts")
	}
	add("stall", r.Stall)
	return strings.Join(parts, ", ")
}

func ternary(cond bool, yes, no string) string {
	if cond {
		return yes
	}
	return no
}

func suspendedBy(r *api.Resource) string {
	switch {
	case r.Suspend && r.Status.Suspended:
		return "by its source and an operator"
	case r.Suspend:
		return "by its source"
	case r.Status.Suspended:
		return "by an operator"
	}
	return ""
}

func observedText(o *api.Observed) string {
	if o == nil {
		return ""
	}
	return payloadText(&api.Resource{Payload: o.Content, PayloadBase64: o.ContentBase64, PayloadHidden: o.ContentHidden})
}

func payloadText(r *api.Resource) string {
	switch {
	case r.PayloadHidden:
		return "hidden: its sink has sensitive paths that can't be found in it"
	case r.Payload != nil:
		return string(r.Payload)
	case r.PayloadBase64 != nil:
		return fmt.Sprintf("%d bytes that are no JSON; use -o json", len(r.PayloadBase64))
	}
	return ""
}

func (a *app) listCommand() *cobra.Command {
	var (
		phases  []string
		limit   int
		payload bool
	)
	cmd := &cobra.Command{
		Use:     "list [SINK[/PREFIX]]",
		Aliases: []string{"ls"},
		Short:   "List resources",
		Example: `  pawl list
  pawl list web/users/ --phase Failed --phase Stalled`,
		ValidArgsFunction: a.completeKeys,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return usage(cmd, "--limit %d is less than nothing; leave it out to list all", limit)
			}
			sink, prefix, err := parseKeyPrefix(cmd, args)
			if err != nil {
				return err
			}
			o := client.ListOptions{Sink: sink, Prefix: prefix, Payloads: payload, Limit: pageSize}
			if o.Phases, err = parsePhases(cmd, phases); err != nil {
				return err
			}
			return a.list(cmd, o, limit)
		},
	}
	cmd.Flags().StringArrayVar(&phases, "phase", nil, "only resources of this phase; may be given many times")
	cmd.Flags().IntVar(&limit, "limit", 0, "at most so many (default all)")
	cmd.Flags().BoolVar(&payload, "payload", false, "with payloads, sensitive values as ***; for -o json and yaml")
	_ = cmd.RegisterFlagCompletionFunc("phase", cobra.FixedCompletions(phaseNames(), cobra.ShellCompDirectiveNoFileComp))
	a.outputFlag(cmd)
	return cmd
}

func phaseNames() []string {
	var names []string
	for _, p := range record.Phases() {
		names = append(names, string(p))
	}
	return names
}

func parsePhases(cmd *cobra.Command, names []string) ([]record.Phase, error) {
	var out []record.Phase
	known := phaseNames()
next:
	for _, name := range names {
		for _, k := range known {
			if strings.EqualFold(name, k) {
				out = append(out, record.Phase(k))
				continue next
			}
		}
		hint := "there are " + strings.Join(known, ", ")
		if n := nearest.Of(name, known); n != "" {
			hint = "did you mean " + n + "?"
		}
		return nil, usage(cmd, "unknown phase %q; %s", name, hint)
	}
	return out, nil
}

func (a *app) list(cmd *cobra.Command, o client.ListOptions, limit int) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	items := []api.Resource{}
	for r, err := range c.All(cmd.Context(), o) {
		if err != nil {
			return err
		}
		if items = append(items, r); limit > 0 && len(items) == limit {
			break
		}
	}
	return a.print(map[string]any{"items": items}, func() {
		if len(items) == 0 {
			fmt.Fprintln(a.Out, "no resources")
			return
		}
		t := a.table("RESOURCE", "PHASE", "GENERATION", "ACKED", "ATTEMPTS", "AGE", "WHY")
		t.colour = func(column int, cell string) string {
			if column == 1 {
				return paintPhase(cell)
			}
			return cell
		}
		for i := range items {
			t.add(a.listRow(&items[i])...)
		}
		t.print()
	})
}

func (a *app) listRow(r *api.Resource) []string {
	acked := "-"
	if r.Status.Acked != nil {
		acked = generation(r.Status.Acked.Generation)
	}
	why := join(string(r.Status.Reason), r.Status.Message)
	if s := suspendedBy(r); s != "" {
		why = join("suspended "+s, why)
	}
	if r.Tombstone {
		why = join("to be deleted", why)
	}
	return []string{r.RecordKey().String(), string(r.Status.Phase), generation(r.Generation), acked,
		strconv.Itoa(r.Status.Attempts), a.age(r.PutAt), why}
}

func (a *app) explainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "explain SINK/KEY",
		Short:             "Say why a resource is where it is and what happens next",
		Args:              exactly("SINK/KEY"),
		ValidArgsFunction: a.completeKeys,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := parseKey(cmd, args[0])
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			e, err := c.Explain(cmd.Context(), key)
			if err != nil {
				return err
			}
			return a.print(e, func() { a.printExplanation(&e) })
		},
	}
	a.outputFlag(cmd)
	return cmd
}

func (a *app) printExplanation(e *api.Explanation) {
	fmt.Fprintln(a.Out, wrap(e.Text, a.textWidth()))
	if len(e.Resource.Status.History) == 0 {
		return
	}
	fmt.Fprintln(a.Out)
	t := a.table("AGE", "GENERATION", "PHASE", "TOOK", "WHY")
	t.colour = func(column int, cell string) string {
		if column == 2 {
			return paintPhase(cell)
		}
		return cell
	}
	said := e.Resource.Status.Message
	if !strings.Contains(e.Text, strings.TrimRight(said[:min(len(said), 100)], ".")) {
		said = ""
	}
	for _, h := range e.Resource.Status.History {
		message := h.Message
		if message == said && h.Reason != "" {
			message = "" // a long rejection is not to be read twice
		} else if message != "" {
			said = message
		}
		took := "-"
		if h.TookSeconds > 0 {
			took = fmt.Sprintf("%.0fms", h.TookSeconds*1000)
		}
		t.add(a.age(h.At), generation(h.Generation), string(h.Phase), took, join(string(h.Reason), message))
	}
	t.print()
}

// textWidth is how many columns a paragraph may take.
func (a *app) textWidth() int {
	if a.OutTerminal && a.Width > 20 {
		return min(a.Width, 100)
	}
	return 80
}

// wrap breaks text at spaces so that no line is longer than width, where it can.
func wrap(text string, width int) string {
	var out strings.Builder
	line := 0
	for word := range strings.FieldsSeq(text) {
		n := len([]rune(word))
		switch {
		case line == 0:
		case line+1+n > width:
			out.WriteByte('\n')
			line = 0
		default:
			out.WriteByte(' ')
			line++
		}
		out.WriteString(word)
		line += n
	}
	return out.String()
}
