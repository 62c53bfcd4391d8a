package kit

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/pawlsync/pawl/internal/client"
)

// Caller is how somebody reaches a daemon, and what they show there. The zero value
// shows nothing, and comes without TLS.
type Caller struct {
	Socket    string // file of the unix socket; "": they come over TCP
	Token     string
	CA        string // file; "": they come without TLS
	Cert, Key string // files
}

// Become makes d's commands, its Client and the metrics that it reads those of a caller.
func (d *Daemon) Become(c Caller) {
	d.t.Helper()
	var err error
	d.caller = c
	d.Client, err = client.New(client.Options{Address: d.URL(), Token: c.Token, TLS: c.config(d)})
	Must(d.t, err)
	d.t.Cleanup(d.Client.Close)
}

// As returns d as another caller has it. The process that ran then stays d's to end.
func (d *Daemon) As(c Caller) *Daemon {
	d.t.Helper()
	other := *d
	other.Become(c)
	return &other
}

// Caller is who d is had by.
func (d *Daemon) Caller() Caller { return d.caller }

// URL is the API's, as the caller reaches it.
func (d *Daemon) URL() string {
	switch {
	case d.caller.Socket != "":
		return "unix://" + d.caller.Socket
	case d.caller.CA != "":
		return "https://" + d.Address
	}
	return "http://" + d.Address
}

// environment is what the caller's commands go by.
func (d *Daemon) environment() []string {
	c := d.caller
	return append(Environment(), "PAWL_ADDRESS="+d.URL(), "PAWL_CONFIG="+d.File(),
		"PAWL_TOKEN="+c.Token, "PAWL_CA_FILE="+c.CA, "PAWL_CERT_FILE="+c.Cert, "PAWL_KEY_FILE="+c.Key)
}

// config is how the caller does TLS; nil: not at all.
func (c *Caller) config(d *Daemon) *tls.Config {
	d.t.Helper()
	if c.CA == "" {
		return nil
	}
	authorities, err := os.ReadFile(c.CA)
	Must(d.t, err)
	out := &tls.Config{RootCAs: x509.NewCertPool()}
	out.RootCAs.AppendCertsFromPEM(authorities)
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		Must(d.t, err)
		out.Certificates = []tls.Certificate{pair}
	}
	return out
}

// scrape reads /metrics over a connection of its own.
func (d *Daemon) scrape() (string, error) {
	d.t.Helper()
	transport := &http.Transport{TLSClientConfig: d.caller.config(d), DisableKeepAlives: true}
	url := d.URL()
	if path, ok := strings.CutPrefix(url, "unix://"); ok {
		url = "http://localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
	}
	request, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, url+"/metrics", nil)
	Must(d.t, err)
	if d.caller.Token != "" {
		request.Header.Set("Authorization", "Bearer "+d.caller.Token)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		err = errors.Join(err, fmt.Errorf("/metrics answers %s: %s", response.Status, text))
	}
	return string(text), err
}
