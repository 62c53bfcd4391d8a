package dir

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestAStampIsTrustedOnceItsTimeIsOver(t *testing.T) {
	at := time.Unix(1000, 0)
	for _, c := range []struct {
		modified, changed time.Duration // before the file was read
		trusted           bool
	}{{time.Second, time.Second, false}, {time.Hour, time.Second, false}, {3 * time.Second, 3 * time.Second, true}, {-time.Hour, time.Hour, false}} {
		s := stamp{size: 1, modified: at.Add(-c.modified).UnixNano(), changed: at.Add(-c.changed).UnixNano()}
		if got := s.trusted(at); (got == s) != c.trusted {
			t.Errorf("modified %v and changed %v before: trusted %v", c.modified, c.changed, got == s)
		}
	}
}

func TestABadFileThatIsYoungIsReadAgainBeforeItIsToldAsBad(t *testing.T) {
	root, d := t.TempDir(), newDesk(t)
	write(t, root, "a.yaml", docs("a=1", "b={"))
	past := time.Now().Add(-2 * defaultSettle) // quiet, but not for long
	must(t, os.Chtimes(filepath.Join(root, "a.yaml"), past, past))
	first := true
	run(t, root, d, func(s *Source) {
		patiently(s)
		s.fs.open = func(name string) (file, error) {
			f, err := system.open(name)
			if !first || err != nil {
				return f, err
			}
			first = false
			return whenClosed{f, func() { write(t, root, "a.yaml", docs("a=1", "b=1")) }}, nil
		}
	})
	if len(d.problems) > 0 {
		t.Errorf("told as bad: %v", d.problems)
	}
	d.wants("a=1", "b=1")
}
