package servers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Kube is a kube-apiserver with an etcd of its own. There are no controllers:
// namespaces stay Terminating, nothing is garbage-collected.
type Kube struct {
	URL        string // https://127.0.0.1:PORT
	CAFile     string // what signed the server's certificate
	Token      string // of a user in system:masters
	Kubeconfig string // path of a file that holds the three above

	dir       string
	etcdURL   string
	peerURL   string
	port      string
	etcd, api *process
	client    *http.Client
}

// Users are further bearer tokens, each of a user of that name without any
// rights but those that RBAC objects give.
const (
	TokenAdmin   = "admin-token"
	TokenLimited = "limited-token" // the user "limited"
)

// StartKube starts etcd and kube-apiserver with their files in dir and waits
// until they are ready.
func StartKube(ctx context.Context, dir string) (*Kube, error) {
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	k := &Kube{
		dir: dir, Token: TokenAdmin, port: ports[2],
		etcdURL: "http://127.0.0.1:" + ports[0], peerURL: "http://127.0.0.1:" + ports[1],
		URL:        "https://127.0.0.1:" + ports[2],
		CAFile:     filepath.Join(dir, "certs", "apiserver.crt"),
		Kubeconfig: filepath.Join(dir, "kubeconfig"),
	}
	if err := k.writeFiles(); err != nil {
		return nil, err
	}
	if err := k.startEtcd(ctx); err != nil {
		return nil, err
	}
	if err := k.StartAPI(ctx); err != nil {
		k.etcd.kill()
		return nil, err
	}
	return k, nil
}

func (k *Kube) startEtcd(ctx context.Context) error {
	program, err := Build(ctx, "etcd")
	if err != nil {
		return err
	}
	k.etcd, err = start(program, k.dir,
		"--data-dir", "etcd", "--unsafe-no-fsync",
		"--listen-client-urls", k.etcdURL, "--advertise-client-urls", k.etcdURL,
		"--listen-peer-urls", k.peerURL, "--initial-advertise-peer-urls", k.peerURL, "--initial-cluster", "default="+k.peerURL)
	if err != nil {
		return err
	}
	err = k.etcd.ready(ctx, func(ctx context.Context) error { return get(ctx, http.DefaultClient, k.etcdURL+"/health", "") })
	if err != nil {
		k.etcd.kill()
	}
	return err
}

// StartAPI starts the apiserver again after KillAPI, on the same address.
func (k *Kube) StartAPI(ctx context.Context) error {
	program, err := Build(ctx, "kube-apiserver")
	if err != nil {
		return err
	}
	k.api, err = start(program, k.dir,
		"--etcd-servers", k.etcdURL, "--cert-dir", "certs", "--secure-port", k.port, "--bind-address", "127.0.0.1",
		"--service-account-key-file", keyFile, "--service-account-signing-key-file", keyFile,
		"--service-account-issuer", issuer, "--service-cluster-ip-range", "10.0.0.0/24",
		"--token-auth-file", "tokens.csv", "--client-ca-file", clientCAsFile, "--authorization-mode", "RBAC")
	if err != nil {
		return err
	}
	err = k.api.ready(ctx, func(ctx context.Context) error {
		if err := k.trust(); err != nil {
			return err
		}
		return get(ctx, k.client, k.URL+"/readyz", k.Token)
	})
	if err != nil {
		k.api.kill()
		return err
	}
	return k.writeKubeconfig()
}

// KillAPI ends the apiserver as a crash does; what it stored stays.
func (k *Kube) KillAPI() { k.api.kill() }

// Compact makes etcd forget all states but the newest, so that nobody can go on to
// watch from an older one.
func (k *Kube) Compact(ctx context.Context) error {
	var status struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	}
	if err := post(ctx, k.etcdURL+"/v3/maintenance/status", `{}`, &status); err != nil {
		return err
	}
	return post(ctx, k.etcdURL+"/v3/kv/compaction", fmt.Sprintf(`{"revision":%q,"physical":true}`, status.Header.Revision), nil)
}

// post sends JSON and decodes the answer into out, unless that is nil.
func post(ctx context.Context, url, body string, out any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("POST %s: %s: %s", url, res.Status, answer)
	}
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(answer, out)
}

// Stop ends both servers.
func (k *Kube) Stop() {
	k.api.stop()
	k.etcd.stop()
}

// Client returns a client that trusts the server.
func (k *Kube) Client() *http.Client { return k.client }

func (k *Kube) writeFiles() error {
	if err := os.MkdirAll(filepath.Join(k.dir, "certs"), 0o700); err != nil {
		return err
	}
	if err := k.writeKeys(); err != nil {
		return err
	}
	tokens := TokenAdmin + ",admin,admin,system:masters\n" + TokenLimited + ",limited,limited\n"
	return os.WriteFile(filepath.Join(k.dir, "tokens.csv"), []byte(tokens), 0o600)
}

// trust reads the certificate that the server made for itself at its first start.
func (k *Kube) trust() error {
	pemBytes, err := os.ReadFile(k.CAFile)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pemBytes) {
		return fmt.Errorf("%s holds no certificate", k.CAFile)
	}
	k.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}
	return nil
}

func (k *Kube) writeKubeconfig() error {
	ca, err := os.ReadFile(k.CAFile)
	if err != nil {
		return err
	}
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: admin}}, {name: limited, context: {cluster: test, user: limited}}]
clusters: [{name: test, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: admin, user: {token: %s}}, {name: limited, user: {token: %s}}]
`, k.URL, base64.StdEncoding.EncodeToString(ca), TokenAdmin, TokenLimited)
	return os.WriteFile(k.Kubeconfig, []byte(text), 0o600)
}

func get(ctx context.Context, c *http.Client, url, token string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := c.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, 1024))
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %s", url, res.Status, body)
	}
	return nil
}
