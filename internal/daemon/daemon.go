// Package daemon makes one running daemon out of a configuration: store,
// plugins, upstreams, engine and HTTP API. It is the only place that knows them
// all; what each does is in its own package.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox/badger"
	"github.com/pawlsync/pawl/engine/saga"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/metrics"
	"github.com/pawlsync/pawl/internal/server"
)

// Options are what a daemon needs besides its configuration. The zero value works.
type Options struct {
	Version api.Version
	// Logger gets what an operator should know. Defaults to none; see NewLogger.
	Logger *slog.Logger
	// AcceptLoss opens a store that lost data which it had acknowledged; what is
	// left goes on as a restored store does (R67, R68).
	AcceptLoss bool
	// CompileCommand runs wasmhost.CompileApart in a process of its own, which
	// compiles the plugins that are not trusted. Defaults to none: they are compiled
	// in this process.
	CompileCommand []string
	// Reload reads the configuration again: when its file has changed, and when
	// Hangup says so. Of what it returns only where plugins' modules come from is
	// taken over. Defaults to none: the configuration is not read again.
	Reload func() (*config.Config, error)
	// Hangup makes the daemon look at once whether files have changed.
	Hangup <-chan os.Signal
	// LookEvery is how often it looks by itself. Defaults to 2s.
	LookEvery time.Duration
	// Ready is called once, when the daemon answers. Defaults to nothing.
	Ready func(Ready)
	// LookupEnv finds the secrets that the configuration takes from the
	// environment. Defaults to os.LookupEnv.
	LookupEnv func(string) (string, bool)
	// Failpoint is that of saga.Options, for tests. Defaults to none.
	Failpoint func(point string) error
}

// Ready describes a daemon that has just become ready.
type Ready struct {
	Address   string // URL of the API, with the port in force
	Store     string // folder
	Sinks     int
	Resources int // that the store holds
	Took      time.Duration
}

// Run runs a daemon until ctx ends, and returns nil when it stopped in good
// order within the configuration's shutdown_grace. An error says what could not
// be started, or what broke.
func Run(ctx context.Context, c *config.Config, o Options) error {
	o.setDefaults()
	collectOften()
	began := time.Now()
	// The addresses are taken first: a second daemon by mistake learns of it at
	// once, and callers that come early wait instead of being refused.
	listeners, err := listenAll(ctx, c.Server)
	if err != nil {
		return err
	}
	d, err := start(ctx, c, o)
	if err != nil {
		for _, l := range listeners {
			l.Close()
		}
		return err
	}
	return d.serve(ctx, listeners, began)
}

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.LookupEnv == nil {
		o.LookupEnv = os.LookupEnv
	}
	if o.LookEvery == 0 {
		o.LookEvery = 2 * time.Second
	}
}

// Check finds what would keep a daemon from starting, as far as that shows
// without store, network and address: it reads every secret, certificate and
// module that the configuration names, and hands each plugin its config. What is
// wrong comes as config.Errors, all of it at once.
func Check(ctx context.Context, c *config.Config, o Options) error {
	o.setDefaults()
	t, err := prepare(ctx, c, o)
	if err != nil {
		return err
	}
	return t.closeAll()
}

// prepare opens what needs no store, or says all that is wrong with it.
func prepare(ctx context.Context, c *config.Config, o Options) (*targets, error) {
	wrong := append(wrongServer(c, o), wrongStore(c)...)
	t, err := openTargets(ctx, c, o)
	if more, ok := errors.AsType[config.Errors](err); ok {
		wrong = append(wrong, more...)
	} else if err != nil {
		return nil, err
	}
	if t != nil {
		wrong = append(wrong, wrongSagas(c, t)...)
	}
	if len(wrong) == 0 {
		return t, nil
	}
	if t != nil {
		return nil, errors.Join(wrong.Sorted(), t.closeAll())
	}
	return nil, wrong.Sorted()
}

// listenAll listens at server.listen and, where it is set, at server.socket.
func listenAll(ctx context.Context, s config.Server) ([]net.Listener, error) {
	tcp, err := listen(ctx, s.Listen)
	if err != nil || s.Socket == "" {
		return []net.Listener{tcp}, err
	}
	unix, err := listenSocket(ctx, s.Socket)
	if err != nil {
		tcp.Close()
		return nil, err
	}
	return []net.Listener{tcp, unix}, nil
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("the address %s is in use; is another pawl running? Stop it, or choose another address with server.listen or --listen", address)
	case err != nil:
		return nil, fmt.Errorf("the API can't listen at server.listen: %w", err)
	}
	return l, nil
}

// daemon is what runs.
type daemon struct {
	config  *config.Config
	options Options
	targets *targets
	engine  *engine.Engine
	sagas   *saga.Manager
	server  *server.Server
	keeper  *keeper
	unwatch context.CancelFunc
}

// start opens everything, in the order in which one needs the other, and closes
// what is open when something fails.
func start(ctx context.Context, c *config.Config, o Options) (d *daemon, err error) {
	d = &daemon{config: c, options: o}
	watch := newWatch(c, o.Reload, o.LookEvery)
	if d.targets, err = prepare(ctx, c, o); err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	observer := metrics.New(registry)
	d.sagas = saga.New(saga.Options{Logger: o.Logger, Observer: observer, Failpoint: o.Failpoint})
	d.engine, err = engine.Open(ctx, engineOptions(c, o, d.targets, d.sagas, observer))
	if err != nil {
		return nil, errors.Join(err, d.targets.closeAll())
	}
	d.keep(ctx, watch, observer.SwapDone)
	registry.MustRegister(metrics.NewCollector(d.engine, d.sagas.Stats, d.targets.pluginStats, o.Version))
	so, err := serverOptions(c, o, d.engine, d.sagas, registry)
	if err == nil {
		d.server, err = server.New(so)
	}
	if err != nil {
		return nil, errors.Join(err, d.stop(ctx, 0))
	}
	return d, nil
}

// keep begins to look after sinks and files, which stop ends.
func (d *daemon) keep(ctx context.Context, w *watch, swapped func(plugin, result string)) {
	ctx, d.unwatch = context.WithCancel(context.WithoutCancel(ctx))
	d.keeper = &keeper{targets: d.targets, engine: d.engine, log: d.options.Logger, swapped: swapped, waits: map[*post]*wait{}}
	w.keeper = d.keeper
	d.keeper.begin(ctx)
	d.keeper.loops.Go(func() { w.run(ctx, d.options.Hangup) })
}

// serve answers until ctx ends or the API breaks, then stops in good order.
func (d *daemon) serve(ctx context.Context, listeners []net.Listener, began time.Time) error {
	stats := d.engine.Stats()
	ready := Ready{
		Address: d.url(listeners[0].Addr()), Store: stats.Info.Directory, Sinks: len(d.config.Sinks),
		Resources: stats.Resources, Took: time.Since(began),
	}
	log := d.options.Logger
	log.Info("ready", "address", ready.Address, "store", ready.Store, "sinks", ready.Sinks, "resources", ready.Resources, "took", ready.Took.Round(time.Millisecond))
	if path := d.config.Server.Socket; path != "" {
		log.Info("listening at a socket as well", "socket", path)
	}
	if d.options.Ready != nil {
		d.options.Ready(ready)
	}
	grace := d.config.Server.ShutdownGrace
	var told atomic.Int64 // when to stop, in nanoseconds since began; requests under way share the grace with calls
	release := context.AfterFunc(ctx, func() {
		told.Store(int64(time.Since(began)))
		log.Info("stopping: calls in flight may finish", "grace", d.config.Server.ShutdownGrace)
	})
	defer release()
	err := d.server.Serve(ctx, listeners...)
	if at := told.Load(); at != 0 {
		grace -= time.Since(began) - time.Duration(at)
	}
	err = errors.Join(err, d.stop(context.WithoutCancel(ctx), max(0, grace)))
	log.Info("stopped")
	return err
}

func (d *daemon) url(addr net.Addr) string {
	scheme := "http://"
	if d.config.Server.TLS.CertFile != "" {
		scheme = "https://"
	}
	return scheme + addr.String()
}

// stop ends sagas, whose journal is the engine's, then the engine, and with it store
// and sinks, then what they used.
func (d *daemon) stop(ctx context.Context, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	d.unwatch()
	half, cancelHalf := context.WithTimeout(ctx, grace/2) // the rest is for what else is under way
	defer cancelHalf()
	err := d.sagas.Close(half)
	if errors.Is(err, context.DeadlineExceeded) {
		d.options.Logger.Warn("calls of sagas were cut off at shutdown; the next start asks what came of them")
		err = nil
	}
	err = errors.Join(err, d.engine.Close(ctx))
	d.keeper.loops.Wait()
	d.keeper.retiring.Wait()
	return errors.Join(err, d.targets.closePlugins())
}

// metricsHandler serves the registry; nil where metrics are off.
func metricsHandler(c *config.Config, registry *prometheus.Registry) http.Handler {
	if !c.Metrics.Enabled {
		return nil
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

func storeOptions(c *config.Config, o Options) badger.Options {
	return badger.Options{Dir: c.Store.Path, ReserveBytes: int64(c.Store.ReserveBytes), AcceptLoss: o.AcceptLoss, Logger: o.Logger}
}
