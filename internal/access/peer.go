package access

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/user"
	"slices"
	"strconv"
)

// Peer is the process at the other end of a unix socket, as the system says: as
// whom it ran when it connected.
type Peer struct {
	UID    uint32
	Groups []uint32 // the main one first
}

// PeerClient names some of the users of this machine and what they may do.
type PeerClient struct {
	Name string
	// Users and Groups are names or numbers; who is or has one of them is meant.
	Users, Groups []string
	Grants        []Grant
	Senders       []string
}

// Peers tells callers at a unix socket apart by what the system says of their
// process. The daemon's own user and root may do everything, as they could anyhow.
type Peers struct {
	clients []peerClient
	own     uint32
}

// peerClient is a PeerClient with the numbers of its users and groups.
type peerClient struct {
	PeerClient
	uids, gids []uint32
}

// NewPeers returns a Peers of those clients.
//
// # Errors
//
// Users and groups that this machine does not have.
func NewPeers(clients []PeerClient) (*Peers, error) {
	p := &Peers{own: uint32(os.Geteuid())}
	for _, c := range clients {
		pc := peerClient{PeerClient: c}
		for _, name := range c.Users {
			uid, err := numberOf(name, uidOf)
			if err != nil {
				return nil, fmt.Errorf("%s: there is no user %q on this machine", c.Name, name)
			}
			pc.uids = append(pc.uids, uid)
		}
		for _, name := range c.Groups {
			gid, err := numberOf(name, gidOf)
			if err != nil {
				return nil, fmt.Errorf("%s: there is no group %q on this machine", c.Name, name)
			}
			pc.gids = append(pc.gids, gid)
		}
		p.clients = append(p.clients, pc)
	}
	return p, nil
}

// numberOf is the number that name is, or that the system has for it.
func numberOf(name string, lookup func(string) (string, error)) (uint32, error) {
	n, err := strconv.ParseUint(name, 10, 32)
	if err == nil {
		return uint32(n), nil
	}
	text, err := lookup(name)
	if err != nil {
		return 0, err
	}
	n, err = strconv.ParseUint(text, 10, 32)
	return uint32(n), err
}

func uidOf(name string) (string, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return "", err
	}
	return u.Uid, nil
}

func gidOf(name string) (string, error) {
	g, err := user.LookupGroup(name)
	if err != nil {
		return "", err
	}
	return g.Gid, nil
}

// errNoPeers: the system does not say who is at the other end of a socket.
var errNoPeers = errors.New("this system does not say who is at the other end of a socket")

type peerKey struct{}

// atSocket is what WithPeer keeps.
type atSocket struct {
	peer Peer
	err  error
}

// WithPeer is an http.Server's ConnContext: it asks the system who is at the other
// end of a unix socket.
func WithPeer(ctx context.Context, conn net.Conn) context.Context {
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return ctx
	}
	raw, err := unix.SyscallConn()
	if err != nil {
		return context.WithValue(ctx, peerKey{}, atSocket{err: err})
	}
	var s atSocket
	if err := raw.Control(func(fd uintptr) { s.peer, s.err = peerOf(int(fd)) }); err != nil {
		s.err = err
	}
	return context.WithValue(ctx, peerKey{}, s)
}

// Authenticate implements Authenticator: for requests that came by a unix socket.
func (p *Peers) Authenticate(r *http.Request) (*Identity, error) {
	s, ok := r.Context().Value(peerKey{}).(atSocket)
	switch {
	case !ok:
		return nil, nil
	case errors.Is(s.err, errNoPeers) && len(p.clients) == 0:
		return Unrestricted("socket", KindPeer), nil // the mode of the socket's file lets nobody else in
	case s.err != nil:
		return nil, s.err
	case s.peer.UID == p.own || s.peer.UID == 0:
		return Unrestricted(userName(s.peer.UID), KindPeer), nil
	}
	for i := range p.clients {
		c := &p.clients[i]
		if slices.Contains(c.uids, s.peer.UID) || slices.ContainsFunc(s.peer.Groups, func(g uint32) bool { return slices.Contains(c.gids, g) }) {
			return &Identity{Name: c.Name, Kind: KindPeer, Grants: c.Grants, Senders: c.Senders}, nil
		}
	}
	return nil, &Refusal{
		Detail: fmt.Sprintf("the user %s may not use this daemon's socket", userName(s.peer.UID)),
		Hint:   fmt.Sprintf("add a client with users: [%q] below server.socket_clients of the daemon's configuration, or become the daemon's own user", userName(s.peer.UID)),
	}
}

// KindPeer is the kind of callers at a unix socket.
const KindPeer = "peer"

// userName is a user's name, or its number where the system has none.
func userName(uid uint32) string {
	text := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(text); err == nil {
		return u.Username
	}
	return text
}
