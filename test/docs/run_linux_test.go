package docs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pawlsync/pawl/test/ops/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }

// TestTheCommandsOfEachPageDoWhatItSays runs page after page.
func TestTheCommandsOfEachPageDoWhatItSays(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the programs and starts daemons")
	}
	for name, p := range pages {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range p.files {
				kit.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o700))
				kit.Must(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
			}
			if p.checkout {
				checkout(t, dir)
			}
			all := blocks(t, name)
			said, err := run(t, dir, p.stage+"\n"+p.script(all))
			printed := outputs(said)
			if err != nil {
				last := all[max(0, len(printed)-1)]
				t.Fatalf("%s:%d: %v\n%s\nthe script printed:\n%s", name, last.line, err, last.text, said)
			}
			for i, b := range all {
				for _, want := range b.shown() {
					if !want.MatchString(printed[i]) {
						t.Errorf("%s:%d: the commands do not print %s, but:\n%s", name, b.line, want, printed[i])
					}
				}
			}
			t.Log(said)
		})
	}
}
