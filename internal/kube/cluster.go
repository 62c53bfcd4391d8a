// Package kube opens the host's side of a Kubernetes upstream: where the API
// server is, how it is trusted, and which credentials requests bear. It is all of
// Kubernetes that the daemon knows; what is said to the API is a plugin's business.
package kube

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pawlsync/pawl/engine/upstream"
)

// Kind is what the configuration and plugins call such an upstream.
const Kind = "kubernetes"

// Options say which cluster, as which user.
type Options struct {
	// Kubeconfig is the path of a kubeconfig file. Empty: the service account of
	// the pod that this runs in.
	Kubeconfig string
	// Context is the kubeconfig's context. Empty: its current one.
	Context string
	// DialTimeout bounds connecting. Defaults to upstream.DefaultDialTimeout.
	DialTimeout time.Duration
	// Logger is told of files that can't be read again. Defaults to nowhere.
	Logger *slog.Logger
}

// Cluster is an API server with credentials. It implements http.RoundTripper.
//
// Files that changed are read again within a second, as long as they still name the
// same server: the kubeconfig, the client certificate, key and token that it names,
// and the token of a service account. Exec plugins are asked again when their
// credentials expired or were refused.
type Cluster struct {
	base *url.URL
	rt   *reloader
}

// Open reads the files that o names. It opens no connection.
//
// # Errors
//
// Files that can't be read, contexts that don't exist, and what Pawl does not
// take over from a kubeconfig: impersonation.
func Open(o Options) (*Cluster, error) {
	if o.DialTimeout == 0 {
		o.DialTimeout = upstream.DefaultDialTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	first, err := connect(o)
	if err != nil {
		return nil, err
	}
	return &Cluster{base: first.base, rt: newReloader(o, first)}, nil
}

// BaseURL is the API server's address, without a slash at its end.
func (c *Cluster) BaseURL() string { return strings.TrimSuffix(c.base.String(), "/") }

// RoundTrip carries a request with the cluster's credentials; it follows no
// redirects and repeats nothing.
func (c *Cluster) RoundTrip(r *http.Request) (*http.Response, error) { return c.rt.RoundTrip(r) }

// CloseIdleConnections closes the connections that carry nothing.
func (c *Cluster) CloseIdleConnections() { c.rt.CloseIdleConnections() }

// connection is what one reading of the files gave.
type connection struct {
	base      *url.URL
	transport http.RoundTripper
	files     []stamp // what was read, as it was before: it may change meanwhile
}

func connect(o Options) (*connection, error) {
	files := stampsOf(nil, o.Kubeconfig)
	c, err := restConfig(o)
	if err != nil {
		return nil, err
	}
	if c.Impersonate.UserName != "" || c.Impersonate.UID != "" || len(c.Impersonate.Groups) > 0 || len(c.Impersonate.Extra) > 0 {
		return nil, errors.New("the kubeconfig's user impersonates another one, which is not supported; give pawl a user of its own")
	}
	base, _, err := rest.DefaultServerUrlFor(c)
	if err != nil {
		return nil, err
	}
	base.Path = strings.TrimSuffix(base.Path, "/")
	if base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, errors.New("the server's address holds more than host, port and path")
	}
	// No proxy but the kubeconfig's own: the environment is nobody's decision here.
	if c.Proxy == nil {
		c.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	}
	dialler := net.Dialer{Timeout: o.DialTimeout, ControlContext: upstream.AddressControl(base.Hostname())}
	c.Dial = dialler.DialContext
	c.WarningHandler = rest.NoWarnings{}
	// client-go looks at these by itself, but only every few minutes.
	files = stampsOf(files, c.CertFile, c.KeyFile, c.BearerTokenFile)
	transport, err := rest.TransportFor(c)
	if err != nil {
		return nil, err
	}
	return &connection{base, transport, files}, nil
}

func restConfig(o Options) (*rest.Config, error) {
	if o.Kubeconfig == "" {
		c, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("no kubeconfig is named, and this is no pod with a service account; name a kubeconfig")
		}
		return c, err
	}
	c, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: o.Kubeconfig},
		&clientcmd.ConfigOverrides{CurrentContext: o.Context}).ClientConfig()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%s: %w", o.Kubeconfig, err)
	}
	return c, nil
}

// stamp tells whether a file is still the one that was read.
type stamp struct {
	path string
	real string // with links resolved: a Secret's volume changes by a link
	mod  time.Time
	size int64
}

// stampsOf adds the stamps of files to a list; "" is none.
func stampsOf(list []stamp, paths ...string) []stamp {
	for _, path := range paths {
		if path == "" {
			continue
		}
		s := stamp{path: path}
		if real, err := filepath.EvalSymlinks(path); err == nil {
			if st, err := os.Stat(real); err == nil {
				s.real, s.mod, s.size = real, st.ModTime(), st.Size()
			}
		}
		list = append(list, s)
	}
	return list
}
