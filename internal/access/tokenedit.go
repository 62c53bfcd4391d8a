package access

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrNoToken is wrapped by the errors about a token that is not in the file.
var ErrNoToken = errors.New("there is no such token")

// AddToken writes t into the file, at its end, and makes the file where there is
// none, for nobody else to read.
//
// # Errors
//
// A token that is not valid, one whose name is taken, and a file that is no token
// file or can't be replaced.
func AddToken(path string, t *Token) error {
	if err := t.Validate(); err != nil {
		return err
	}
	return editTokens(path, true, func(data []byte, list []Token) ([]byte, error) {
		for _, other := range list {
			if other.Name == t.Name {
				return nil, fmt.Errorf("the token file %s has a token %q already; choose another name, or revoke it first", path, t.Name)
			}
		}
		if len(data) > 0 && data[len(data)-1] != '\n' {
			data = append(data, '\n')
		}
		return append(data, t.line()...), nil
	})
}

// RemoveToken takes the token of that name out of the file.
//
// # Errors
//
// ErrNoToken; the last one, without which the daemon could not use the file; and as
// AddToken.
func RemoveToken(path, name string) error {
	return editTokens(path, false, func(data []byte, list []Token) ([]byte, error) {
		left, removed, err := rewrite(data, func(t *Token) ([]byte, bool) { return nil, t.Name == name })
		switch {
		case err != nil:
			return nil, err
		case removed == 0:
			return nil, fmt.Errorf("%w: the token file %s has no %q", ErrNoToken, path, name)
		case len(list) == 1:
			return nil, fmt.Errorf("%q is the last token of %s, and the daemon goes on with what it had when the file holds none: make the next one first (pawl token new)", name, path)
		}
		return left, nil
	})
}

// ConvertTokens puts hashes in the place of tokens in plain text. They go on being
// valid, for everything, under the names that it returns.
func ConvertTokens(path string) (names []string, err error) {
	err = editTokens(path, false, func(data []byte, _ []Token) ([]byte, error) {
		out, _, err := rewrite(data, func(t *Token) ([]byte, bool) {
			if t.Plain {
				names = append(names, t.Name)
			}
			return t.line(), t.Plain
		})
		return out, err
	})
	return names, err
}

// ListTokens returns the tokens of a file.
func ListTokens(path string) ([]Token, error) { return readTokenFile(path) }

// rewrite replaces the line of each token that change asks to with what it returns;
// nothing removes it. All other lines stay as they are.
func rewrite(data []byte, change func(*Token) (with []byte, yes bool)) (out []byte, changed int, err error) {
	number := 0
	for line := range bytes.Lines(data) {
		number++
		t, err := parseLine(bytes.TrimSpace(line), number)
		if err != nil {
			return nil, 0, err
		}
		if t != nil {
			if with, yes := change(t); yes {
				line = with
				changed++
			}
		}
		out = append(out, line...)
	}
	return out, changed, nil
}

// editTokens replaces the file with what edit makes of it, all at once: whoever reads
// it sees the old or the new one. The file that becomes the new one keeps two that
// edit at the same time from losing what the other did.
func editTokens(path string, create bool, edit func(data []byte, list []Token) ([]byte, error)) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // a link stays one
	}
	next, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s.new exists: another pawl token is at work, or one was cut off; in that case remove it", path)
	}
	if err != nil {
		return fmt.Errorf("the token file can't be replaced: %w", err)
	}
	if err := errors.Join(fillNext(next, path, create, edit), next.Close()); err != nil {
		return errors.Join(err, os.Remove(next.Name()))
	}
	if err := os.Rename(next.Name(), path); err != nil {
		return errors.Join(err, os.Remove(next.Name()))
	}
	return syncFolder(filepath.Dir(path))
}

// fillNext writes into next what edit makes of the file at path, durably.
func fillNext(next *os.File, path string, create bool, edit func(data []byte, list []Token) ([]byte, error)) error {
	data, err := readBounded(path)
	fresh := errors.Is(err, fs.ErrNotExist) && create
	if err != nil && !fresh {
		return fmt.Errorf("the token file can't be read: %w", err)
	}
	list, err := ParseTokens(data)
	if err != nil {
		return fmt.Errorf("the token file %s can't be used: %w", path, err)
	}
	if data, err = edit(data, list); err != nil {
		return err
	}
	if !fresh {
		if err := likeFile(next, path); err != nil {
			return fmt.Errorf("the token file's owner and mode can't be kept: %w", err)
		}
	}
	if _, err := next.Write(data); err != nil {
		return err
	}
	return next.Sync()
}

// likeFile gives f the mode and, where that is known, the owner of the file at path:
// the daemon must still be able to read it.
func likeFile(f *os.File, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return errors.Join(chownLike(f, info), f.Chmod(info.Mode().Perm()))
}

// syncFolder makes a renaming in it durable.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
