package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// extensions are the files of a folder that are read.
var extensions = []string{".yaml", ".yml", ".json"}

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
	var docs []Document
	var wrong Errors
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		ds, es := parse(content, name)
		docs, wrong = append(docs, ds...), append(wrong, es...)
	}
	return finish(docs, wrong)
}

// Read reads one file's content; name is for messages, and ends in .json where
// it must be JSON.
func Read(r io.Reader, name string) ([]Document, error) {
	content, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	docs, wrong := parse(content, name)
	return finish(docs, wrong)
}

func finish(docs []Document, wrong Errors) ([]Document, error) {
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
		case !d.IsDir() && slices.Contains(extensions, strings.ToLower(filepath.Ext(path))):
			files = append(files, path)
		}
		return nil
	})
	return files, err
}

// parse tells JSON from YAML. Every .json file is JSON; elsewhere what starts
// like JSON may still be YAML's flow style, and is read as that if it is no JSON.
func parse(content []byte, name string) ([]Document, Errors) {
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf")) // a byte order mark
	if strings.EqualFold(filepath.Ext(name), ".json") {
		return parseJSON(content, name)
	}
	if start := bytes.TrimLeft(content, " \t\r\n"); len(start) > 0 && (start[0] == '{' || start[0] == '[') && isJSONStream(content) {
		return parseJSON(content, name)
	}
	return parseYAML(content, name)
}
