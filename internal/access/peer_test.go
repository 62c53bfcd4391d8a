package access

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// from is a request of a peer as the system would say it.
func from(p Peer, err error) *http.Request {
	r := httptest.NewRequest("GET", "/v1/sinks", nil)
	return r.WithContext(context.WithValue(r.Context(), peerKey{}, atSocket{p, err}))
}

func TestAUserOfTheSocketIsWhoTheConfigurationSays(t *testing.T) {
	p, err := NewPeers([]PeerClient{
		{Name: "deploy", Users: []string{"4711"}, Grants: []Grant{{Scope: Write}}, Senders: []string{"edge-1"}},
		{Name: "ops", Users: []string{"daemon"}, Groups: []string{"4712"}, Grants: []Grant{{Scope: Read}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.own = 4000
	daemon, err := numberOf("daemon", uidOf)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		peer  Peer
		want  string
		scope Scope // the most that they may do
	}{
		"our own user":      {Peer{UID: 4000}, `peer "4000"`, Admin},
		"root":              {Peer{UID: 0}, `peer "root"`, Admin},
		"by number":         {Peer{UID: 4711}, `peer "deploy"`, Write},
		"by name":           {Peer{UID: daemon}, `peer "ops"`, Read},
		"by main group":     {Peer{UID: 5000, Groups: []uint32{4712}}, `peer "ops"`, Read},
		"by another group":  {Peer{UID: 5000, Groups: []uint32{1, 4712}}, `peer "ops"`, Read},
		"a uid as a group":  {Peer{UID: 4712, Groups: []uint32{4711}}, "", ""},
		"root's group only": {Peer{UID: 5000, Groups: []uint32{0}}, "", ""},
	} {
		id, err := p.Authenticate(from(c.peer, nil))
		if c.want == "" {
			if refusal, ok := errors.AsType[*Refusal](err); !ok || !strings.Contains(refusal.Hint, "server.socket_clients") {
				t.Errorf("%s: %v, %v", name, id, err)
			}
			continue
		}
		if err != nil || id.String() != c.want || !id.AllowsAll(c.scope) || c.scope != Admin && id.AllowsAll(Admin) {
			t.Errorf("%s: %v, %v", name, id, err)
		}
	}
	if id, err := p.Authenticate(httptest.NewRequest("GET", "/", nil)); id != nil || err != nil {
		t.Errorf("a request that came another way: %v, %v", id, err)
	}
	if id, err := p.Authenticate(from(Peer{}, errors.New("EBADF"))); id != nil || err == nil {
		t.Errorf("where the system fails: %v, %v", id, err)
	}
}

func TestWhereTheSystemDoesNotSayTheFilesModeCounts(t *testing.T) {
	none, err := NewPeers(nil)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := none.Authenticate(from(Peer{}, errNoPeers)); err != nil || !id.AllowsAll(Admin) {
		t.Errorf("%v, %v", id, err)
	}
	some, err := NewPeers([]PeerClient{{Name: "all", Users: []string{"0"}}})
	if err != nil {
		t.Fatal(err)
	}
	if id, err := some.Authenticate(from(Peer{}, errNoPeers)); err == nil {
		t.Errorf("the socket is open to all, and %v is let in", id)
	}
}

func TestUsersAndGroupsThatAreNotThereAreNamed(t *testing.T) {
	for want, c := range map[string]PeerClient{
		`ops: there is no user "no-such-user"`:   {Name: "ops", Users: []string{"no-such-user"}},
		`ops: there is no group "no-such-group"`: {Name: "ops", Groups: []string{"no-such-group"}},
		`ops: there is no user "-1"`:             {Name: "ops", Users: []string{"-1"}},
	} {
		if _, err := NewPeers([]PeerClient{c}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// dialled has the system say who calls dial, at a socket of this process.
func dialled(t *testing.T, dial func(path string) (net.Conn, error)) (Peer, error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "pawl")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(path, 0o666)); err != nil {
		t.Fatal(err)
	}
	conn, err := dial(path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	s, ok := WithPeer(t.Context(), accepted).Value(peerKey{}).(atSocket)
	if !ok {
		t.Fatal("nothing is known of the peer")
	}
	return s.peer, s.err
}

func TestTheSystemSaysWhoConnected(t *testing.T) {
	p, err := dialled(t, func(path string) (net.Conn, error) { return net.Dial("unix", path) })
	groups, groupsErr := os.Getgroups()
	if err != nil || groupsErr != nil {
		t.Fatal(err, groupsErr)
	}
	if p.UID != uint32(os.Geteuid()) || p.Groups[0] != uint32(os.Getegid()) {
		t.Errorf("%+v", p)
	}
	for _, g := range groups {
		if !slices.Contains(p.Groups, uint32(g)) {
			t.Errorf("%+v lacks our group %d", p, g)
		}
	}
}
