package config

import (
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
)

// checkAccess looks at who may call besides the holders of Pawl's own tokens.
func (l *loader) checkAccess(c *Config) {
	s := c.Server
	l.checkAdmin(s)
	if len(s.SocketClients) > 0 && s.Socket == "" {
		l.wrong("server.socket_clients", "there is no socket that they could use", "set server.socket")
	}
	if s.TLS.ClientCAFile == "" {
		for key, set := range map[string]bool{"clients": len(s.TLS.Clients) > 0, "client_auth": s.TLS.ClientAuth == "optional"} {
			if set {
				l.wrong("server.tls."+key, "no client certificates are asked for", "set server.tls.client_ca_file")
			}
		}
	}
	if s.TLS.ClientAuth == "optional" && s.TLS.ClientCAFile != "" && s.TokenFile == "" && s.TokenReview == nil {
		l.wrong("server.tls.client_auth", "there are no tokens that callers without a certificate could show", "set server.token_file, or remove the key")
	}
	for name, client := range s.SocketClients {
		l.checkClient(c, "server.socket_clients."+name, client.Permissions, map[string][]string{"users": client.Users, "groups": client.Groups})
	}
	for name, client := range s.TLS.Clients {
		l.checkClient(c, "server.tls.clients."+name, client.Permissions, map[string][]string{
			"common_names": client.CommonNames, "dns_names": client.DNSNames, "uris": client.URIs, "emails": client.Emails,
		})
	}
	if r := s.TokenReview; r != nil {
		l.checkReview(c, r)
	}
}

func (l *loader) checkReview(c *Config, r *TokenReview) {
	const path = "server.token_review"
	if r.Context != "" && r.Kubeconfig == "" {
		l.wrong(path+".context", "is a context of no kubeconfig", "set kubeconfig too")
	}
	for name, client := range r.Clients {
		l.checkClient(c, path+".clients."+name, client.Permissions, map[string][]string{"users": client.Users, "groups": client.Groups})
	}
}

// checkClient wants something that tells the client from others, and sinks that exist.
func (l *loader) checkClient(c *Config, path string, p Permissions, names map[string][]string) {
	some := false
	for key, list := range names {
		some = some || len(list) > 0 || l.badKeys[path+"."+key]
	}
	if !some {
		keys := slices.Sorted(maps.Keys(names))
		l.wrong(path, "nothing says who it is", "set "+strings.Join(keys, ", ")+" or several of them")
	}
	for i, g := range p.Grants {
		at := path + ".grants." + strconv.Itoa(i+1)
		for j, sink := range g.Sinks {
			if _, ok := c.Sinks[sink]; !ok && !l.badKeys["sinks."+sink] {
				l.wrongItem(at+".sinks", j, "there is no sink "+shown(sink), didYouMean(sink, slices.Sorted(maps.Keys(c.Sinks))))
			}
		}
	}
}

// checkAdmin wants an address that only this machine reaches, unless told otherwise.
func (l *loader) checkAdmin(s Server) {
	if s.AdminAddress == "" {
		if s.AdminRemote {
			l.wrong("server.admin_remote", "there is no admin_address", "set server.admin_address, or remove the key")
		}
		return
	}
	host, port, err := net.SplitHostPort(s.AdminAddress)
	_, portErr := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil || portErr != nil:
		l.wrong("server.admin_address", shown(s.AdminAddress)+" is no address with a port", "write host:port, as in 127.0.0.1:7296")
	case !isLoopback(host) && !s.AdminRemote:
		l.wrong("server.admin_address", s.AdminAddress+" can be reached from other machines, and nobody is asked there who they are",
			"write 127.0.0.1, or set server.admin_remote where something else keeps others off")
	case s.AdminAddress == s.Listen && port != "0":
		l.wrong("server.admin_address", "is the API's address too", "choose another port")
	}
}
