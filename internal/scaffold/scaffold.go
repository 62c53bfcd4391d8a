// Package scaffold writes new plugin projects: the example adapter of the
// language's SDK under the project's name, a fixture for the conformance kit, a
// README, and a copy of the SDK itself, so that the project builds and passes its
// tests with nothing but a compiler.
//
// The SDKs come with the binary, as archives that make fills folder sdk with.
package scaffold

import (
	"archive/zip"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

//go:embed sdk
var archives embed.FS

//go:embed files
var own embed.FS

// Errors of New, for errors.Is.
var (
	// ErrName: the name suits no plugin.
	ErrName = errors.New("wrong name for a plugin")
	// ErrLanguage: there is no SDK for the language.
	ErrLanguage = errors.New("no SDK for this language")
	// ErrExists: the folder is there and not empty.
	ErrExists = errors.New("the folder is not empty")
	// ErrNotBuiltIn: the binary was built without the SDKs.
	ErrNotBuiltIn = errors.New("this binary was built without the SDKs; run \"make\" and build again")
)

// sdkDir is the folder of a project that the SDK is copied to.
const sdkDir = "pawl-sdk"

// language is how the example of an SDK becomes a project.
type language struct {
	title    string
	example  string            // its folder in the archive
	word     *regexp.Regexp    // the example's name, as a word
	edits    map[string]string // what else is replaced, in the files that have it
	unused   []string          // parts of the SDK that projects don't need
	reserved []string          // names that the language has other uses for
}

var languages = map[string]language{
	"go": {
		title: "Go", example: "examples/things/", word: regexp.MustCompile(`\bthings(_test)?\b`),
	},
	"rust": {
		title: "Rust", example: "examples/things/", word: regexp.MustCompile(`\bthings(_test)?\b`),
		edits: map[string]string{`path = "../.."`: `path = "` + sdkDir + `"`},
		reserved: strings.Fields("alloc as async await box break const continue core crate do dyn else enum extern false final fn for if impl in let loop " +
			"macro match mod move mut override priv proc-macro pub ref return self static std struct super test trait true try type unsafe use virtual where while yield"),
	},
	"c": {
		title: "C", example: "examples/kv/", word: regexp.MustCompile(`\bkv(_test)?\b`),
		edits:  map[string]string{"PAWL   = ../..": "PAWL   = " + sdkDir},
		unused: []string{"test/"},
	},
}

// Languages names those that there is an SDK for.
func Languages() []string { return []string{"go", "rust", "c"} }

var goodName = regexp.MustCompile(`^[a-z]([a-z0-9]|-[a-z0-9])*$`)

// maxName bounds a plugin's name, in bytes.
const maxName = 63

// CheckName says what is wrong with a plugin's name, or returns nil.
func CheckName(name string) error {
	if !goodName.MatchString(name) || len(name) > maxName {
		return fmt.Errorf("%w: %q; use lower-case letters, digits and single hyphens, a letter first, %d characters at most", ErrName, name, maxName)
	}
	if name == "pawl" || name == sdkDir {
		return fmt.Errorf("%w: %q is the SDK's own name", ErrName, name)
	}
	return nil
}

// New writes a project for a plugin of that name into dir, which must not exist
// or be empty, and returns the project's files but the SDK's, sorted.
//
// # Errors
//
// ErrName, ErrLanguage, ErrExists, ErrNotBuiltIn, or one of the file system.
func New(dir, name, lang string) ([]string, error) { return write(archives, dir, name, lang) }

func write(archives fs.FS, dir, name, lang string) ([]string, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	l, ok := languages[lang]
	if !ok {
		return nil, fmt.Errorf("%w: %q; there are SDKs for %s", ErrLanguage, lang, strings.Join(Languages(), ", "))
	}
	if slices.Contains(l.reserved, name) {
		return nil, fmt.Errorf("%w: %q has a meaning of its own in %s", ErrName, name, l.title)
	}
	if entries, err := os.ReadDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	} else if len(entries) > 0 {
		return nil, fmt.Errorf("%w: %s; name another one by --dir, or empty it", ErrExists, dir)
	}
	files, err := project(archives, l, name, lang)
	if err != nil {
		return nil, err
	}
	return save(dir, files)
}

// file is one of a new project.
type file struct {
	content    []byte
	executable bool
}

// project makes a project's files, by their slash-separated paths.
func project(archives fs.FS, l language, name, lang string) (map[string]file, error) {
	files := map[string]file{}
	if err := unpack(archives, l, name, lang, files); err != nil {
		return nil, err
	}
	for _, from := range []string{"files/common", "files/" + lang} {
		err := fs.WalkDir(own, from, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			raw, err := own.ReadFile(p)
			if err != nil {
				return err
			}
			at := strings.TrimSuffix(strings.TrimPrefix(p, from+"/"), ".tmpl")
			at = strings.Replace(at, "dot-", ".", 1)
			text := strings.NewReplacer("{{name}}", name, "{{language}}", l.title, "{{sdk}}", sdkDir).Replace(string(raw))
			if old, ok := files[at]; ok {
				text = string(old.content) + "\n" + text
			}
			files[at] = file{content: []byte(text)}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// unpack takes the SDK and its example from the archive.
func unpack(archives fs.FS, l language, name, lang string, files map[string]file) error {
	raw, err := fs.ReadFile(archives, "sdk/"+lang+".zip")
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", l.title, ErrNotBuiltIn)
	}
	if err != nil {
		return err
	}
	z, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		return fmt.Errorf("the SDK in this binary: %w", err)
	}
	for _, f := range z.File {
		content, err := fs.ReadFile(z, f.Name)
		if err != nil {
			return fmt.Errorf("the SDK in this binary: %w", err)
		}
		at, isExample := strings.CutPrefix(f.Name, l.example)
		switch {
		case isExample:
			at, content = l.rename(at, name), l.adapt(content, name)
		case strings.HasPrefix(f.Name, "examples/"), l.unneeded(f.Name):
			continue
		default:
			at = path.Join(sdkDir, f.Name)
		}
		files[at] = file{content: content, executable: f.Mode()&0o100 != 0}
	}
	return nil
}

func (l *language) unneeded(p string) bool {
	return slices.ContainsFunc(l.unused, func(u string) bool { return p == u || strings.HasSuffix(u, "/") && strings.HasPrefix(p, u) })
}

func (l *language) rename(p, name string) string {
	return l.word.ReplaceAllString(p, name+"$1")
}

// adapt gives the example's source the project's name and the SDK's place.
func (l *language) adapt(content []byte, name string) []byte {
	text := l.word.ReplaceAllString(string(content), name+"$1")
	for old, replacement := range l.edits {
		text = strings.ReplaceAll(text, old, replacement)
	}
	return []byte(text)
}

// save writes the files, and returns those that are not the SDK's.
func save(dir string, files map[string]file) (names []string, err error) {
	for at, f := range files {
		where := filepath.Join(dir, filepath.FromSlash(at))
		if err := os.MkdirAll(filepath.Dir(where), 0o755); err != nil {
			return nil, err
		}
		mode := fs.FileMode(0o644)
		if f.executable {
			mode = 0o755
		}
		if err := os.WriteFile(where, f.content, mode); err != nil {
			return nil, err
		}
		if !strings.HasPrefix(at, sdkDir+"/") {
			names = append(names, at)
		}
	}
	slices.Sort(names)
	return names, nil
}
