package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pawlsync/pawl/internal/client"
)

// topCommand shows rates, live or once.
func (a *app) topCommand() *cobra.Command {
	var (
		once  bool
		every time.Duration
		by    string
	)
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show what goes through each sink, live",
		Long: `Top shows, of each sink, how many Puts, acknowledgements and failed deliveries there
are a second, over the last ten seconds and the last minute or as much of them as it
has seen, what waits, the oldest change that is not acknowledged, calls under way and
the breaker. The line above sums them up.

Keys: n, p, a, f, w, o and i sort by name, puts, acked, failed, waiting, oldest and in
flight; q ends it.

Without a terminal, with --once, or with -o json or yaml it looks twice, one --interval
apart, and prints that once.`,
		Example: "  pawl top --sort waiting\n  pawl top --once -o json | jq '.sinks[] | select(.waiting > 1000)'",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			order := slices.Index(topOrderNames(), by)
			switch {
			case order < 0:
				return usage(cmd, "unknown order %q; use one of %s", by, strings.Join(topOrderNames(), ", "))
			case every <= 0:
				return usage(cmd, "--interval is %s; give one above 0, such as 2s", every)
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			t := &top{app: a, client: c, every: every, order: order}
			in, inOK := a.In.(*os.File)
			out, outOK := a.Out.(*os.File)
			if once || a.output != "table" || !inOK || !outOK || !a.InTerminal || !a.OutTerminal {
				return t.once(cmd.Context())
			}
			return t.live(cmd.Context(), in, out)
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "print one table and end")
	cmd.Flags().DurationVar(&every, "interval", 2*time.Second, "time between two looks")
	cmd.Flags().StringVar(&by, "sort", "name", "what to sort by: "+strings.Join(topOrderNames(), ", "))
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(topOrderNames(), cobra.ShellCompDirectiveNoFileComp))
	a.outputFlag(cmd)
	return cmd
}

// top is one run of the command.
type top struct {
	*app
	client  *client.Client
	every   time.Duration
	order   int // of topOrders
	history topHistory
}

// look asks the daemon.
func (t *top) look(ctx context.Context) (topView, error) {
	st, err := t.client.Status(ctx)
	if err != nil {
		return topView{}, err
	}
	t.history = t.history.add(t.Now(), &st)
	return t.topView(t.history, &st), nil
}

// once looks twice and prints.
func (t *top) once(ctx context.Context) error {
	if _, err := t.look(ctx); err != nil {
		return err
	}
	select {
	case <-time.After(t.every):
	case <-ctx.Done():
		return ctx.Err()
	}
	v, err := t.look(ctx)
	if err != nil {
		return err
	}
	v.sort(t.order)
	return t.print(v, func() { fmt.Fprint(t.Out, t.topText(&v)) })
}

const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // a screen of its own, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
)

// live draws again and again until q or ctx ends it. A daemon that does not answer the
// first look is an error; later ones are told in the last line, and looked for again.
func (t *top) live(ctx context.Context, in, out *os.File) error {
	v, err := t.look(ctx)
	if err != nil {
		return err
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("top can't take keys from the terminal: %w; use --once", err)
	}
	defer term.Restore(int(in.Fd()), before)
	fmt.Fprint(out, enterScreen)
	defer fmt.Fprint(out, leaveScreen)
	keys := make(chan byte)
	ended, stop := context.WithCancel(ctx)
	defer stop()
	go readKeys(ended, in, keys)
	tick := time.NewTicker(t.every)
	defer tick.Stop()
	for {
		v.sort(t.order)
		width, height, _ := term.GetSize(int(out.Fd()))
		fmt.Fprint(out, topFrame(t.topText(&v), t.foot(err), width, height))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case key := <-keys:
			if key == 'q' || key == 3 { // ^C, which a raw terminal hands on
				return nil
			}
			t.sortBy(key)
		case <-tick.C:
			var next topView
			if next, err = t.look(ctx); err == nil {
				v = next
			}
		}
	}
}

// sortBy takes a key that names an order; others do nothing.
func (t *top) sortBy(key byte) {
	for i := range topOrders {
		if topOrders[i].key == key {
			t.order = i
		}
	}
}

func (t *top) foot(err error) string {
	if err != nil {
		return "! " + strings.ReplaceAll(err.Error(), "\n", " ")
	}
	var keys []string
	for _, o := range topOrders {
		keys = append(keys, string(o.key)+" "+o.name)
	}
	return "by " + topOrders[t.order].name + "; sort by: " + strings.Join(keys, ", ") + "; q ends"
}

// readKeys hands keys on until in or ctx ends. A read that waits for a key ends with the
// program.
func readKeys(ctx context.Context, in io.Reader, keys chan<- byte) {
	var b [1]byte
	for {
		if n, err := in.Read(b[:]); err != nil || n == 0 {
			return
		}
		select {
		case keys <- b[0]:
		case <-ctx.Done():
			return
		}
	}
}
