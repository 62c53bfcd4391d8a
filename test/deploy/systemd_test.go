package deploy

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const unit = "../../deploy/systemd/pawl.service"

func systemdAnalyze(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd is not installed")
	}
	return program
}

func TestSystemdTakesTheUnit(t *testing.T) {
	program := systemdAnalyze(t)
	text := read(t, unit)
	const start = "ExecStart=/usr/local/bin/pawl run "
	if !strings.Contains(text, start) {
		t.Fatalf("the unit does not say %s", start)
	}
	// It refuses programs that are not there.
	text = strings.Replace(text, start, "ExecStart="+filepath.Join(unpacked(t), "pawl")+" run ", 1)
	copied := write(t, filepath.Join(t.TempDir(), "pawl.service"), text)
	if out := run(t, "", program, "verify", "--man=no", "--recursive-errors=no", copied); strings.Contains(out, "pawl.service") {
		t.Errorf("it says:\n%s", out)
	}
}

// The docs name the figure; a directive that is lost raises it.
func TestTheUnitIsAsClosedAsTheDocsSay(t *testing.T) {
	out := run(t, "", systemdAnalyze(t), "security", "--offline=true", "--no-pager", absolute(t, unit))
	m := regexp.MustCompile(`Overall exposure level for pawl.service: ([0-9.]+)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("no figure in:\n%s", out)
	}
	if page := strings.Join(strings.Fields(read(t, "../../docs/install.md")), " "); !strings.Contains(page, "an exposure of "+m[1]+" of 10") {
		t.Errorf("the exposure is %s, and docs/install.md says another one", m[1])
	}
}
