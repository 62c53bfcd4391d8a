// Command demo keeps a Kubernetes cluster and a SpiceDB at one desired state with
// Pawl: it starts a real kube-apiserver and a real SpiceDB, applies the example's
// resources, has somebody change both behind Pawl's back, runs sagas, of which two are
// refused and one is cut in two by the daemon's death, and deletes all. After each step
// it compares what both servers say with what is desired, and ends with status 0 only
// if they agreed every time.
//
// `make demo-kube` builds bin/pawl and runs it. The servers are built the first
// time, which takes minutes, and are kept in the user's cache folder. Everything
// else is in examples/kube-spicedb/.demo/run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pawlsync/pawl/test/e2e/servers"
	"golang.org/x/term"
)

const (
	patience  = 2 * time.Minute // for anything that should happen soon
	pollEvery = 100 * time.Millisecond
)

func main() {
	d := &demo{}
	flag.StringVar(&d.pawl, "pawl", "bin/pawl", "the program pawl")
	flag.StringVar(&d.dir, "dir", "examples/kube-spicedb", "folder of the example")
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
	pawl  string // the program
	dir   string // of the example
	state string // folder of everything that the run keeps

	cluster *cluster
	spicedb *spicedb
	daemon  *daemon

	desired []resource // of the files
	sagas   []string   // namespaces that sagas created
}

func (d *demo) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, d.stop()) }()
	for _, act := range []func(context.Context) error{d.prepare, d.start, d.apply, d.disturb, d.create, d.refuse, d.refuseDeletion, d.die, d.remove} {
		if err := act(ctx); err != nil {
			if ctx.Err() != nil {
				return errors.New("interrupted")
			}
			return fmt.Errorf("%w\nlogs are in %s", err, d.state)
		}
	}
	return nil
}

// prepare empties the state of an earlier run and builds what is not built yet.
func (d *demo) prepare(ctx context.Context) (err error) {
	if _, err := os.Stat(d.pawl); err != nil {
		return fmt.Errorf("%s is not built; run: make build", d.pawl)
	}
	if d.state, err = filepath.Abs(filepath.Join(d.dir, ".demo", "run")); err != nil {
		return err
	}
	if err := os.RemoveAll(d.state); err != nil {
		return err
	}
	if err := os.MkdirAll(d.state, 0o755); err != nil {
		return err
	}
	return buildServers(ctx)
}

// start starts the two targets, then the daemon.
func (d *demo) start(ctx context.Context) error {
	d.say("Starting etcd and kube-apiserver,")
	dir := filepath.Join(d.state, "kube")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	kube, err := servers.StartKube(ctx, dir)
	if err != nil {
		return err
	}
	d.cluster = &cluster{Kube: kube, cache: filepath.Join(d.state, "kubectl")}
	fmt.Printf("which answer at %s; and SpiceDB,\n", kube.URL)
	db, err := servers.StartSpiceDB(ctx, d.state)
	if err != nil {
		return err
	}
	d.spicedb = &spicedb{db}
	schema, err := os.ReadFile(filepath.Join(d.dir, "schema.zed"))
	if err != nil {
		return err
	}
	if err := d.spicedb.writeSchema(ctx, string(schema)); err != nil {
		return err
	}
	fmt.Printf("which answers at %s; and the daemon, with %s.\n", db.Address, filepath.Join(d.dir, "pawl.yaml"))
	d.daemon, err = d.startDaemon(ctx, "")
	return err
}

// apply applies the example's resources.
func (d *demo) apply(ctx context.Context) (err error) {
	resources := filepath.Join(d.dir, "resources")
	if d.desired, err = d.readResources(ctx, resources); err != nil {
		return err
	}
	d.say("The desired state, a namespace and a ConfigMap and who may do what with them:")
	if err := d.command(ctx, "apply", "-f", resources, "--wait"); err != nil {
		return err
	}
	return d.compare(ctx)
}

// disturb has somebody change both targets, and waits until that is undone.
func (d *demo) disturb(ctx context.Context) error {
	d.say("Somebody removes a line of the ConfigMap, and makes mallory its owner instead of anne:")
	version, err := d.cluster.forgetRoses(ctx)
	if err != nil {
		return err
	}
	if err := d.spicedb.takeOver(ctx); err != nil {
		return err
	}
	d.say("Nobody tells Pawl; it looks by itself every two seconds, and puts both right:")
	if err := until(ctx, func() error { return d.differences(ctx) }); err != nil {
		return fmt.Errorf("the drift was not undone: %w", err)
	}
	now, err := d.cluster.get(ctx, wateringPath)
	if err != nil {
		return err
	}
	if now.version() == version {
		return errors.New("the ConfigMap was never written again: the drift proved nothing")
	}
	return d.compare(ctx)
}

// remove deletes every resource.
func (d *demo) remove(ctx context.Context) (err error) {
	d.say("All is deleted. (What ends a namespace, a controller manager, is not running: the demo plays its part.)")
	playing, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- d.cluster.endNamespaces(playing) }()
	defer func() {
		stop()
		if e := <-ended; err != nil { // which may be why
			err = errors.Join(err, e)
		}
	}()
	for _, name := range d.sagas {
		if err := d.removeNamespace(ctx, name); err != nil {
			return err
		}
	}
	args := []string{"delete", "--wait"}
	for _, r := range d.desired {
		args = append(args, r.Sink+"/"+r.Key)
	}
	if err := d.command(ctx, args...); err != nil {
		return err
	}
	return d.compareGone(ctx)
}

func (d *demo) stop() error {
	var err error
	if d.daemon != nil {
		err = d.daemon.stop()
	}
	if d.spicedb != nil {
		d.spicedb.Stop()
	}
	if d.cluster != nil {
		d.cluster.Stop()
	}
	return err
}

// say prints a step's heading.
func (d *demo) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == "" {
		text = "\x1b[1m" + text + "\x1b[0m"
	}
	fmt.Println("\n" + text)
}

// until calls fn until it returns nil, for as long as there is patience.
func until(ctx context.Context, fn func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := fn()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return fmt.Errorf("gave up after %s: %w", patience, err)
		}
	}
}
