package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/internal/oci/ocitest"
)

func TestPluginTravelsThroughARegistry(t *testing.T) {
	host := ocitest.Start(t, "")
	dir := t.TempDir()
	module := "\x00asm\x01\x00\x00\x00"
	file := filepath.Join(dir, "greeter.wasm")
	if err := os.WriteFile(file, []byte(module), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, code := run(t, "", "", "plugin", "push", file, host+"/plugins/greeter:v1", "-o", "json")
	var pushed pushedPlugin
	if err := json.Unmarshal([]byte(out), &pushed); err != nil || code != ExitDone {
		t.Fatalf("push: exit code %d, %s%s", code, out, errs)
	}
	out, errs, code = run(t, "", "", "plugin", "push", file, host+"/plugins/greeter:v1")
	if code != ExitDone || !strings.Contains(out, "pushed  "+pushed.Ref+"\n") || !strings.Contains(out, "sha256  "+pushed.SHA256+"\n") {
		t.Errorf("push again: exit code %d, %s%s", code, out, errs)
	}

	t.Chdir(dir)
	if err := os.WriteFile("greeter.wasm", []byte("what was there"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errs, code = run(t, "", "", "plugin", "pull", pushed.Ref, "--sha256", strings.Repeat("0", 64))
	if got, _ := os.ReadFile("greeter.wasm"); code != ExitError || string(got) != "what was there" || !strings.Contains(errs, pushed.SHA256) {
		t.Errorf("pull with another --sha256: exit code %d, %s; the file holds %q", code, errs, got)
	}
	out, errs, code = run(t, "", "", "plugin", "pull", pushed.Ref, "--sha256", strings.ToUpper(pushed.SHA256))
	if got, _ := os.ReadFile("greeter.wasm"); code != ExitDone || string(got) != module || !strings.Contains(out, "pulled  "+pushed.Ref+"\n") {
		t.Errorf("pull: exit code %d, %s%s; the file holds %q", code, out, errs, got)
	}
	_, errs, code = run(t, "", "", "plugin", "pull", host+"/plugins/greeter:v1", "-o", filepath.Join("sub", "x.wasm"))
	if code != ExitNotFound || !strings.Contains(errs, "sub") {
		t.Errorf("pull into a folder that is not there: exit code %d, %s", code, errs)
	}
	left, _ := filepath.Glob(".*")
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	_, errs, code = run(t, "", "", "plugin", "pull", host+"/plugins/greeter:v2")
	if code != ExitNotFound || !strings.Contains(errs, "greeter:v2") {
		t.Errorf("pull of what is not there: exit code %d, %s", code, errs)
	}
	_, errs, code = run(t, "", "", "plugin", "pull", host+"/plugins/greeter:v1", "--plain-http=false")
	if code != ExitError || !strings.Contains(errs, "--plain-http") {
		t.Errorf("pull over https: exit code %d, %s", code, errs)
	}
}

func TestPushAndPullTellWrongUse(t *testing.T) {
	for says, args := range map[string][]string{
		"plugin push takes FILE REF":    {"push", "x.wasm"},
		"plugin pull takes REF":         {"pull"},
		"did you mean --plain-http?":    {"pull", "x", "--plain-htp"},
		"neither a tag nor a digest":    {"pull", "ghcr.io/x/y"},
		"no such file":                  {"push", "nothing.wasm", "ghcr.io/x/y:v1"},
		"write HOST/REPOSITORY:TAG or ": {"pull", "https://ghcr.io/x/y:v1"},
	} {
		_, errs, code := run(t, "", "", append([]string{"plugin"}, args...)...)
		if code == ExitDone || !strings.Contains(errs, says) {
			t.Errorf("plugin %v: exit code %d, %q; want %q", args, code, errs, says)
		}
	}
}
