package cli

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
)

// What pawl plan and pawl diff have in common: both ask the daemon to look at targets
// and print how these stand to what is desired.

// compares marks a command whose exit codes are those of a comparison: 0, ExitChanges
// and, whatever goes wrong, ExitError.
const compares = "compares"

// comparison makes cmd one that compares.
func (a *app) comparison(cmd *cobra.Command) *cobra.Command {
	cmd.Annotations = map[string]string{compares: "yes"}
	a.outputFlag(cmd)
	return cmd
}

// The signs of what would happen at a target.
const (
	signCreate  = "+"
	signUpdate  = "~"
	signDelete  = "-"
	signLeft    = "="
	signRefused = "!"
	signUnknown = "?"
)

func (a *app) sign(sign string) string {
	colour := map[string]string{signCreate: "32", signUpdate: "33", signDelete: "31", signRefused: "1;31", signUnknown: "1;31"}[sign]
	if !a.colours || colour == "" {
		return sign
	}
	return "\x1b[" + colour + "m" + sign + "\x1b[0m"
}

// shown is one resource of a comparison as it is printed.
type shown struct {
	sign string
	text string
	d    *api.Difference
}

// printShown prints one resource, with where it differs.
func (a *app) printShown(s shown) {
	fmt.Fprintf(a.Out, "%s %s/%s: %s\n", a.sign(s.sign), s.d.Sink, s.d.Key, s.text)
	if s.sign == signDelete {
		return
	}
	for _, p := range s.d.Paths {
		sign := map[string]string{api.ChangeAdd: signCreate, api.ChangeRemove: signDelete}[p.Change]
		fmt.Fprintf(a.Out, "    %s %s%s\n", a.sign(cmp.Or(sign, signUpdate)), p.Path, values(&p))
	}
}

// values are those of a path that differs, where they were asked for and are known.
func values(p *api.PathChange) string {
	switch {
	case p.Desired == nil && p.Observed == nil:
		return ""
	case p.Observed == nil:
		return ": " + string(p.Desired)
	case p.Desired == nil:
		return ": " + string(p.Observed)
	}
	return fmt.Sprintf(": %s -> %s", p.Observed, p.Desired)
}

// reasoned adds why, where there is a reason.
func reasoned(what, why string) string { return ternary(why != "", what+" ("+why+")", what) }

// compare goes through the daemon's answers to lines, and tells a person how far it is.
// each returns what prints an answer; nil: nothing is to be printed.
func (a *app) compare(ctx context.Context, c *client.Client, values bool, lines iter.Seq[api.PlanLine], each func(*api.PlanAnswer) (print func(), err error)) error {
	p := lookCount{app: a, began: a.Now()}
	defer p.clear()
	for answer, err := range c.Plan(ctx, client.PlanOptions{Values: values}, lines) {
		if err != nil {
			return err
		}
		print, err := each(&answer)
		if err != nil {
			return err
		}
		if print != nil {
			p.clear()
			print()
		}
		p.step()
	}
	return nil
}

// lookCount counts on a terminal what has been looked at, once that takes a while.
type lookCount struct {
	app   *app
	began time.Time
	told  time.Time
	n     int
	there bool // something of it is on the terminal
}

// Pauses of a lookCount: a quick command prints none.
const (
	progressAfter = time.Second
	progressEvery = 100 * time.Millisecond
)

func (p *lookCount) step() {
	p.n++
	now := p.app.Now()
	if !p.app.ErrTerminal || now.Sub(p.began) < progressAfter || now.Sub(p.told) < progressEvery {
		return
	}
	p.clear()
	p.told, p.there = now, true
	fmt.Fprintf(p.app.Err, "%s looked at so far", plural(p.n, "resource"))
}

func (p *lookCount) clear() {
	if p.there {
		fmt.Fprint(p.app.Err, "\r\x1b[K")
		p.there = false
	}
}

// counted prints "2 to create, 1 unchanged" for those of names that have a count.
func counted(counts map[string]int, names []string) string {
	var parts []string
	for _, name := range names {
		if n := counts[name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, name))
		}
	}
	return strings.Join(parts, ", ")
}
