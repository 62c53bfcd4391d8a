// Package csdk builds plugins on the C SDK, sdk/c, and its tests run them in
// the real host.
package csdk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pawlsync/pawl/internal/buildcache"
)

// ErrNoToolchain says that clang or its linker for WebAssembly is missing.
var ErrNoToolchain = errors.New("clang and wasm-ld are needed to build plugins in C (Debian: apt-get install clang lld)")

// Example returns the SDK's example, a key-value store behind HTTP. It is built
// once for each state of the sources, in the user's cache folder.
//
// # Errors
//
// ErrNoToolchain, or what the compiler said.
func Example(ctx context.Context) ([]byte, error) {
	sdk, err := SDK()
	if err != nil {
		return nil, err
	}
	return Build(ctx, filepath.Join(sdk, "examples", "kv", "kv.c"))
}

// SDK returns the folder sdk/c of the checkout that the working folder is in.
func SDK() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		sdk := filepath.Join(dir, "sdk", "c")
		if _, err := os.Stat(filepath.Join(sdk, "pawl.h")); err == nil {
			return sdk, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no sdk/c above the working folder")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// Build returns the plugin of one source file, with more flags than the SDK's
// own where they are given.
func Build(ctx context.Context, source string, flags ...string) ([]byte, error) {
	sdk, err := SDK()
	if err != nil {
		return nil, err
	}
	compiler := "clang"
	if filepath.Ext(source) != ".c" {
		compiler = "clang++"
	}
	key, err := key(ctx, compiler, sdk, source, flags)
	if err != nil {
		return nil, err
	}
	dir, err := buildcache.Dir("c-guest", key, func(dir string) error {
		return compile(ctx, compiler, sdk, source, dir, flags)
	})
	if err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, "guest.wasm"))
}

// compile builds the SDK as C, and the plugin in its own language.
func compile(ctx context.Context, compiler, sdk, source, dir string, flags []string) error {
	object := filepath.Join(dir, "pawl.o")
	all := append([]string{"@" + filepath.Join(sdk, "wasm.flags"), "-Wall", "-Wextra", "-Werror",
		"-Wno-unused-command-line-argument", "-I", sdk}, flags...)
	for _, cmd := range [][]string{
		slices.Concat([]string{"clang"}, all[:len(all)-len(flags)], []string{"-c", "-o", object, filepath.Join(sdk, "pawl.c")}),
		slices.Concat([]string{compiler}, all, []string{"-o", filepath.Join(dir, "guest.wasm"), source, object}),
	} {
		if out, err := exec.CommandContext(ctx, cmd[0], cmd[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(cmd, " "), err, out)
		}
	}
	return nil
}

// key is all that a build depends on.
func key(ctx context.Context, compiler, sdk, source string, flags []string) ([]byte, error) {
	key := fmt.Appendf(nil, "%s %q\n", compiler, flags)
	for _, tool := range []string{"clang", "wasm-ld"} {
		out, err := exec.CommandContext(ctx, tool, "--version").Output()
		if errors.Is(err, exec.ErrNotFound) {
			return nil, ErrNoToolchain
		} else if err != nil {
			return nil, fmt.Errorf("%s --version: %w", tool, err)
		}
		key = append(key, out...)
	}
	files, err := filepath.Glob(filepath.Join(sdk, "src", "*.c"))
	if err != nil {
		return nil, err
	}
	files = append(files, filepath.Join(sdk, "pawl.c"), filepath.Join(sdk, "pawl.h"), filepath.Join(sdk, "wasm.flags"), source)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		key = fmt.Appendf(key, "%s %d\n%s", filepath.Base(f), len(b), b)
	}
	return key, nil
}
