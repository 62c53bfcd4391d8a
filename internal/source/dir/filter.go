package dir

import (
	"fmt"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/pawlsync/pawl/internal/manifest"
)

// filter says which files are documents. Paths are relative to the source's directory,
// with slashes.
type filter struct {
	include, exclude []string
}

func newFilter(include, exclude []string) (filter, error) {
	for _, p := range append(append([]string{}, include...), exclude...) {
		if p == "" || strings.HasPrefix(p, "/") || !doublestar.ValidatePattern(p) {
			return filter{}, fmt.Errorf("%q is no pattern of paths", p)
		}
	}
	return filter{include, exclude}, nil
}

// file reports whether the file at p is read, as far as its path says.
func (f *filter) file(p string) bool {
	return manifest.IsDocument(p) && !matchAny(f.exclude, p) && (len(f.include) == 0 || matchAny(f.include, p))
}

// dir reports whether the directory at p is entered.
func (f *filter) dir(p string) bool {
	return !strings.HasPrefix(path.Base(p), ".") && !matchAny(f.exclude, p)
}

func matchAny(patterns []string, p string) bool {
	for _, pattern := range patterns {
		if doublestar.MatchUnvalidated(pattern, p) {
			return true
		}
	}
	return false
}
