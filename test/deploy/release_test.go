package deploy

import (
	"debug/elf"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestTheReleaseSaysWhatItIs(t *testing.T) {
	var got struct{ Version, Commit, Built, OS, Arch string }
	if err := json.Unmarshal([]byte(run(t, "", filepath.Join(unpacked(t), "pawl"), "version", "-o", "json")), &got); err != nil {
		t.Fatal(err)
	}
	if got.Version != version || got.Commit != "0123456789ab" || got.Built != "2026-01-02T03:04:05Z" || got.OS+"-"+got.Arch != platform {
		t.Errorf("it says %+v", got)
	}
}

func TestTheProgramNeedsNothingOfTheSystem(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("macOS has no static programs")
	}
	f, err := elf.Open(filepath.Join(unpacked(t), "pawl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil || len(libraries) > 0 {
		t.Errorf("it needs %v, %v", libraries, err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("it needs a loader")
		}
	}
}

// Packing, linking and stamping are done twice, in folders of other names. What the
// compiler makes comes from Go's cache the second time: that it is the same for the same
// sources is Go's own promise.
func TestTheSameSourcesGiveTheSameBytes(t *testing.T) {
	first, second := release(t), t.TempDir()
	if err := buildRelease(slow(t), second, runtime.GOOS+"/"+runtime.GOARCH); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(first)
	if err != nil || len(files) != 4 {
		t.Fatalf("the release has %v, %v; want an archive, two bills of material, and the sums", files, err)
	}
	for _, f := range files {
		a, b := read(t, filepath.Join(first, f.Name())), read(t, filepath.Join(second, f.Name()))
		if a != b {
			t.Errorf("%s has %d bytes, then others, %d", f.Name(), len(a), len(b))
		}
	}
}

func TestTheBillOfMaterialNamesWhatIsLinked(t *testing.T) {
	for file, want := range map[string]string{
		"pawl-" + version + "-" + platform + ".cdx.json": "pkg:golang/github.com/tetratelabs/wazero@",
		"pawl-" + version + "-plugins.cdx.json":          "pkg:golang/github.com/VictoriaMetrics/easyproto@",
	} {
		var bill struct {
			BOMFormat string
			Metadata  struct {
				Component struct{ Name, Version string }
			}
			Components []struct{ PURL string }
		}
		if err := json.Unmarshal([]byte(read(t, filepath.Join(release(t), file))), &bill); err != nil {
			t.Fatal(err)
		}
		found := false
		for _, c := range bill.Components {
			found = found || strings.HasPrefix(c.PURL, want)
		}
		if bill.BOMFormat != "CycloneDX" || !found {
			t.Errorf("%s: of %s, %d components, none begins with %s", file, bill.BOMFormat, len(bill.Components), want)
		}
	}
}

// What docs/install.md says to do with a release, in a root of the test's own.
func TestInstallingAReleaseAsTheDocsSay(t *testing.T) {
	if platform != "linux-amd64" {
		t.Skip("the page's commands are of linux-amd64")
	}
	dir, root := t.TempDir(), t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(release(t))); err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"usr/local/bin", "etc/sysusers.d", "etc/systemd/system"} {
		if err := os.MkdirAll(filepath.Join(root, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// systemctl can't start anything here; that it enables the unit it does offline. The user
	// is made in the root's own files, where install does not look it up.
	shims := t.TempDir()
	for name, text := range map[string]string{
		"systemctl":        `[ "$*" = "enable --now pawl" ] && exec /usr/bin/systemctl --root="$ROOT" enable pawl`,
		"systemd-sysusers": `exec /usr/bin/systemd-sysusers --root="$ROOT"`,
		"install":          `args=(); for a; do [ "$a" = -g ] && skip=1 && continue; [ -n "${skip:-}" ] && skip= && continue; args+=("$a"); done; exec /usr/bin/install "${args[@]}"`,
	} {
		if err := os.WriteFile(filepath.Join(shims, name), []byte("#!/bin/bash\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	script := blocks(t, "../../docs/install.md", "sh release") + blocks(t, "../../docs/install.md", "sh systemd")
	for _, path := range []string{"/usr/local/", "/etc/"} {
		script = strings.ReplaceAll(script, " "+path, ` "$ROOT"`+path)
	}
	out := shell(t, dir, script, "ROOT="+root, "PATH="+shims+":"+filepath.Join(root, "usr/local/bin")+":"+os.Getenv("PATH"))
	for _, want := range []string{"pawl-" + version + "-linux-amd64.tar.gz: OK", "pawl " + version} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	if !strings.Contains(read(t, filepath.Join(root, "etc/passwd")), "pawl:") {
		t.Error("the user pawl was not made")
	}
	if _, err := os.Lstat(filepath.Join(root, "etc/systemd/system/multi-user.target.wants/pawl.service")); err != nil {
		t.Errorf("the unit is not enabled: %v", err)
	}
}
