package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pawlsync/pawl/config"
)

// openAdmin answers at server.admin_address until stop; where that is empty, it does
// nothing. A profile under way at the end is cut off.
func (d *daemon) openAdmin(ctx context.Context, s config.Server, g prometheus.Gatherer) error {
	if s.AdminAddress == "" {
		return nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", s.AdminAddress)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("the address %s is in use; choose another one with server.admin_address", s.AdminAddress)
	case err != nil:
		return fmt.Errorf("the daemon can't listen at server.admin_address: %w", err)
	}
	handler := noOtherSite(adminHandler(d.server.Handler(), g))
	if isLoopback(l.Addr().String()) {
		handler = onlyThisMachine(handler)
	}
	hs := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10}
	others := d.unwatch
	d.unwatch = func() { hs.Close(); others() }
	d.keeper.loops.Go(func() {
		if err := hs.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			d.options.Logger.Error("the admin address answers no more; the rest goes on", "error", err)
		}
	})
	d.options.Logger.Info("profiles and metrics are at the admin address", "address", l.Addr().String())
	return nil
}

// adminHandler has the runtime's profiles and the metrics, and hands the probes to the API.
func adminHandler(api http.Handler, g prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index) // and the profiles that have a name
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.Handle("GET /metrics", promhttp.HandlerFor(g, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.Handle("GET /livez", api)
	mux.Handle("GET /readyz", api)
	return mux
}

// onlyThisMachine refuses requests for another host: the page of a site whose name
// was made to point at this machine would pass for ours but for that.
func onlyThisMachine(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.Host) {
			http.Error(w, "the admin address answers this machine alone; call 127.0.0.1 or localhost", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// noOtherSite refuses what the page of another site has a browser send: it could not
// read a profile, but begin as many as it likes.
func noOtherSite(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Sec-Fetch-Site") {
		case "", "same-origin", "none":
			h.ServeHTTP(w, r)
		default:
			http.Error(w, "the request comes from the page of another site", http.StatusForbidden)
		}
	})
}

// isLoopback reports whether only this machine reaches host, with or without a port.
func isLoopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}
