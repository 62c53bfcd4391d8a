package dir

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// listing is the tree as it was found.
type listing struct {
	files   []string            // documents, in the order of their names; links to directories last
	dirs    map[string]struct{} // that were entered; "." is the first
	ignores ignores
	broken  map[string]error // directories that can't be read, and why
	root    fileID
}

// walk lists the tree. Each directory is watched before it is read, so that nothing
// that comes between is missed. A directory that has several names, by links, is
// entered once; so links may lead in circles. The error is that of the tree as a whole.
func (s *Source) walk(watch func(dir string)) (*listing, error) {
	w := &walker{Source: s, watch: watch, entered: map[fileID]bool{},
		listing: &listing{dirs: map[string]struct{}{}, ignores: ignores{}, broken: map[string]error{}}}
	if err := w.enter("."); err != nil {
		return nil, err
	}
	for i := 0; i < len(w.links); i++ { // grows while it is gone through
		w.tryEnter(w.links[i])
	}
	return w.listing, nil
}

type walker struct {
	*Source
	*listing
	watch   func(dir string)
	entered map[fileID]bool
	links   []string // to directories: entered when all that are no links are
}

// at is the path of p for the system.
func (s *Source) at(p string) string { return filepath.Join(s.opts.Path, filepath.FromSlash(p)) }

func (w *walker) tryEnter(p string) {
	if err := w.enter(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.broken[p] = err
	}
}

func (w *walker) enter(p string) error {
	info, err := w.fs.stat(w.at(p))
	if err != nil {
		return plain(err)
	}
	if !info.IsDir() {
		return errNoDir
	}
	id := stampOf(info).id
	if p == "." {
		w.root = id
	}
	if id != (fileID{}) {
		if w.entered[id] {
			return nil
		}
		w.entered[id] = true
	}
	w.watch(p)
	entries, err := w.fs.readDir(w.at(p))
	if err != nil {
		return plain(err)
	}
	if err := w.readIgnores(p); err != nil {
		return err
	}
	w.dirs[p] = struct{}{}
	for _, e := range entries {
		w.entry(path.Join(p, e.Name()), e)
	}
	return nil
}

func (w *walker) readIgnores(p string) error {
	content, err := w.fs.readFile(w.at(path.Join(p, ignoreFile)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &ignoreError{plain(err)}
	}
	rules, err := parseIgnore(content, path.Join(p, ignoreFile))
	if err != nil {
		return err
	}
	w.ignores[p] = rules
	return nil
}

func (w *walker) entry(p string, e fs.DirEntry) {
	isDir, isLink := e.IsDir(), e.Type()&fs.ModeSymlink != 0
	if isLink {
		info, err := w.fs.stat(w.at(p))
		isDir = err == nil && info.IsDir()
	}
	switch {
	case isDir && (!w.filter.dir(p) || w.ignores.match(p, true)):
	case isDir && isLink:
		w.links = append(w.links, p)
	case isDir:
		w.tryEnter(p)
	case w.filter.file(p) && !w.ignores.match(p, false):
		w.files = append(w.files, p)
	}
}

// reads reports whether p is read as a document, wherever it comes from.
func (s *Source) reads(list *listing, p string) bool {
	_, ok := list.dirs[path.Dir(p)]
	return ok && s.filter.file(p) && !list.ignores.match(p, false)
}

// brokenAbove returns the directory that can't be read and has p in it, and why.
func (l *listing) brokenAbove(p string) (dir string, err error) {
	for dir, err := range l.broken {
		if strings.HasPrefix(p, dir+"/") {
			return dir, err
		}
	}
	return "", nil
}

// unlisted are the files that x has and the listing has not; and, with / at the end, the
// directories that can't be read and of which x has nothing.
func (l *listing) unlisted(x *index) []string {
	listed := make(map[string]bool, len(l.files))
	for _, p := range l.files {
		listed[p] = true
	}
	var out []string
	remembered := map[string]bool{}
	for _, p := range slices.Sorted(maps.Keys(x.files)) {
		if dir, err := l.brokenAbove(p); err != nil && !strings.HasSuffix(p, "/") {
			remembered[dir] = true
		}
		if !listed[p] {
			out = append(out, p)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(l.broken)) {
		if p := dir + "/"; !remembered[dir] && x.files[p] == nil {
			out = append(out, p)
		}
	}
	return out
}
