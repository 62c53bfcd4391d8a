package kit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"strconv"
	"strings"
)

// Run runs a command of pawl against the daemon, and returns what it printed and its
// exit code.
func (d *Daemon) Run(args ...string) (out string, code int) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, d.Program, args...)
	cmd.Dir = d.Dir
	cmd.Env = d.environment()
	b, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		d.t.Fatalf("pawl %s: %v", strings.Join(args, " "), err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

// Show runs a command, shows what it printed, and checks that it succeeded and says
// each part.
func (d *Daemon) Show(command string, parts ...string) string {
	d.t.Helper()
	out, code := d.Run(strings.Fields(command)...)
	d.t.Logf("$ pawl %s\n%s", command, excerpt(out))
	if code != 0 {
		d.t.Errorf("pawl %s: exit code %d", command, code)
	}
	for _, part := range parts {
		if !strings.Contains(out, part) {
			d.t.Errorf("pawl %s does not say %q", command, part)
		}
	}
	return out
}

// Refused runs a command, shows what it printed, and checks that it failed and says each
// part.
func (d *Daemon) Refused(command string, parts ...string) {
	d.t.Helper()
	out, code := d.Run(strings.Fields(command)...)
	d.failed(command, out, code, parts)
}

func (d *Daemon) failed(command, out string, code int, parts []string) {
	d.t.Helper()
	d.t.Logf("$ pawl %s\n%s(exit code %d)", command, excerpt(out), code)
	if code == 0 {
		d.t.Errorf("pawl %s succeeded", command)
	}
	for _, part := range parts {
		if !strings.Contains(out, part) {
			d.t.Errorf("pawl %s does not say %q", command, part)
		}
	}
}

// excerpt is as much of what a command printed as somebody reads: how it begins and
// ends.
func excerpt(out string) string {
	const most, ends = 24, 8
	lines := strings.SplitAfter(out, "\n")
	if len(lines) <= most {
		return out
	}
	return fmt.Sprintf("%s… %d more lines …\n%s", strings.Join(lines[:ends], ""), len(lines)-2*ends, strings.Join(lines[len(lines)-ends:], ""))
}

// Metrics are the daemon's, by name with labels, as /metrics has them.
func (d *Daemon) Metrics() map[string]float64 {
	d.t.Helper()
	text, err := d.scrape()
	Must(d.t, err)
	out := map[string]float64{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if ok {
			name += "}"
		} else if name, value, ok = strings.Cut(strings.TrimSpace(line), " "); !ok {
			continue
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			out[name] = v
		}
	}
	return out
}

// Metric shows a metric and returns it; it must be there.
func (d *Daemon) Metric(name string) float64 {
	d.t.Helper()
	v, ok := d.Metrics()[name]
	if !ok {
		d.t.Fatalf("/metrics has no %s", name)
	}
	d.t.Logf("%s %g", name, v)
	return v
}

// MemoryBytes is the resident memory of the process.
func (d *Daemon) MemoryBytes() int64 {
	d.t.Helper()
	return int64(d.Metrics()["process_resident_memory_bytes"])
}

// Reaches waits until a metric has a value, for as long as it comes nearer.
func (d *Daemon) Reaches(name string, want float64) {
	d.t.Helper()
	Approaches(d.t, fmt.Sprintf("%s %g", name, want), func() float64 {
		v, ok := d.Metrics()[name]
		if !ok {
			return math.Inf(1)
		}
		return math.Abs(want - v)
	})
}
