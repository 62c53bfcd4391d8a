package config

import (
	"strings"
	"testing"
)

func TestWhoMayCallIsSaidWithoutAGap(t *testing.T) {
	const (
		sinks  = "sinks: {web: {plugin: http}}\n"
		tls    = "cert_file: c, key_file: k, client_ca_file: a"
		admin  = "grants: [{scope: admin}]"
		nobody = "nothing says who it is"
	)
	for name, c := range map[string]struct{ server, want string }{
		"certificates":                      {`{tls: {` + tls + `, clients: {ci: {common_names: [ci], grants: [{scope: write, sinks: [web], prefix: users/}, {scope: read}], senders: [edge-1]}}}}`, ""},
		"a socket":                          {`{socket: /s, socket_clients: {ops: {groups: [ops], users: ["1000"], ` + admin + `}}}`, ""},
		"a cluster":                         {`{listen: ":1", token_review: {audiences: [pawl], clients: {ci: {users: ["system:serviceaccount:ci:runner"], ` + admin + `}}}}`, ""},
		"optional certificates with tokens": {`{listen: ":1", token_file: t, tls: {` + tls + `, client_auth: optional}}`, ""},

		"nobody by certificate": {`{tls: {` + tls + `, clients: {ci: {` + admin + `}}}}`, "server.tls.clients.ci: " + nobody + "; set common_names, dns_names, emails, uris or several of them"},
		"nobody at the socket":  {`{socket: /s, socket_clients: {ci: {users: [], ` + admin + `}}}`, "server.socket_clients.ci: " + nobody},
		"nobody of a cluster":   {`{token_review: {clients: {ci: {` + admin + `}}}}`, "server.token_review.clients.ci: " + nobody},
		"an empty name":         {`{tls: {` + tls + `, clients: {ci: {common_names: [""], ` + admin + `}}}}`, "server.tls.clients.ci.common_names: item 1 is empty"},
		"nothing granted":       {`{socket: /s, socket_clients: {ci: {users: [a]}}}`, "server.socket_clients.ci.grants: is missing"},
		"no grant":              {`{socket: /s, socket_clients: {ci: {users: [a], grants: []}}}`, "server.socket_clients.ci.grants: has 0 grants"},
		"an unknown scope":      {`{socket: /s, socket_clients: {ci: {users: [a], grants: [{scope: root}]}}}`, `unknown value "root"`},
		"no such sink":          {`{socket: /s, socket_clients: {ci: {users: [a], grants: [{scope: read, sinks: [wbe]}]}}}`, `server.socket_clients.ci.grants.1.sinks[0]: there is no sink "wbe"; did you mean web?`},
		"no socket":             {`{socket_clients: {ci: {users: [a], ` + admin + `}}}`, "there is no socket that they could use; set server.socket"},
		"no authority":          {`{tls: {cert_file: c, key_file: k, clients: {ci: {common_names: [ci], ` + admin + `}}}}`, "server.tls.clients: no client certificates are asked for"},
		"optional for nothing":  {`{tls: {` + tls + `, client_auth: optional}}`, "there are no tokens that callers without a certificate could show"},
		"no clients":            {`{token_review: {audiences: [pawl]}}`, "server.token_review.clients: is missing"},
		"no kubeconfig":         {`{token_review: {context: a, clients: {ci: {users: [a], ` + admin + `}}}}`, "is a context of no kubeconfig"},

		"an admin address":              {`{admin_address: "127.0.0.1:7296"}`, ""},
		"a remote one that is allowed":  {`{admin_address: ":7296", admin_remote: true}`, ""},
		"a remote one":                  {`{admin_address: ":7296"}`, "server.admin_address: :7296 can be reached from other machines, and nobody is asked there who they are"},
		"one that is the API's":         {`{admin_address: "127.0.0.1:7295"}`, "is the API's address too"},
		"one without a port":            {`{admin_address: localhost}`, `"localhost" is no address with a port`},
		"remote, but there is none":     {`{admin_remote: true}`, "there is no admin_address"},
		"others reach it, nobody asked": {`{listen: ":1", tls: {cert_file: c, key_file: k}}`, "nothing says who may call"},
	} {
		_, err := Load(Options{File: write(t, sinks+"server: "+c.server+"\n")})
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestTheExampleOfAccessIsRight(t *testing.T) {
	c := mustLoad(t, Options{File: "../examples/access/pawl.yaml"})
	if g := c.Server.TLS.Clients["deploys"].Grants; len(g) != 1 || g[0].Scope != "write" || g[0].Prefix != "shop/" {
		t.Errorf("grants of deploys: %+v", g)
	}
}
