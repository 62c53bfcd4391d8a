package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
)

func (a *app) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how the daemon and its sinks are doing",
		Long: `Status starts with what needs somebody's attention: a target that does not
answer or refuses our credentials, a full disk, suspended sinks, resources that
failed, changes that wait for long. Where there is no such line, no target is
known to be in trouble; one that is not called (nothing is due) is not judged.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			st, err := c.Status(cmd.Context())
			if err != nil {
				return err
			}
			return a.print(st, func() { a.printStatus(&st) })
		},
	}
	a.outputFlag(cmd)
	return cmd
}

func (a *app) printStatus(st *api.DaemonStatus) {
	for _, h := range st.Headlines {
		fmt.Fprintln(a.Out, a.loud("! "+h))
	}
	if len(st.Headlines) > 0 {
		fmt.Fprintln(a.Out)
	}
	fmt.Fprintf(a.Out, "pawl %s, up %s, %s%s\n", st.Version, a.age(st.StartedAt), plural(st.Resources, "resource"), countsText(st.Counts))
	where := st.Store.Directory
	if where == "" {
		where = "in memory"
	}
	fmt.Fprintf(a.Out, "store %s: %s, %s free\n", where, size(st.Store.Bytes), size(st.Store.FreeBytes))
	if len(st.Sinks) == 0 {
		fmt.Fprintln(a.Out, "no sinks are configured")
		return
	}
	fmt.Fprintln(a.Out)
	t := a.table("SINK", "PLUGIN", "STATE", "ACKED", "PENDING", "TROUBLE", "IN FLIGHT", "OLDEST", "LAST ERROR")
	t.colour = func(column int, cell string) string {
		if column == 2 && cell != "ok" || column == 5 && cell != "0" {
			return "\x1b[31m" + cell + "\x1b[0m"
		}
		return cell
	}
	for i := range st.Sinks {
		t.add(a.sinkRow(&st.Sinks[i])...)
	}
	t.print()
}

// countsText prints ": 12 Acked, 3 Pending", or nothing.
func countsText(counts map[record.Phase]int) string {
	var parts []string
	for _, p := range record.Phases() {
		if n := counts[p]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, p))
		}
	}
	if parts == nil {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

func (a *app) sinkRow(s *api.Sink) []string {
	count := func(phases ...record.Phase) string {
		n := 0
		for _, p := range phases {
			n += s.Counts[p]
		}
		return strconv.Itoa(n)
	}
	lastError := ""
	if s.LastError != "" {
		lastError = fmt.Sprintf("%s ago: %s", a.age(s.LastErrorAt), join(s.LastErrorStatus, s.LastError))
	}
	plugin := s.Plugin
	if plugin == "" {
		plugin = "-"
	}
	if len(s.Digest) > digestShown {
		plugin += " (" + s.Digest[:digestShown] + ")"
	}
	return []string{s.Name, plugin, a.sinkState(s),
		count(record.AckedPhase),
		count(record.Pending, record.Delivering, record.Deleting),
		count(record.Failed, record.Stalled, record.Drifted, record.Orphaned),
		strconv.Itoa(s.InFlight), a.age(s.OldestUnacked), lastError}
}

// digestShown is how much of a plugin's digest tells it from its other versions.
const digestShown = 8

// sinkState sums a sink up; the worst thing first.
func (a *app) sinkState(s *api.Sink) string {
	switch {
	case !s.Configured:
		return "not configured"
	case s.Suspended:
		return "suspended"
	case s.NotReady != "":
		return "not ready"
	case s.LastErrorStatus == "unauthorized":
		return "unauthorized"
	case api.Trouble(s) != "":
		return "unreachable"
	case s.PausedUntil.After(a.Now()):
		return "paused"
	}
	return "ok"
}
