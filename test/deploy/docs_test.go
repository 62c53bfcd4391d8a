package deploy

import (
	"flag"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "make generated files anew")

// blocks are the fenced blocks of a page whose first line is as given, without the
// fence: "sh systemd", say.
func blocks(t *testing.T, page, kind string) string {
	t.Helper()
	var out strings.Builder
	for _, m := range regexp.MustCompile("(?ms)^```"+kind+"\\n(.*?)^```$").FindAllStringSubmatch(read(t, page), -1) {
		out.WriteString(m[1])
	}
	if out.Len() == 0 {
		t.Fatalf("%s has no block of %s", page, kind)
	}
	return out.String()
}

// section returns the YAML of a page that stands after the line that names its file.
func section(t *testing.T, page, file string) string {
	t.Helper()
	_, after, found := strings.Cut(read(t, page), "\n`"+file+"`")
	_, after, fenced := strings.Cut(after, "```yaml\n")
	text, _, _ := strings.Cut(after, "```")
	if !found || !fenced {
		t.Fatalf("%s does not show %s", page, file)
	}
	return text
}

// shell runs a script, each command of which must succeed, and returns what it prints.
func shell(t *testing.T, dir, script string, env ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", "set -euo pipefail\n"+script)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	return string(out)
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	out, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func urlQuery(s string) string { return url.QueryEscape(s) }

// wait waits until something is so.
func wait(t *testing.T, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(2 * time.Minute); !so(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// Blocks of commands that no test runs are none of these pages.
func TestEveryBlockOfCommandsIsRun(t *testing.T) {
	run := map[string][]string{
		"../../docs/install.md":    {"sh release", "sh systemd", "sh kubernetes"},
		"../../docs/monitoring.md": {"sh"},
	}
	for page, kinds := range run {
		for _, m := range regexp.MustCompile("(?m)^```(sh.*)$").FindAllStringSubmatch(read(t, page), -1) {
			known := false
			for _, k := range kinds {
				known = known || k == m[1]
			}
			if !known {
				t.Errorf("%s: nothing runs the blocks ```%s", page, m[1])
			}
		}
	}
}

// The commands of pawl that stand in the text itself exist, with their flags.
func TestCommandsInTheTextExist(t *testing.T) {
	pawl := filepath.Join(unpacked(t), "pawl")
	inline := regexp.MustCompile("`(pawl [a-z][^`]*)`")
	for _, page := range []string{"../../docs/install.md", "../../docs/monitoring.md"} {
		found := inline.FindAllStringSubmatch(read(t, page), -1)
		if len(found) == 0 {
			t.Errorf("%s names no command", page)
		}
		for _, m := range found {
			var words, flags []string
			for _, w := range strings.Fields(m[1])[1:] {
				switch {
				case strings.HasPrefix(w, "--"):
					flags = append(flags, w)
				case len(flags) == 0 && regexp.MustCompile(`^[a-z]+$`).MatchString(w):
					words = append(words, w)
				}
			}
			help := run(t, "", pawl, append(words, "--help")...)
			if !strings.Contains(help, "pawl "+strings.Join(words, " ")) {
				t.Errorf("%s: `%s`: there is no such command:\n%s", page, m[1], help)
			}
			for _, f := range flags {
				if !strings.Contains(help, f) {
					t.Errorf("%s: `%s`: it does not take %s", page, m[1], f)
				}
			}
		}
	}
}
