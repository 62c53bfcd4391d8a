// Command demo shows what Pawl promises: real resources travel through the
// daemon and a sandboxed plugin to a real HTTP target, survive the target's
// death and the daemon's, and arrive. It ends with status 0 only if the target
// then holds exactly what is desired.
//
// It starts the built programs bin/pawl and bin/target, which `make demo` builds,
// and keeps everything in examples/quickstart/.demo/run, apart from what the tour
// in the README keeps.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"
)

const (
	changes     = 10               // of one resource while the target is down
	crowd       = 1000             // resources in the middle of which the daemon is killed
	killAfter   = 300              // of them have arrived
	slowness    = "250ms"          // of 64 calls at a time: there is time enough for the kill
	patience    = 30 * time.Second // for anything that should happen soon
	pollEvery   = 20 * time.Millisecond
	greetingKey = "greeting"
)

func main() {
	d := &demo{desired: map[string]string{}}
	flag.StringVar(&d.pawl, "pawl", "bin/pawl", "the program pawl")
	flag.StringVar(&d.target, "target", "bin/target", "the program that is the target")
	flag.StringVar(&d.dir, "dir", "examples/quickstart", "folder of the quick start")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := d.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		os.Exit(1)
	}
}

// demo is one run.
type demo struct {
	pawl, target string // programs
	dir          string
	state        string // folder of everything that the run keeps

	store   *targetClient
	address string // of the daemon

	targetProcess, daemonProcess *process

	desired map[string]string // key to payload, as applied
}

func (d *demo) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, d.stopAll()) }()
	for _, act := range []func(context.Context) error{d.prepare, d.arrive, d.coalesce, d.survive, d.compare} {
		if err := act(ctx); err != nil {
			if ctx.Err() != nil {
				return errors.New("interrupted")
			}
			return fmt.Errorf("%w\nlogs are in %s", err, d.state)
		}
	}
	d.say("The tour in README.md starts afresh. To play with what the demo left, the commands are:")
	fmt.Printf("  %s -dir %s &\n", d.target, filepath.Join(d.state, "target"))
	fmt.Printf("  %s run --config %s --store %s &\n", d.pawl, filepath.Join(d.dir, "pawl.yaml"), filepath.Join(d.state, "store"))
	fmt.Printf("  %s status\n", d.pawl)
	return nil
}

// prepare empties the state of an earlier run and starts target and daemon.
func (d *demo) prepare(ctx context.Context) error {
	for _, program := range []string{d.pawl, d.target} {
		if _, err := os.Stat(program); err != nil {
			return fmt.Errorf("%s is not built; run: make build", program)
		}
	}
	d.state = filepath.Join(d.dir, ".demo", "run")
	if err := os.RemoveAll(d.state); err != nil {
		return err
	}
	if err := os.MkdirAll(d.state, 0o755); err != nil {
		return err
	}
	targetAddress, err := freeAddress("127.0.0.1:7399")
	if err != nil {
		return err
	}
	if d.address, err = freeAddress("127.0.0.1:7295"); err != nil {
		return err
	}
	d.store = &targetClient{base: "http://" + targetAddress}
	d.say("Starting a small HTTP object store, the target, at %s,", d.store.base)
	if err := d.startTarget(ctx); err != nil {
		return err
	}
	fmt.Printf("and the daemon at http://%s, which keeps the target at the desired state.\n", d.address)
	return d.startDaemon(ctx)
}

// arrive applies the quick start's resources.
func (d *demo) arrive(ctx context.Context) error {
	resources := filepath.Join(d.dir, "resources")
	d.say("A dozen resources, from %s:", resources)
	payloads, err := d.readResources(ctx, resources)
	if err != nil {
		return err
	}
	if err := d.command(ctx, "", "apply", "-f", resources, "-q", "--wait"); err != nil {
		return err
	}
	for key, payload := range payloads {
		d.desired[key] = payload
	}
	return d.command(ctx, "", "list")
}

// readResources learns from pawl itself what the files ask for: applied to
// nothing, then shown.
func (d *demo) readResources(ctx context.Context, dir string) (map[string]string, error) {
	raw, err := d.output(ctx, "apply", "-f", dir, "--dry-run", "-o", "json")
	if err != nil {
		return nil, err
	}
	var checked struct {
		Items []struct {
			Key     string          `json:"key"`
			Payload json.RawMessage `json:"payload"`
		} `json:"items"`
	}
	if err := json.Unmarshal(raw, &checked); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, item := range checked.Items {
		out[item.Key] = string(item.Payload)
	}
	return out, nil
}

// coalesce changes one resource while the target is down.
func (d *demo) coalesce(ctx context.Context) error {
	d.say("The target dies. Meanwhile one resource changes %d times:", changes)
	if err := d.targetProcess.kill(); err != nil {
		return err
	}
	for n := range changes {
		payload := fmt.Sprintf(`{"text":"Hello, world, for the %d. time"}`, n+1)
		if _, err := d.apply(ctx, document(greetingKey, payload)); err != nil {
			return err
		}
		d.desired[greetingKey] = payload
	}
	if err := d.untilUnreachable(ctx); err != nil {
		return err
	}
	if err := d.command(ctx, "", "list", "web/"+greetingKey); err != nil {
		return err
	}
	d.say("It is held, nothing is lost. The target comes back:")
	if err := d.startTarget(ctx); err != nil {
		return err
	}
	if err := d.command(ctx, "", "wait", "web/"+greetingKey); err != nil {
		return err
	}
	stats, err := d.store.stats(ctx)
	if err != nil {
		return err
	}
	puts := stats.Keys[greetingKey].Puts
	fmt.Printf("%d changes, %d delivery: the newest went out, those that it replaced never did.\n", changes, puts)
	if puts != 1 {
		return fmt.Errorf("the target got %d PUTs of %s, want 1", puts, greetingKey)
	}
	return nil
}

// untilUnreachable waits until the daemon has tried the newest change in vain.
func (d *demo) untilUnreachable(ctx context.Context) error {
	return until(ctx, func() (bool, error) {
		raw, err := d.output(ctx, "get", "web/"+greetingKey, "-o", "json")
		if err != nil {
			return false, err
		}
		var r struct {
			Status struct {
				Reason string `json:"reason"`
			} `json:"status"`
		}
		return json.Unmarshal(raw, &r) == nil && r.Status.Reason == "Unreachable", nil
	})
}

// survive kills the daemon in the middle of a crowd.
func (d *demo) survive(ctx context.Context) error {
	d.say("Now a thousand resources, to a target that takes %s for each:", slowness)
	if err := d.store.control(ctx, "slow", slowness); err != nil {
		return err
	}
	var docs strings.Builder
	for n := range crowd {
		key, payload := fmt.Sprintf("crowd/%04d", n), fmt.Sprintf(`{"number":%d,"square":%d}`, n, n*n)
		docs.WriteString(document(key, payload))
		d.desired[key] = payload
	}
	if err := d.command(ctx, docs.String(), "apply", "-f", "-", "-q"); err != nil {
		return err
	}
	arrived := 0
	err := until(ctx, func() (bool, error) {
		keys, err := d.store.list(ctx)
		arrived = countPrefix(keys, "crowd/")
		return arrived >= killAfter, err
	})
	if err != nil {
		return fmt.Errorf("waiting for %d of the crowd to arrive: %w", killAfter, err)
	}
	if err := d.daemonProcess.kill(); err != nil {
		return err
	}
	fmt.Printf("%d have arrived when the daemon is killed with SIGKILL, with calls in flight.\n", arrived)
	if arrived >= crowd {
		return errors.New("all had arrived already: the kill proved nothing; run the demo again")
	}
	if err := d.store.control(ctx, "ok", ""); err != nil {
		return err
	}
	d.say("The daemon starts again and goes on where it was:")
	if err := d.startDaemon(ctx); err != nil {
		return err
	}
	if err := d.command(ctx, "", "wait", "--all"); err != nil {
		return err
	}
	return d.command(ctx, "", "status")
}

func countPrefix(keys []string, prefix string) int {
	n := 0
	for _, k := range keys {
		if strings.HasPrefix(k, prefix) {
			n++
		}
	}
	return n
}

// compare holds the target against what is desired.
func (d *demo) compare(ctx context.Context) error {
	d.say("Comparing the target with the desired state, object by object:")
	keys, err := d.store.list(ctx)
	if err != nil {
		return err
	}
	equal, different, extra := 0, 0, 0
	for _, key := range keys {
		want, ok := d.desired[key]
		if !ok {
			extra++
			continue
		}
		got, err := d.store.get(ctx, key)
		if err != nil {
			return err
		}
		if sameJSON(got, want) {
			equal++
		} else {
			different++
		}
	}
	missing := len(d.desired) - equal - different
	stats, err := d.store.stats(ctx)
	if err != nil {
		return err
	}
	repeated := 0
	for key, c := range stats.Keys {
		if strings.HasPrefix(key, "crowd/") {
			repeated += max(0, c.Puts-1)
		}
	}
	fmt.Printf("  desired %d, equal %d, different %d, missing %d, too many %d\n", len(d.desired), equal, different, missing, extra)
	fmt.Printf("  sent twice: %d (what landed unanswered at the kill is found by looking, before anything is sent again)\n", repeated)
	if equal != len(d.desired) || extra > 0 {
		return errors.New("the target is not at the desired state")
	}
	fmt.Println("  The target is at the desired state.")
	return nil
}

// say prints a step's heading.
func (d *demo) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == "" {
		text = "\x1b[1m" + text + "\x1b[0m"
	}
	fmt.Println("\n" + text)
}

// document is one resource as `pawl apply` reads it.
func document(key, payload string) string {
	return fmt.Sprintf("{\"sink\":\"web\",\"key\":%q,\"payload\":%s}\n", key, payload)
}
