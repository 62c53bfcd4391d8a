package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/test/e2e/proxy"
	"github.com/pawlsync/pawl/test/ops/kit"
)

// hurried is a sink whose calls end soon, so that what was unanswered is settled soon.
var hurried = engine.SinkOptions{Timeout: 2 * time.Second}

// behind is a rig whose way to SpiceDB leads through a proxy.
func (s *spice) behind(t *testing.T, config string, o engine.SinkOptions) (*rig, *proxy.Proxy) {
	t.Helper()
	p, err := proxy.New(s.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	p.Delay = 30 * time.Millisecond
	return start(t, connect(t, s.plugin, p.Address, s.Key, config), o), p
}

// faults are a network that breaks, and heals.
func (s *spice) faults(t *testing.T) {
	r, p := s.behind(t, `{}`, hurried)
	for name, mode := range map[string]proxy.Mode{"refuse": proxy.Refuse, "reset": proxy.Reset, "answer dropped": proxy.DropAnswer} {
		t.Run(name, func(t *testing.T) {
			id := "fault-" + strings.ReplaceAll(name, " ", "-")
			p.Set(mode)
			g := r.put(t, id, fmt.Sprintf(`{"touch":["document:%s#viewer@user:anne","document:%s#editor@user:bob"]}`, id, id))
			eventually(t, "it is told", func() bool {
				st := r.status(t, id)
				return st.Phase == record.Pending && st.Reason == record.ReasonUnreachable && st.Attempts == 0
			})
			p.Set(proxy.Pass)
			if res := r.settle(t, id, g); !res.Done {
				t.Fatalf("%+v", res)
			}
			s.expect(t, "document:"+id, "document:"+id+"#viewer@user:anne", "document:"+id+"#editor@user:bob")
		})
	}
	p.Set(proxy.Delay)
	r.acked(t, "delayed", `{"relationships":["document:delayed#viewer@user:anne"]}`)
	s.expect(t, "document:delayed", "document:delayed#viewer@user:anne")
}

// unanswered are writes of which nobody learnt that they arrived, and whose content
// is not desired any more when the network is back.
func (s *spice) unanswered(t *testing.T) {
	r, p := s.behind(t, `{}`, hurried)
	for _, form := range []string{`{"touch":[%s]}`, `{"relationships":[%s]}`} {
		for _, how := range []string{"replaced", "deleted"} {
			t.Run(how+" "+form, func(t *testing.T) {
				const anne, bob = "document:unanswered#viewer@user:anne", "document:unanswered#editor@user:bob"
				p.Set(proxy.Pass)
				name := how + form[2:7]
				// A look comes before the write where relationships are pruned, and must be answered.
				if strings.Contains(form, "touch") {
					p.Set(proxy.DropAnswer)
				}
				r.put(t, name, fmt.Sprintf(form, `"`+anne+`","`+bob+`"`))
				s.becomes(t, "document:unanswered", anne, bob)
				if how == "deleted" {
					if _, err := r.Delete(t.Context(), engine.Delete{Key: zedKey(name)}); err != nil {
						t.Fatal(err)
					}
					p.Set(proxy.Pass)
					s.becomes(t, "document:unanswered")
					eventually(t, "the record is gone", func() bool { _, err := r.Get(t.Context(), zedKey(name)); return err != nil })
					return
				}
				g := r.put(t, name, fmt.Sprintf(form, `"`+anne+`"`))
				p.Set(proxy.Pass)
				if res := r.settle(t, name, g); !res.Done {
					t.Fatalf("%+v", res)
				}
				s.expect(t, "document:unanswered", anne)
				r.deleted(t, name, "")
				s.expect(t, "document:unanswered")
			})
		}
	}
}

// program goes the way of an operator: a configuration file, the daemon, the CLI.
func (s *spice) program(t *testing.T) {
	dir := t.TempDir()
	pawl := kit.Pawl(t)
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("key", s.Key)
	socket := filepath.Join(dir, "pawl.sock")
	config := write("pawl.yaml", fmt.Sprintf(`
store: {path: %q, reserve_bytes: 64MiB}
server: {listen: "127.0.0.1:0", socket: %q}
wasm: {cache_dir: %q}
upstreams:
  spicedb:
    base_url: http://%s
    protocol: h2c
    credentials: {bearer: {file: %q}}
sinks:
  permissions: {plugin: spicedb, upstreams: [spicedb]}
`, filepath.Join(dir, "store"), socket, filepath.Join(dir, "wasm"), s.Address, filepath.Join(dir, "key")))
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	daemon := exec.Command(pawl, "run", "--config", config)
	daemon.Stdout, daemon.Stderr = log, log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = daemon.Process.Signal(os.Interrupt)
		if err := daemon.Wait(); err != nil {
			t.Errorf("the daemon ended with %v", err)
		}
		if t.Failed() {
			out, _ := os.ReadFile(log.Name())
			t.Logf("%s", out)
		}
	}()
	cli := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), pawl, args...)
		cmd.Env = append(os.Environ(), "PAWL_ADDRESS=unix://"+socket)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	readme := write("readme.yaml", `
sink: permissions
key: program
payload:
  relationships: ["document:program#viewer@user:anne"]
`)
	eventually(t, "the daemon listens", func() bool { _, err := os.Stat(socket); return err == nil })
	if out, err := cli("apply", "-f", readme, "--wait"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.expect(t, "document:program", "document:program#viewer@user:anne")
	if out, err := cli("delete", "permissions/program", "--wait"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.expect(t, "document:program")
}
