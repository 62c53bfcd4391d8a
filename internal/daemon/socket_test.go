package daemon

import (
	"encoding/json"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
)

// socketDir is a folder whose name is short enough for sockets.
func socketDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "pawl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestTheSocketAnswersItsOwnerAsTheAddressDoes(t *testing.T) {
	needPlugins(t)
	target, url := newObjects(t)
	path := filepath.Join(socketDir(t), "pawl.sock")
	d := begin(t, load(t, write(t, t.TempDir(), url, ""), "PAWL_SERVER_SOCKET="+path), options())
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("the socket has the mode %v, want a socket's 0600", info.Mode())
	}
	c, err := client.New(client.Options{Address: "unix://" + path})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	key := record.Key{Sink: "web", Name: "a"}
	put, err := c.Put(t.Context(), key, api.PutRequest{Payload: json.RawMessage(`1`)})
	if err != nil {
		t.Fatal(err)
	}
	if w, err := d.Wait(t.Context(), key, put.Generation); err != nil || !w.Done || target.get("/o/a") != "1" {
		t.Errorf("what the socket took did not arrive: %+v, %v", w, err)
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket outlives the daemon")
	}
}

func TestASocketIsTakenOnlyFromTheDead(t *testing.T) {
	dir := socketDir(t)
	stale, live, file := filepath.Join(dir, "stale"), filepath.Join(dir, "live"), filepath.Join(dir, "file")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	other, err := net.Listen("unix", live)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{stale: "", live: "in use", file: "is no socket", filepath.Join(dir, "none", "x"): "server.socket"} {
		l, err := listenSocket(t.Context(), path, 0o600)
		switch {
		case err == nil && want != "":
			t.Errorf("%s was taken", path)
		case err != nil && (want == "" || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", path, err, want)
		}
		if err == nil {
			l.Close()
		}
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "precious" {
		t.Errorf("the file that was there: %q, %v", content, err)
	}
}
