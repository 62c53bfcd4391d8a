package wasmhost

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The compile cache: CacheDir/<SHA-256 of the module>/ holds what wazero's own
// disk cache writes for that module, and sumFile, which lists the hash of each
// such file. wazero checks some of an entry and fails for ever on a damaged one;
// so an entry that does not match its sums is removed and compiled again.
//
// What is in there is executed as native code: the folder belongs to this user
// and nobody else may write to it.
const sumFile = "pawl-sums"

// openCacheDir creates dir, or checks that an existing one can be trusted.
func openCacheDir(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("%w: %w", ErrCacheDir, err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %w", ErrCacheDir, err)
	}
	st, err := os.Lstat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrCacheDir, err)
	case !st.IsDir():
		return fmt.Errorf("%w: %s is no folder", ErrCacheDir, dir)
	}
	return checkOwner(dir, st)
}

// cacheAge is how long an entry is kept that no run has used.
const cacheAge = 30 * 24 * time.Hour

// workPrefix starts the names of folders that a module is being compiled into.
const workPrefix = ".compile-"

// pruneCache removes entries that were last used before then, and what a crash
// while compiling left.
func pruneCache(dir string, then time.Time) error {
	sealed, err := filepath.Glob(filepath.Join(dir, "*", sumFile))
	for _, path := range sealed {
		if st, serr := os.Stat(path); serr == nil && st.ModTime().Before(then) {
			err = errors.Join(err, removeEntry(filepath.Dir(path)))
		}
	}
	work, werr := filepath.Glob(filepath.Join(dir, workPrefix+"*"))
	for _, path := range work {
		if st, serr := os.Stat(path); serr == nil && st.ModTime().Before(then) {
			err = errors.Join(err, removeEntry(path))
		}
	}
	return errors.Join(err, werr)
}

// verifyEntry removes the cache entry in dir unless it is whole; of a whole one
// it notes the use.
func verifyEntry(dir string, now time.Time) (whole bool, err error) {
	sealed := filepath.Join(dir, sumFile)
	if want, err := os.ReadFile(sealed); err == nil {
		if got, err := sums(dir); err == nil && got == string(want) {
			_ = os.Chtimes(sealed, now, now) // else it is pruned early, and made again
			return true, nil
		}
	}
	return false, removeEntry(dir)
}

func removeEntry(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("%w: an entry can't be removed: %w", ErrCacheDir, err)
	}
	return nil
}

// sealEntry records the sums of a complete entry. They are in place atomically:
// an entry that was cut short by a crash has none, or other ones.
func sealEntry(dir string) error {
	s, err := sums(dir)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, sumFile+".*")
	if err != nil {
		return err
	}
	_, err = tmp.WriteString(s)
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(dir, sumFile))
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}

// sums lists the files below dir and their SHA-256, but for the sums themselves
// and files that are still being written.
func sums(dir string) (string, error) {
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() || strings.HasPrefix(d.Name(), sumFile) || strings.HasSuffix(d.Name(), ".tmp"):
			return nil
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is no regular file", path)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		sum := hash(content)
		fmt.Fprintf(&b, "%s  %s\n", hex.EncodeToString(sum[:]), rel)
		return nil
	})
	return b.String(), err
}

// hashStep is how much is hashed at once. The hash is assembly that can't be
// interrupted: a module of megabytes in one go would hold up a collection, and
// with it the whole process, for tens of milliseconds.
const hashStep = 128 << 10

// hash is the SHA-256 of parts, one after the other.
func hash(parts ...[]byte) [sha256.Size]byte {
	h := sha256.New()
	for _, part := range parts {
		for piece := range slices.Chunk(part, hashStep) {
			h.Write(piece)
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}
