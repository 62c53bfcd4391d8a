package daemon

import (
	"context"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/kube"
	"github.com/pawlsync/pawl/internal/metrics"
	"github.com/pawlsync/pawl/internal/server"
)

// addCallers adds TLS to the server's options, and every way to tell callers apart
// but Pawl's own tokens. Certificates come first: one that is no good any more lets
// nobody in, whatever else is shown. The cluster is asked before the token file,
// whose tokens it never gets to see.
func addCallers(out *server.Options, c *config.Config, o Options) error {
	var first []access.Authenticator
	if c.Server.TLS.CertFile != "" {
		certificates, err := openCertificates(c.Server.TLS, o)
		if err != nil {
			return err
		}
		out.Certificates = certificates
		if c.Server.TLS.ClientCAFile != "" {
			first = append(first, callerCertificates(c.Server, certificates))
		}
	}
	if c.Server.TokenReview != nil {
		review, err := openReview(c.Server.TokenReview, o)
		if err != nil {
			return err
		}
		first = append(first, review)
	}
	out.Authenticators = append(first, out.Authenticators...)
	if c.Server.Socket == "" {
		return nil
	}
	peers, err := openPeers(c.Server.SocketClients)
	out.Peers = peers
	return err
}

// wrongCallers says what keeps addCallers from working.
func wrongCallers(c *config.Config, o Options) config.Errors {
	var out config.Errors
	wrong := func(key string, err error) {
		if err != nil {
			out = append(out, c.Wrong(key, err.Error(), ""))
		}
	}
	if c.Server.TLS.CertFile != "" {
		_, err := openCertificates(c.Server.TLS, o)
		wrong("server.tls", err)
	}
	if c.Server.TokenReview != nil {
		_, err := openReview(c.Server.TokenReview, o)
		wrong("server.token_review", err)
	}
	_, err := openPeers(c.Server.SocketClients)
	wrong("server.socket_clients", err)
	return out
}

func openCertificates(t config.ServerTLS, o Options) (*access.Certificates, error) {
	return access.OpenCertificates(access.CertificateOptions{
		CertFile: t.CertFile, KeyFile: t.KeyFile, ClientCAFile: t.ClientCAFile, ClientOptional: t.ClientAuth == "optional",
		Logger: o.Logger,
	})
}

func callerCertificates(s config.Server, certificates *access.Certificates) *access.CallerCertificates {
	out := &access.CallerCertificates{Certificates: certificates, Alone: s.TokenFile == "" && s.TokenReview == nil}
	for _, name := range slices.Sorted(maps.Keys(s.TLS.Clients)) {
		cl := s.TLS.Clients[name]
		out.Clients = append(out.Clients, access.CertificateClient{
			Name: name, CommonNames: cl.CommonNames, DNSNames: cl.DNSNames, URIs: cl.URIs, Emails: cl.Emails,
			Grants: grants(cl.Grants), Senders: cl.Senders,
		})
	}
	return out
}

func openPeers(clients map[string]config.SocketClient) (*access.Peers, error) {
	var out []access.PeerClient
	for _, name := range slices.Sorted(maps.Keys(clients)) {
		cl := clients[name]
		out = append(out, access.PeerClient{Name: name, Users: cl.Users, Groups: cl.Groups, Grants: grants(cl.Grants), Senders: cl.Senders})
	}
	return access.NewPeers(out)
}

func openReview(r *config.TokenReview, o Options) (*access.Review, error) {
	cluster, err := kube.Open(kube.Options{Kubeconfig: r.Kubeconfig, Context: r.Context, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	ro := access.ReviewOptions{Transport: cluster, BaseURL: cluster.BaseURL(), Audiences: r.Audiences, CacheFor: r.Cache, Timeout: r.Timeout}
	for _, name := range slices.Sorted(maps.Keys(r.Clients)) {
		cl := r.Clients[name]
		ro.Clients = append(ro.Clients, access.ReviewClient{Name: name, Users: cl.Users, Groups: cl.Groups, Grants: grants(cl.Grants), Senders: cl.Senders})
	}
	return access.NewReview(ro), nil
}

func grants(list []config.Grant) []access.Grant {
	var out []access.Grant
	for _, g := range list {
		out = append(out, access.Grant{Scope: access.Scope(g.Scope), Sinks: g.Sinks, Prefix: g.Prefix})
	}
	return out
}

// keepCertificates begins to look after the API's certificates, until stop; nil:
// there are none.
func (d *daemon) keepCertificates(ctx context.Context, c *access.Certificates, registry *prometheus.Registry) {
	if c == nil {
		return
	}
	registry.MustRegister(metrics.NewCertificateCollector(c.Status))
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	others := d.unwatch
	d.unwatch = func() { cancel(); others() }
	d.keeper.loops.Go(func() { c.Run(ctx, d.options.LookEvery) })
}

// warnOfTokensInTheClear says so where tokens travel for everybody on the way to read.
func warnOfTokensInTheClear(c config.Server, o Options, address string) {
	if c.TLS.CertFile == "" && (c.TokenFile != "" || c.TokenReview != nil) && !isLoopback(address) {
		o.Logger.Warn("the API has no TLS and is reached from other machines: tokens can be read on the way; set server.tls, or see to it that a proxy in front has it", "address", address)
	}
}
