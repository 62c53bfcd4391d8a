package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/test/ops/kit"
)

// page is what a page's commands take for granted.
type page struct {
	files    map[string]string // in the folder
	checkout bool              // the folder is a fresh checkout of the repository
	stage    string            // commands before the first block
	before   map[string]string // commands before the block that has such a part
	replace  map[string]string // of paths and numbers in blocks: what this machine has in their place
	skip     map[string]string // blocks that have such a part and can't be run here, with the reason
	apart    bool              // each block begins in the page's folder
}

// config is the configuration of pages that speak of a sink web and its neighbours.
const config = `store: {path: store, reserve_bytes: 64MiB}
upstreams:
  target: {base_url: "http://127.0.0.1:7399"}
sinks:
  web: &web
    plugin: http
    upstreams: [target]
    config: {path: "/objects/{key}"}
  things:
    plugin: http
    upstreams: [target]
    config: {path: "/objects/things/{key}"}
sources:
  manifests: {dir: {path: manifests}}
  files: {dir: {path: files}}
  users: {dir: {path: users}}
sagas:
  create-namespace:
    mode: optimistic
    params:
      user: {pattern: "[a-z0-9]{1,40}"}
      namespace: {pattern: "[a-z0-9]{1,40}"}
    steps:
      - {sink: web, key: "namespaces/{{.namespace}}", verb: upsert, payload: {owner: "{{.user}}"}}
`

// saga is the saga.yaml of these pages.
const saga = `id: create-web
mode: optimistic
steps:
  - {sink: web, key: namespaces/web, verb: upsert, payload: {owner: anne}}
`

// people are documents of a sink.
const people = `{sink: web, key: users/alice, payload: {name: Alice}}
---
{sink: web, key: users/bob, payload: {name: Bob}}
`

// site starts the target and the daemon of config.
const site = "mkdir -p manifests files users\ntarget -dir objects >target.log &\ndaemon\n"

// pages are those whose blocks are run here.
var pages = map[string]page{
	"README.md": {checkout: true},
	"docs/access.md": {
		files: map[string]string{"pawl.yaml": "server: {token_file: tokens}\n" + config, "plain": "0123456789abcdef0123456789abcdef\n"},
		stage: "mkdir -p manifests files users\npawl token new --name ops --scope admin", // the last one is never revoked
		before: map[string]string{
			"pawl token convert": "mv plain tokens",
		},
		skip: map[string]string{"https://pawl.example.com": "needs that host's certificates; internal/daemon has them made"},
	},
	"docs/api.md": {
		files:   map[string]string{"pawl.yaml": config},
		stage:   site,
		replace: map[string]string{"generation=42": "generation=1"}, // the first of a new store
	},
	"docs/cli.md": commands,
	"docs/directions.md": {
		files: map[string]string{"pawl.yaml": config, "lamp.yaml": "{sink: things, key: lamp, direction: inbound}\n"},
		stage: site + "curl -sf -X PUT -d '{\"on\":true}' http://127.0.0.1:7399/objects/things/lamp",
	},
	"docs/operating.md": {
		files: map[string]string{"pawl.yaml": config, "resources/people.yaml": people},
		stage: site + "pawl apply -f resources/ --wait",
	},
	"docs/sagas.md": {
		files: map[string]string{"pawl.yaml": config, "saga.yaml": saga},
		stage: site,
	},
	"docs/sources.md": {
		files: map[string]string{"pawl.yaml": config, "resources/people.yaml": people},
		stage: site,
	},
	"docs/store.md": {
		files: map[string]string{"pawl.yaml": config, "resources/people.yaml": people},
		stage: site + "pawl apply -f resources/ --wait",
		before: map[string]string{
			"restore monday": "stop; mv store old",
			"--salvage":      "rm -r store; mv old lib",
			"store.key":      "mkdir etc",
		},
		replace: map[string]string{"/var/lib/pawl": "lib", "/etc/pawl": "etc"},
	},
}

// elsewhere are the pages whose blocks need what is no machine's own (a registry, a cluster,
// etcd, systemd), each with the test that does what they say against the real thing.
var elsewhere = map[string]string{
	"docs/install.md":          "test/deploy TestEveryBlockOfCommandsIsRun",
	"docs/monitoring.md":       "test/deploy TestEveryBlockOfCommandsIsRun",
	"docs/plugins/tutorial.md": "test/tutorial TestTutorialWordForWord",
	"docs/plugins/publish.md":  "internal/cli TestPluginTravelsThroughARegistry",
	"docs/plugins/testing.md":  "test/tutorial TestTutorialWordForWord",
}

// TestNoPageWithCommandsIsLeftOut finds pages that nothing runs, and tests that are gone.
func TestNoPageWithCommandsIsLeftOut(t *testing.T) {
	root := kit.Root(t)
	all, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	kit.Must(t, err)
	more, err := filepath.Glob(filepath.Join(root, "docs", "plugins", "*.md"))
	kit.Must(t, err)
	for _, path := range append(append(all, more...), filepath.Join(root, "README.md")) {
		name, err := filepath.Rel(root, path)
		kit.Must(t, err)
		_, here := pages[name]
		if _, there := elsewhere[name]; len(blocks(t, name)) > 0 && !here && !there {
			t.Errorf("nothing runs the commands of %s", name)
		}
	}
	for name, test := range elsewhere {
		pkg, function, _ := strings.Cut(test, " ")
		out, err := exec.Command("grep", "-rlw", "--include=*_test.go", "func "+function, filepath.Join(root, pkg)).Output()
		if err != nil || len(out) == 0 {
			t.Errorf("%s is said to be run by %s, which is not there", name, test)
		}
	}
}

// checkout makes dir a fresh checkout of what the repository has, as it is now.
func checkout(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.Command("bash", "-c", fmt.Sprintf("set -o pipefail; git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -T - -c | tar -x -C %q", dir))
	cmd.Dir = kit.Root(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "Makefile")); err != nil {
		t.Fatal("the checkout is empty: ", err)
	}
}
