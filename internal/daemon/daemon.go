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
	"github.com/pawlsync/pawl/internal/source"
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
	// Hangup or the API says so. Defaults to none: the configuration is not read again.
	Reload func() (*config.Config, error)
	// LogLevel is the level of Logger, see NewLogger: the API changes it, and so does a
	// configuration that is read again. Defaults to one that changes nothing.
	LogLevel *slog.LevelVar
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

	tracing tracing  // is set when the daemon starts
	secrets *secrets // that Logger must not show
	recent  *logRing // of what Logger was told
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
	o.secrets = &secrets{}
	o.recent = &logRing{}
	o.Logger = slog.New(masked{slog.NewMultiHandler(o.Logger.Handler(), o.recent.handler()), o.secrets})
	if o.LogLevel == nil {
		o.LogLevel = new(slog.LevelVar)
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
	o.tracing = openTracing(ctx, c, o, nil)
	defer o.tracing.close(ctx)
	t, _, err := prepare(ctx, c, o, nil)
	if err != nil {
		return err
	}
	return t.closeAll()
}

// prepare opens what needs no store, or says all that is wrong with it. running is for
// the sources, which do nothing yet.
func prepare(ctx context.Context, c *config.Config, o Options, running func() *engine.Engine) (*targets, []source.Spec, error) {
	wrong := append(wrongServer(c, o), wrongStore(c)...)
	wrong = append(wrong, o.tracing.wrong...)
	t, err := openTargets(ctx, c, o)
	if more, ok := errors.AsType[config.Errors](err); ok {
		wrong = append(wrong, more...)
	} else if err != nil {
		return nil, nil, err
	}
	if t != nil {
		wrong = append(wrong, wrongSagas(c, t.manifest)...)
	}
	sources, more := openSources(c, o, running, allSources(c))
	if wrong = append(wrong, more...); len(wrong) == 0 {
		return t, sources, nil
	}
	if t != nil {
		return nil, nil, errors.Join(wrong.Sorted(), t.closeAll())
	}
	return nil, nil, wrong.Sorted()
}

// listenAll listens at server.listen and, where it is set, at server.socket.
func listenAll(ctx context.Context, s config.Server) ([]net.Listener, error) {
	tcp, err := listen(ctx, s.Listen)
	if err != nil || s.Socket == "" {
		return []net.Listener{tcp}, err
	}
	unix, err := listenSocket(ctx, s.Socket, socketMode(s))
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
	sources *source.Manager
	server  *server.Server
	keeper  *keeper
	store   *badger.Store // the engine's, which closes it
	unwatch context.CancelFunc
	audit   *auditFile // nil: none
	manager *notifier  // who runs the daemon
}

// start opens everything, in the order in which one needs the other, and closes
// what is open when something fails.
func start(ctx context.Context, c *config.Config, o Options) (d *daemon, err error) {
	registry := prometheus.NewRegistry()
	observer := metrics.New(registry)
	o.tracing = openTracing(ctx, c, o, observer.SpansSent)
	defer func() {
		if err != nil {
			o.tracing.close(ctx)
		}
	}()
	d = &daemon{config: c, options: o, manager: newNotifier(o.LookupEnv, os.Getpid(), o.Logger)}
	watch := newWatch(c, o.LookEvery)
	var sources []source.Spec
	if d.targets, sources, err = prepare(ctx, c, o, func() *engine.Engine { return d.engine }); err != nil {
		return nil, err
	}
	d.sagas = saga.New(saga.Options{Logger: o.Logger, Observer: observer, Failpoint: o.Failpoint})
	totals := server.NewTotals(observer)
	eo := engineOptions(c, o, d.targets, d.sagas, totals)
	eo.Store = d.openStore
	d.engine, err = engine.Open(ctx, eo)
	if err != nil {
		return nil, errors.Join(err, d.targets.closeAll())
	}
	d.sources = source.New(source.Options{Engine: d.engine, Sources: sources, GroupMax: min(sourceGroup, c.Limits.BatchMax), Logger: o.Logger, Observer: observer})
	d.keep(ctx, observer)
	gatherer := metrics.NewGatherer(registry, d.engine, d.sagas.Stats, d.sources.Figures, d.targets.pluginStats, o.Version)
	so, err := serverOptions(c, o, d.engine, d.sagas, gatherer)
	if err == nil {
		d.keepCertificates(ctx, so.Certificates, registry)
		showAccess(&so, registry, observer)
		err = d.keepAudit(&so, observer)
	}
	if err == nil {
		so.Around = o.tracing.server()
		if o.Reload != nil {
			so.Reloader = watch
		}
		so.Diagnostics = &diagnostics{inForce: func() *config.Config { return watch.reloader.current() }, metrics: gatherer, options: o}
		so.Relay, so.Sources, so.Store, so.Totals = d.receiver(observer), d.sources, storeCare{d.store}, totals
		d.server, err = server.New(so)
	}
	if err == nil {
		err = d.openAdmin(ctx, c.Server, gatherer)
	}
	if err != nil {
		return nil, errors.Join(err, d.stop(ctx, 0))
	}
	d.sources.Start()
	d.watch(watch, observer)
	return d, nil
}

// keep begins to look after sinks, which stop ends.
func (d *daemon) keep(ctx context.Context, observer *metrics.Observer) {
	ctx, d.unwatch = context.WithCancel(context.WithoutCancel(ctx))
	d.keeper = &keeper{targets: d.targets, engine: d.engine, log: d.options.Logger, ctx: ctx, swapped: observer.SwapDone, forget: observer.ForgetSink, waits: map[*post]*wait{}}
	d.keeper.begin(ctx)
	d.keeper.loops.Go(func() { d.manager.ping(ctx, func() { d.engine.Stats() }) })
}

// watch begins to look after files, which stop ends.
func (d *daemon) watch(w *watch, observer *metrics.Observer) {
	w.keeper, w.manager = d.keeper, d.manager
	r := newReloader(d.config, d.options)
	r.keeper, r.engine, r.sources, r.server, r.observer = d.keeper, d.engine, d.sources, d.server, observer
	w.reloader = r
	d.keeper.loops.Go(func() { w.run(d.keeper.ctx, d.options.Hangup) })
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
	warnOfTokensInTheClear(d.config.Server, d.options, listeners[0].Addr().String())
	if path := d.config.Server.Socket; path != "" {
		log.Info("listening at a socket as well", "socket", path)
	}
	if d.options.Ready != nil {
		d.options.Ready(ready)
	}
	d.manager.ready(ready)
	grace := d.config.Server.ShutdownGrace
	var told atomic.Int64 // when to stop, in nanoseconds since began; requests under way share the grace with calls
	release := context.AfterFunc(ctx, func() {
		told.Store(int64(time.Since(began)))
		log.Info("stopping: calls in flight may finish", "grace", d.config.Server.ShutdownGrace)
		d.manager.stopping(d.config.Server.ShutdownGrace)
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

// stop ends the sources, then sagas, whose journal is the engine's, then the engine, and with it store
// and sinks, then what they used.
func (d *daemon) stop(ctx context.Context, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	d.unwatch()
	d.sources.Close()
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
	d.options.tracing.close(ctx)
	return errors.Join(err, d.audit.Close(), d.targets.closePlugins())
}

// metricsHandler serves what g gathers; nil where metrics are off.
func metricsHandler(c *config.Config, g prometheus.Gatherer) http.Handler {
	if !c.Metrics.Enabled {
		return nil
	}
	return promhttp.HandlerFor(g, promhttp.HandlerOpts{EnableOpenMetrics: true})
}
