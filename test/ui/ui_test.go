package ui

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var screenshots = flag.String("screenshots", "", "folder that gets pictures of the page")

func TestThePageShowsAndOperatesADaemon(t *testing.T) {
	chromium, modules := browser(t)
	p := start(t, false)
	resource := func(sink, key string) string {
		return p.url + "/v1/sinks/" + sink + "/resource?key=" + url.QueryEscape(key)
	}
	for i := range 230 {
		ask(t, "PUT", resource("web", fmt.Sprintf("many/%03d", i)), `{"payload":{"n":1}}`)
	}
	ask(t, "PUT", resource("mirror", "waits"), `{"payload":{"n":1}}`)
	ask(t, "PUT", resource("web", "touched"), `{"payload":{"color":"blue","size":2}}`)
	ask(t, "PUT", resource("web", `<img src=x onerror="document.title='owned'">`), `{"payload":{"n":1}}`)
	drive(t, p, chromium, modules, "page.mjs")
}

func TestThePageAsksForATokenAndSaysWhatItMayNotDo(t *testing.T) {
	chromium, modules := browser(t)
	p := start(t, true)
	drive(t, p, chromium, modules, "token.mjs")
}

// drive runs a script that tells a line of JSON for each claim.
func drive(t *testing.T, p *programs, chromium, modules, script string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", script)
	cmd.Env = append(os.Environ(), "PAWL_URL="+p.url, "TARGET_URL="+p.target, "MANIFESTS="+filepath.Join(p.dir, "manifests"),
		"CHROMIUM="+chromium, "MODULES="+modules, "READER="+p.token, "SCREENSHOTS="+*screenshots)
	var failed strings.Builder
	cmd.Stderr = &failed
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	claims := 0
	for lines := bufio.NewScanner(out); lines.Scan(); claims++ {
		var claim struct{ Name, Error string }
		if err := json.Unmarshal(lines.Bytes(), &claim); err != nil {
			t.Fatalf("%v in %s", err, lines.Text())
		}
		t.Run(claim.Name, func(t *testing.T) {
			if claim.Error != "" {
				t.Error(claim.Error)
			}
		})
	}
	if err := cmd.Wait(); err != nil || claims == 0 {
		t.Errorf("%s told %d claims: %v\n%s", script, claims, err, failed.String())
	}
}
