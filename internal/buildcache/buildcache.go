// Package buildcache keeps what tests build and is slow to build, such as the
// real servers that they run against, in the user's cache folder: one folder per
// key, built once, by whoever comes first.
package buildcache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Dir returns the folder of what is called name and was made of key, and calls
// build to fill it where it is not there yet. Other processes wait meanwhile. A
// build that failed leaves nothing behind.
//
// key is everything that the result depends on: sources, versions, flags.
func Dir(name string, key []byte, build func(dir string) error) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return dirIn(filepath.Join(base, "pawl", "build"), name, key, build)
}

func dirIn(base, name string, key []byte, build func(dir string) error) (string, error) {
	sum := sha256.Sum256(key)
	dir := filepath.Join(base, name+"-"+hex.EncodeToString(sum[:8]))
	if there(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(base, 0o700); err != nil {
		return "", err
	}
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if there(dir) { // somebody built it while this one waited
		return dir, nil
	}
	fresh, err := os.MkdirTemp(base, name+".*.new")
	if err != nil {
		return "", err
	}
	err = build(fresh)
	if err == nil {
		err = os.Rename(fresh, dir)
	}
	if err != nil {
		return "", fmt.Errorf("build %s: %w", name, errors.Join(err, os.RemoveAll(fresh)))
	}
	return dir, nil
}

func there(dir string) bool {
	st, err := os.Stat(dir)
	return err == nil && st.IsDir()
}

// Tool builds the main package pkg of the module in moduleDir, which pins its
// version, and returns the program's path. The key is the module's go.mod and
// go.sum, the compiler, and flags, which go to go build.
func Tool(ctx context.Context, moduleDir, pkg string, flags ...string) (string, error) {
	return Program(ctx, moduleDir, filepath.Base(moduleDir), pkg, flags...)
}

// Program is Tool for a program that is called otherwise than its module's folder.
func Program(ctx context.Context, moduleDir, name, pkg string, flags ...string) (string, error) {
	key := fmt.Appendf(nil, "%s %s/%s %s %q\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, pkg, flags)
	for _, name := range []string{"go.mod", "go.sum"} {
		b, err := os.ReadFile(filepath.Join(moduleDir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		key = append(key, b...)
	}
	dir, err := Dir(name, key, func(dir string) error {
		args := append([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, name)}, flags...)
		cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
		cmd.Dir = moduleDir
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s in %s: %w\n%s", cmd, moduleDir, err, out)
		}
		return nil
	})
	return filepath.Join(dir, name), err
}
