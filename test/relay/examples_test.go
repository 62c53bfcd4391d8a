package relay

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/internal/bundled"
)

func TestTheExamplesAndTheYAMLOfTheDocsLoad(t *testing.T) {
	files := []string{"../../examples/relay/principal.yaml", "../../examples/relay/agent.yaml"}
	for _, doc := range []string{"../../docs/plugins/pawl.md"} {
		text, err := os.ReadFile(doc)
		must(t, err)
		blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
		if len(blocks) < 2 {
			t.Errorf("%s has %d blocks of YAML", doc, len(blocks))
		}
		for _, b := range blocks {
			file := filepath.Join(t.TempDir(), "pawl.yaml")
			must(t, os.WriteFile(file, b[1], 0o600))
			files = append(files, file)
		}
	}
	for _, file := range files {
		if _, err := config.Load(config.Options{File: file, Bundled: bundled.Known()}); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
