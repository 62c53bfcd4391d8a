package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
)

func (a *app) sagaGetCommand() *cobra.Command {
	var payload bool
	cmd := &cobra.Command{
		Use:               "get ID",
		Short:             "Show a saga",
		Args:              sagaID,
		ValidArgsFunction: a.completeSagas,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(c *client.Client) error {
				v, err := c.Saga(cmd.Context(), args[0], payload)
				if err != nil {
					return err
				}
				return a.print(v, func() { a.printSaga(&v) })
			})
		},
	}
	cmd.Flags().BoolVar(&payload, "payload", false, "with what it writes, sensitive values as ***; for -o json and yaml")
	a.outputFlag(cmd)
	return cmd
}

// printSaga prints all that people want to know of one saga.
func (a *app) printSaga(v *api.Saga) {
	t := a.table("Saga:", v.ID)
	row := func(name, value string) {
		if value != "" {
			t.add(name+":", value)
		}
	}
	row("State", sagaState(v))
	row("Mode", v.Mode)
	if !v.Began.IsZero() {
		row("Began", a.age(v.Began)+" ago")
	}
	if v.Outcome == "" && !v.Deadline.IsZero() {
		row("Deadline", ternary(v.Deadline.After(a.Now()), a.until(v.Deadline), a.age(v.Deadline)+" ago"))
	}
	if !v.EndedAt.IsZero() {
		row("Ended", a.age(v.EndedAt)+" ago")
	}
	row("Why", sagaWhy(v))
	t.print()
	fmt.Fprintln(a.Out)
	a.printSteps(v)
}

// sagaState is the one word that says where a saga is.
func sagaState(v *api.Saga) string {
	switch {
	case v.Outcome != "" && v.Phase != api.SagaEnded:
		return v.Outcome + ", and releasing"
	case v.Outcome != "":
		return v.Outcome
	case v.Unresolved:
		return "Unresolved"
	}
	return v.Phase
}

func sagaWhy(v *api.Saga) string {
	if v.Stuck != "" {
		return v.Stuck
	}
	if v.Cause == "" {
		return ""
	}
	return v.Failure()
}

// printSteps prints a table of v's steps with the newest answer about each.
func (a *app) printSteps(v *api.Saga) {
	t := a.table("STEP", "VERB", "RESOURCE", "STATE", "AGE", "ANSWER")
	t.colour = func(column int, cell string) string {
		if column == 3 {
			return paintStep(cell)
		}
		return cell
	}
	for i := range v.Steps {
		s := &v.Steps[i]
		answer := &api.SagaAnswer{}
		if said := cmp.Or(s.Refusal, s.Answer); said != nil {
			answer = said
		}
		t.add(strconv.Itoa(i+1), s.Verb, s.Sink+"/"+s.Key, s.State, a.age(answer.At), answer.String())
	}
	t.print()
}

// paintStep colours a step's state as paintPhase does a phase.
func paintStep(state string) string {
	switch state {
	case api.StepWritten:
		return "\x1b[32m" + state + "\x1b[0m"
	case api.StepRefused, api.StepInDoubt:
		return "\x1b[31m" + state + "\x1b[0m"
	}
	return "\x1b[33m" + state + "\x1b[0m"
}

func (a *app) sagaListCommand() *cobra.Command {
	var (
		open  bool
		limit int
	)
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List sagas",
		Long:    "List shows sagas in the order of their ids. Ended ones are remembered for 7 days.",
		Example: "  pawl saga list --open",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return usage(cmd, "--limit %d is less than nothing; leave it out to list all", limit)
			}
			return a.withClient(func(c *client.Client) error { return a.listSagas(cmd, c, open, limit) })
		},
	}
	cmd.Flags().BoolVar(&open, "open", false, "only those that have not ended")
	cmd.Flags().IntVar(&limit, "limit", 0, "at most so many (default all)")
	a.outputFlag(cmd)
	return cmd
}

func (a *app) listSagas(cmd *cobra.Command, c *client.Client, open bool, limit int) error {
	items := []api.Saga{}
	for after := ""; ; {
		page, err := c.Sagas(cmd.Context(), open, after, pageSize)
		if err != nil {
			return err
		}
		items = append(items, page.Items...)
		if after = page.Next; after == "" || limit > 0 && len(items) >= limit {
			break
		}
	}
	if limit > 0 && len(items) > limit {
		items = items[:limit]
	}
	return a.print(map[string]any{"items": items}, func() {
		if len(items) == 0 {
			fmt.Fprintln(a.Out, "no sagas")
			return
		}
		t := a.table("SAGA", "MODE", "STATE", "STEPS", "AGE", "WHY")
		for i := range items {
			v := &items[i]
			t.add(v.ID, v.Mode, sagaState(v), strconv.Itoa(len(v.Steps)), a.age(v.Began), sagaWhy(v))
		}
		t.print()
	})
}

func (a *app) sagaExplainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "explain ID",
		Short:             "Say how far a saga has come, what it waits for and what can be done",
		Args:              sagaID,
		ValidArgsFunction: a.completeSagas,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(c *client.Client) error {
				e, err := c.ExplainSaga(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.print(e, func() {
					fmt.Fprintln(a.Out, wrap(e.Text, a.textWidth()))
					fmt.Fprintln(a.Out)
					a.printSteps(&e.Saga)
				})
			})
		},
	}
	a.outputFlag(cmd)
	return cmd
}

func (a *app) sagaTemplatesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "templates",
		Short: "List the saga templates of the daemon's configuration",
		Long:  "Templates shows what `pawl saga run --template` takes. A parameter in brackets has a\ndefault; -o json tells what each may be.",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(func(c *client.Client) error {
				items, err := c.SagaTemplates(cmd.Context())
				if err != nil {
					return err
				}
				return a.print(map[string]any{"items": items}, func() { a.printTemplates(items) })
			})
		},
	}
	a.outputFlag(cmd)
	return cmd
}

func (a *app) printTemplates(items []api.SagaTemplate) {
	if len(items) == 0 {
		fmt.Fprintln(a.Out, "no saga templates")
		return
	}
	t := a.table("TEMPLATE", "MODE", "STEPS", "PARAMETERS", "WHAT")
	for i := range items {
		var params []string
		for _, p := range items[i].Params {
			params = append(params, ternary(p.Required, p.Name, "["+p.Name+"]"))
		}
		t.add(items[i].Name, items[i].Mode, strconv.Itoa(len(items[i].Steps)), strings.Join(params, " "), items[i].Description)
	}
	t.print()
}
