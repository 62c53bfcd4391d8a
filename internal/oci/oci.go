// Package oci carries plugins to and from OCI registries, as artifacts of the
// layout that the WebAssembly tools share: a config of the type ConfigType and
// one layer of the type LayerType, which is the plugin's file as it is. So the
// layer's digest is the file's SHA-256, and a reference that is pinned by the
// manifest's digest pins the file.
//
// The same file makes the same artifact, to the byte, whoever pushes it and when.
package oci

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/retry"
)

// The media types of a plugin in a registry, as
// https://tag-runtime.cncf.io/wgs/wasm/deliverables/wasm-oci-artifact/ has them.
const (
	ConfigType = "application/vnd.wasm.config.v0+json"
	LayerType  = "application/wasm"
)

// MaxBytes bounds a plugin's file, as the plugin host does.
const MaxBytes = 64 << 20

// Options say how a registry is reached. The zero value asks without
// credentials, over https.
type Options struct {
	// Scheme is "https", "http", or "": https, but http where the registry's
	// host is this machine's loopback.
	Scheme string
	// CredentialsFile is a config.json of Docker's: what `docker login` wrote, or
	// the helpers that it names. It need not exist. Defaults to none.
	CredentialsFile string
	// TLS is whom to trust over https. Defaults to the system's authorities.
	TLS *tls.Config
	// UserAgent is what the registry's log shows. Defaults to "pawl".
	UserAgent string
}

// DockerConfig returns where `docker login` keeps credentials, by the environment
// that lookup knows; "" where it does not say.
func DockerConfig(lookup func(string) (string, bool)) string {
	if dir, _ := lookup("DOCKER_CONFIG"); dir != "" {
		return filepath.Join(dir, "config.json")
	}
	if home, _ := lookup("HOME"); home != "" {
		return filepath.Join(home, ".docker", "config.json")
	}
	return ""
}

// Artifact is a plugin in a registry.
type Artifact struct {
	Ref    string // HOST/REPOSITORY@sha256:…, which names these bytes for ever
	SHA256 string // of the module, in hex; the same as of its file
	Module []byte
}

// parse splits a reference, which must name a tag or a digest.
func parse(ref string) (registry.Reference, error) {
	if strings.Contains(ref, "://") {
		return registry.Reference{}, fmt.Errorf("%w: it starts with a scheme", ErrReference)
	}
	r, err := registry.ParseReference(ref)
	switch {
	case err != nil:
		return r, fmt.Errorf("%w: %w", ErrReference, err)
	case r.Reference == "":
		return r, fmt.Errorf("%w: it has neither a tag nor a digest", ErrReference)
	}
	if d, err := r.Digest(); err == nil && d.Algorithm() != digest.SHA256 {
		return r, fmt.Errorf("%w: its digest is no SHA-256", ErrReference)
	}
	return r, nil
}

// open returns the repository of ref.
func open(ref registry.Reference, o Options) (*remote.Repository, error) {
	repo := &remote.Repository{Reference: ref}
	switch o.Scheme {
	case "":
		repo.PlainHTTP = loopback(ref.Host())
	case "http", "https":
		repo.PlainHTTP = o.Scheme == "http"
	default:
		return nil, fmt.Errorf("there is no scheme %q", o.Scheme)
	}
	client := &auth.Client{
		Client: &http.Client{Transport: retry.NewTransport(transport(o.TLS)), CheckRedirect: checkRedirect},
		Cache:  auth.NewCache(),
	}
	agent := o.UserAgent
	if agent == "" {
		agent = "pawl"
	}
	client.SetUserAgent(agent)
	if o.CredentialsFile != "" {
		store, err := credentials.NewStore(o.CredentialsFile, credentials.StoreOptions{})
		if err != nil {
			return nil, fmt.Errorf("%w: the credentials file %s can't be read: %w", ErrUnauthorized, o.CredentialsFile, err)
		}
		client.Credential = credentialsOf(store, o.CredentialsFile)
	}
	repo.Client = client
	return repo, nil
}

// credentialsOf looks up a host in store, which was read from file.
func credentialsOf(store credentials.Store, file string) auth.CredentialFunc {
	get := credentials.Credential(store)
	return func(ctx context.Context, host string) (auth.Credential, error) {
		c, err := get(ctx, host)
		switch {
		case err == nil:
			return c, nil
		case strings.Contains(err.Error(), "auth field"): // the cause would quote it
			err = errors.New("its auth is no base64 of USER:PASSWORD")
		}
		return c, fmt.Errorf("%w: the credentials for %s in %s can't be used: %w", ErrUnauthorized, host, file, err)
	}
}

func transport(config *tls.Config) *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		TLSClientConfig:       config,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: time.Minute,
		ForceAttemptHTTP2:     true,
	}
}

// checkRedirect follows a registry to where it keeps its blobs, but never from
// https to http.
func checkRedirect(req *http.Request, via []*http.Request) error {
	switch {
	case len(via) >= 10:
		return fmt.Errorf("stopped after %d redirects", len(via))
	case req.URL.Scheme != "https" && via[len(via)-1].URL.Scheme == "https":
		return fmt.Errorf("it redirects from https to %s", req.URL.Scheme)
	}
	return nil
}

// loopback reports whether host, maybe with a port, is this machine's by name.
func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.IsLoopback()
}
