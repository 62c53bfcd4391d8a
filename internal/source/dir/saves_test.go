package dir

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEditorsSaveInTheirWays(t *testing.T) {
	for name, save := range map[string]func(t *testing.T, path, content string){
		"vim, with a backup": func(t *testing.T, path, content string) {
			dir := filepath.Dir(path)
			must(t, os.WriteFile(filepath.Join(dir, ".a.yaml.swp"), []byte("b0VIM"), 0o644))
			must(t, os.WriteFile(filepath.Join(dir, "4913"), nil, 0o644))
			must(t, os.Remove(filepath.Join(dir, "4913")))
			must(t, os.Rename(path, path+"~"))
			must(t, os.WriteFile(path, []byte(content), 0o644))
			must(t, os.Remove(path+"~"))
			must(t, os.Remove(filepath.Join(dir, ".a.yaml.swp")))
		},
		"emacs, with a lock and a backup": func(t *testing.T, path, content string) {
			must(t, os.Symlink("me@here.1", filepath.Join(filepath.Dir(path), ".#a.yaml")))
			must(t, os.Rename(path, path+"~"))
			must(t, os.WriteFile(path, []byte(content), 0o644))
			must(t, os.Remove(filepath.Join(filepath.Dir(path), ".#a.yaml")))
		},
		"another file in its place": func(t *testing.T, path, content string) {
			must(t, os.WriteFile(path+".tmp", []byte(content), 0o644))
			must(t, os.Rename(path+".tmp", path))
		},
		"a hidden document in its place": func(t *testing.T, path, content string) {
			hidden := filepath.Join(filepath.Dir(path), ".a.yaml")
			must(t, os.WriteFile(hidden, []byte(content), 0o644))
			must(t, os.Rename(hidden, path))
		},
		"removed and made anew": func(t *testing.T, path, content string) {
			must(t, os.Remove(path))
			must(t, os.WriteFile(path, []byte(content), 0o644))
		},
		"emptied and written in pieces": func(t *testing.T, path, content string) {
			f, err := os.Create(path)
			must(t, err)
			for piece := range slices.Chunk([]byte(content), 5) {
				_, err := f.Write(piece)
				must(t, err)
			}
			must(t, f.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			root, d := t.TempDir(), newDesk(t)
			write(t, root, "a.yaml", docs("a=old", "b=old", "c=old"))
			run(t, root, d, patiently)
			save(t, filepath.Join(root, "a.yaml"), docs("a=new", "b=new", "c=new"))
			d.wants(`a="new"`, `b="new"`, `c="new"`)
			d.well()
			d.neverDeleted(t)
			if want := []string{"web/a", "web/b", "web/c"}; !slices.Equal(d.puts, want) {
				t.Errorf("put %v, want %v: each once", d.puts, want)
			}
		})
	}
}

// patiently is as the daemon runs it: a test of what takes its time must be quicker.
func patiently(s *Source) { s.opts.Settle = defaultSettle }

// A full set meets a file that is half written: what it holds so far is right by itself.
func TestAFullSetWaitsForWhatIsBeingWritten(t *testing.T) {
	root, d := t.TempDir(), newDesk(t)
	write(t, root, "a.yaml", docs("a=1", "b=1"))
	_, stop := run(t, root, d, nil)
	stop()
	whole := docs("a=2", "b=2")
	write(t, root, "a.yaml", whole[:strings.Index(whole, "---")])
	looked := false
	run(t, root, d, func(s *Source) {
		s.fs.open = func(name string) (file, error) {
			f, err := system.open(name)
			if looked || err != nil {
				return f, err
			}
			looked = true
			return whenClosed{f, func() { write(t, root, "a.yaml", whole) }}, nil
		}
	})
	d.wants("a=2", "b=2")
	d.neverDeleted(t)
}

// whenClosed does something when it is closed.
type whenClosed struct {
	file
	do func()
}

func (f whenClosed) Close() error {
	f.do()
	return f.file.Close()
}

func TestAFileThatChangesWhileItIsReadIsReadAgain(t *testing.T) {
	root, d := t.TempDir(), newDesk(t)
	write(t, root, "a.yaml", docs("a=1", "b=1"))
	_, stop := run(t, root, d, nil)
	stop()
	times := 0
	run(t, root, d, func(s *Source) {
		s.fs.open = func(name string) (file, error) {
			f, err := system.open(name)
			if times++; times > 2 || err != nil {
				return f, err
			}
			return appending{f, name, t}, nil
		}
	})
	d.wants("a=1", "b=1")
	d.well()
	d.neverDeleted(t)
}

// appending grows while it is read.
type appending struct {
	file
	name string
	t    *testing.T
}

func (f appending) Read(p []byte) (int, error) {
	n, err := f.file.Read(p)
	if n > 0 {
		g, err := os.OpenFile(f.name, os.O_APPEND|os.O_WRONLY, 0)
		must(f.t, err)
		_, err = g.WriteString("# more\n")
		must(f.t, err)
		must(f.t, g.Close())
	}
	return n, err
}

func TestAFileThatNeverIsQuietIsTold(t *testing.T) {
	root, d := t.TempDir(), newDesk(t)
	write(t, root, "a.yaml", doc("a", "1"))
	_, stop := run(t, root, d, nil)
	stop()
	run(t, root, d, func(s *Source) {
		s.fs.open = func(name string) (file, error) {
			f, err := system.open(name)
			return appending{f, name, t}, err
		}
	})
	d.says("a.yaml", "a.yaml changes all the time")
	d.wants("a=1")
}

func TestAFileThatWasCutOffDeletesNothing(t *testing.T) {
	root, d := t.TempDir(), newDesk(t)
	write(t, root, "a.yaml", docs("a=1", "b=1"))
	_, stop := run(t, root, d, nil)
	write(t, root, "a.yaml", "\n")
	d.says("web/a", "a.yaml is empty")
	d.says("web/b", "a.yaml is empty")
	stop()
	run(t, root, d, nil) // which does not know what was in it
	d.says("a.yaml", "a.yaml is empty")
	d.wants("a=1", "b=1")
	d.neverDeleted(t)
	write(t, root, "a.yaml", "# nothing any more\n")
	d.wants()
	d.well()
}
