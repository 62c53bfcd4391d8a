package manifest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// IsDocument reports whether a file of that name is one of those that are read in a
// folder: by its extension, and it is not hidden.
func IsDocument(name string) bool {
	name = filepath.Base(name)
	return !strings.HasPrefix(name, ".") && slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(name)))
}

// ReadPath reads a file, or every .yaml, .yml and .json file of a folder and
// its folders, in the order of their names; hidden ones are left out. What is
// wrong with their contents is an Errors, all files taken together.
func ReadPath(path string) ([]Document, error) {
	info, err := os.Stat(path)
	if err != nil {
		if cause, ok := errors.AsType[*fs.PathError](err); ok {
			err = cause.Err // "stat" means nothing to people
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	files := []string{path}
	if info.IsDir() {
		if files, err = list(path); err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, Errors{{File: path, What: "the folder holds no .yaml, .yml or .json file"}}
		}
	}
	var entries []Entry
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		entries = append(entries, Parse(content, name)...)
	}
	return all(entries)
}

// Read reads one file's content; name is for messages, and ends in .json where
// it must be JSON.
func Read(r io.Reader, name string) ([]Document, error) {
	content, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	return all(Parse(content, name))
}

// all wants every document to be right.
func all(entries []Entry) ([]Document, error) {
	var docs []Document
	var wrong Errors
	for _, e := range entries {
		if e.Object != nil {
			wrong = append(wrong, e.AsObject())
		}
		docs, wrong = append(docs, e.Document), append(wrong, e.Wrong...)
	}
	if len(wrong) > 0 {
		return nil, wrong
	}
	return docs, nil
}

func list(dir string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != dir && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
		case !d.IsDir() && IsDocument(path):
			files = append(files, path)
		}
		return nil
	})
	return files, err
}
