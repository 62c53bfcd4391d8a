package dir

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestPatternsSayWhatIsRead(t *testing.T) {
	root, d := t.TempDir(), newDesk(t)
	for key, name := range map[string]string{
		"top": "top.yaml", "deep": "team-a/x/y/deep.yml", "other": "other/o.yaml", "vendored": "team-a/vendor/v.yaml", "draft": "team-a/draft-1.yaml",
	} {
		write(t, root, name, doc(key, "1"))
	}
	write(t, root, "team-a/readme.txt", "no document")
	run(t, root, d, func(s *Source) {
		var err error
		s.filter, err = newFilter([]string{"*.yaml", "team-*/**"}, []string{"**/vendor", "**/draft-*"})
		must(t, err)
	})
	d.wants("top=1", "deep=1")
	write(t, root, "team-b/b.yaml", doc("b", "1"))
	write(t, root, "team-b/vendor/n.yaml", doc("n", "1"))
	write(t, root, "team-a/draft-2.yaml", doc("d2", "1"))
	d.wants("top=1", "deep=1", "b=1")
	for _, p := range []string{"", "/abs", "a["} {
		if _, err := New(Options{Path: root, Exclude: []string{p}}); err == nil {
			t.Errorf("took the pattern %q", p)
		}
	}
}

func TestTheIgnoreFileSaysWhatIsLeftOut(t *testing.T) {
	root, d := t.TempDir(), newDesk(t)
	write(t, root, "a.yaml", doc("a", "1"))
	write(t, root, "old/b.yaml", doc("b", "1"))
	s, _ := run(t, root, d, nil)
	d.wants("a=1", "b=1")
	write(t, root, ".pawlignore", "# what was\nold/\n")
	d.wants("a=1")
	write(t, root, ".pawlignore", "[")
	d.await(func() bool {
		return d.trouble != nil && strings.Contains(d.trouble.Error(), `.pawlignore:1: "[" is no pattern`)
	})
	d.wants("a=1") // nobody knows what is left out, and nothing changes
	must(t, os.Remove(filepath.Join(root, ".pawlignore")))
	s.Rescan()
	d.wants("a=1", "b=1")
	d.well()
	d.neverDeleted(t, "a")
}

// Git's own answer is the measure.
func TestTheIgnoreFileMeansWhatGitMeans(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("there is no git")
	}
	files := []string{"a.yaml", "b.yaml", "sub/a.yaml", "sub/b.yaml", "sub/deep/a.yaml", "sub/deep/x/c.yaml", "build/a.yaml", "sub/build/a.yaml",
		"with space.yaml", "trail .yaml", "#a.yaml", "!a.yaml", "{a,b}.yaml", "a1.yaml", "a2.yaml", "ab.yaml", "keep/a.yaml", "keep/k.yaml", "logs/2026/a.yaml"}
	for _, rules := range []map[string]string{
		{".": "a.yaml"}, {".": "/a.yaml"}, {".": "build/"}, {".": "sub/build"}, {".": "sub/**"}, {".": "**/deep"}, {".": "sub/**/c.yaml"},
		{".": "*.yaml\n!b.yaml"}, {".": "keep/*\n!keep/k.yaml"}, {".": "keep/\n!keep/k.yaml"}, {".": "keep/**\n!keep/k.yaml"}, {".": "logs/**/a.yaml"},
		{".": `\#a.yaml`}, {".": `\!a.yaml`}, {".": "#a.yaml"}, {".": "{a,b}.yaml"}, {".": "a[0-9].yaml"}, {".": "a[!0-9].yaml"}, {".": "a?.yaml"}, {".": "with space.yaml   "},
		{".": "a.yaml\r\nb.yaml\r\n"}, {".": "sub/deep/"}, {".": "*"}, {".": "*\n!*/\n!*.yaml\n/sub"}, {".": "**"}, {".": "/**/a.yaml"}, {".": "s*/a.yaml"},
		{".": "*.yaml", "sub": "!a.yaml"}, {".": "!a.yaml", "sub": "a.yaml\n/deep"}, {"sub": "deep/*\n!deep/a.yaml"}, {"sub": "/a.yaml", "sub/deep": "*"},
	} {
		root := t.TempDir()
		for _, name := range files {
			write(t, root, name, "")
		}
		for dir, text := range rules {
			write(t, root, filepath.Join(dir, ignoreFile), text)
			write(t, root, filepath.Join(dir, ".gitignore"), text)
		}
		must(t, exec.Command(git, "init", "-q", root).Run())
		out, err := exec.Command(git, "-c", "core.quotePath=false", "-C", root, "ls-files", "--others", "--exclude-standard", "-z").Output()
		must(t, err)
		var want []string
		for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			if strings.HasSuffix(name, ".yaml") {
				want = append(want, name)
			}
		}
		s, err := New(Options{Path: root})
		must(t, err)
		list, err := s.walk(func(string) {})
		must(t, err)
		got := slices.Sorted(slices.Values(list.files))
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q: read\n%q, git\n%q", rules, got, want)
		}
	}
}
