package ops

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
	"github.com/pawlsync/pawl/test/ops/kit"
)

// backAnHour tells a program of stepped to set its wall clock back by an hour.
const backAnHour = syscall.Signal(40)

// stepped builds the daemon over a standard library whose wall clock can be stepped while
// its monotonic one goes on, as when an operator or NTP sets the system's clock; all else
// is as it is. (The program makes no calls of libc, so that libfaketime can't do it.)
func stepped(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	kit.Must(t, err)
	std, dir := filepath.Join(strings.TrimSpace(string(out)), "src", "time"), t.TempDir()
	source, err := os.ReadFile(filepath.Join(std, "time.go"))
	kit.Must(t, err)
	const read = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if !strings.Contains(string(source), read) {
		t.Fatal("this Go's time.Now reads the clock in another way; adapt this test")
	}
	replace := map[string]string{}
	overlay := func(path, text string) {
		to := filepath.Join(dir, fmt.Sprint(len(replace), ".go"))
		kit.Must(t, os.WriteFile(to, []byte(text), 0o600))
		replace[path] = to
	}
	overlay(filepath.Join(std, "time.go"), strings.Replace(string(source), read, read+"\tsec += Step.Load()\n", 1))
	overlay(filepath.Join(std, "step.go"), "package time\n\nimport \"sync/atomic\"\n\nvar Step atomic.Int64\n")
	overlay(filepath.Join(kit.Root(t), "cmd", "pawl", "step.go"), fmt.Sprintf(`package main

import ("os"; "os/signal"; "syscall"; "time")

func init() {
	if os.Getenv("STARTS_AN_HOUR_BEHIND") != "" { time.Step.Add(-3600) }
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.Signal(%d))
	go func() { for range c { time.Step.Add(-3600) } }()
}
`, backAnHour))
	text, err := json.Marshal(map[string]any{"Replace": replace})
	kit.Must(t, err)
	file := filepath.Join(dir, "overlay.json")
	kit.Must(t, os.WriteFile(file, text, 0o600))
	return kit.Build(t, "pawl-stepped", "./cmd/pawl", "-overlay", file)
}

// TestAClockThatIsSetBackAnHourHoldsNothingUp sets a daemon's clock back while resources
// wait between two attempts: they are tried no later for it, new ones go out at once, and
// a daemon that starts with the old time goes on with what the newer time has written.
func TestAClockThatIsSetBackAnHourHoldsNothingUp(t *testing.T) {
	kit.OnlyFull(t) // it compiles the standard library
	target := kit.NewTarget(t)
	d := kit.New(t, target.Config("    retry: {base: 2s, max: 4s, max_attempts: 1000}\n"))
	d.Program = stepped(t)
	d.Start()
	target.Refuse(503)
	for i := range 20 {
		_, err := d.Put(t.Context(), web(fmt.Sprint("waits/", i)), api.PutRequest{Payload: json.RawMessage(`{"before":true}`)})
		kit.Must(t, err)
	}
	kit.Eventually(t, "all are refused once", func(context.Context) error {
		if n := d.Metrics()[`pawl_deliveries_total{outcome="retryable",sink="web"}`]; n < 20 {
			return fmt.Errorf("%g are", n)
		}
		return nil
	})
	d.Signal(backAnHour)
	var newest uint64
	kit.Eventually(t, "the daemon's clock is an hour behind", func(ctx context.Context) error {
		put, err := d.Put(ctx, web("after"), api.PutRequest{Payload: fmt.Appendf(nil, `{"asked":%d}`, time.Now().UnixNano())})
		kit.Must(t, err)
		r, err := d.Get(ctx, web("after"), client.GetOptions{})
		kit.Must(t, err)
		newest = put.Generation
		if behind := time.Since(r.PutAt); behind < 59*time.Minute {
			return fmt.Errorf("it is %v behind", behind)
		}
		return nil
	})
	d.Show("status")
	d.Show("explain web/waits/1")
	if strings.Contains(d.Show("list"), "-59m") {
		t.Error("an age is negative")
	}
	began := time.Now()
	target.Refuse(0)
	d.Reaches(`pawl_resources{phase="Acked",sink="web"}`, 21)
	took := time.Since(began)
	t.Logf("all arrived %v after the target took them again; the longest pause is 4s", took.Round(time.Millisecond))
	if took > time.Minute {
		t.Errorf("what waited was held up for %v", took)
	}

	target.Refuse(503)
	again, err := d.Put(t.Context(), web("waits/1"), api.PutRequest{Payload: json.RawMessage(`{"after":true}`)})
	kit.Must(t, err)
	if again.Generation <= newest {
		t.Errorf("generation %d came after %d", again.Generation, newest)
	}
	d.Reaches(`pawl_resources{phase="Pending",sink="web"}`, 1)
	d.Stop()
	d.Start() // at the right time
	d.Stop()
	t.Setenv("STARTS_AN_HOUR_BEHIND", "yes")
	d.Start()
	target.Refuse(0)
	d.Reaches(`pawl_resources{phase="Acked",sink="web"}`, 21)
	if got := target.Objects()["waits/1"]; got.Body != `{"after":true}` || got.Generation != again.Generation {
		t.Errorf("the target has %+v", got)
	}
	d.Show("status")
}
