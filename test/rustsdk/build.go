// Package rustsdk builds plugins on the Rust SDK, sdk/rust, and its tests run
// them in the real host.
package rustsdk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/pawlsync/pawl/internal/buildcache"
)

// ErrNoToolchain says that there is no Rust compiler for WebAssembly.
var ErrNoToolchain = errors.New("rustc with the target " + target + " is needed to build plugins in Rust (Debian: apt-get install rustc libstd-rust-dev-wasm32 lld)")

const target = "wasm32-unknown-unknown"

// Example returns the SDK's example, a key-value store behind HTTP.
//
// # Errors
//
// ErrNoToolchain, or what the compiler said.
func Example(ctx context.Context) ([]byte, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	return Build(ctx, filepath.Join(root, "sdk", "rust", "examples", "things"))
}

// Root returns the top of the checkout that the working folder is in.
func Root() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "sdk", "rust", "build.sh")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no sdk/rust above the working folder")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// Build returns the plugin of a crate. It is built once for each state of the
// sources, in the user's cache folder.
//
// # Errors
//
// ErrNoToolchain, or what the compiler said.
func Build(ctx context.Context, crate string) ([]byte, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	script := filepath.Join(root, "sdk", "rust", "build.sh")
	dir, err := once(ctx, "rust-guest", root, crate, func(rustc, dir string) error {
		return Run(ctx, rustc, script, crate, filepath.Join(dir, "guest.wasm"))
	})
	if err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, "guest.wasm"))
}

// Test runs the tests of a crate natively, the SDK's own among them, once for
// each state of the sources.
//
// # Errors
//
// ErrNoToolchain, or what the compiler or the tests said.
func Test(ctx context.Context, crate string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	_, err = once(ctx, "rust-tests", root, crate, func(rustc, _ string) error {
		return Run(ctx, rustc, filepath.Join(root, "sdk", "rust", "build.sh"), "--test", crate)
	})
	return err
}

// once calls build unless it succeeded for the same crate, SDK, golden vectors
// and compiler before.
func once(ctx context.Context, name, root, crate string, build func(rustc, dir string) error) (string, error) {
	rustc, err := Compiler(ctx)
	if err != nil {
		return "", err
	}
	key, err := exec.CommandContext(ctx, rustc, "-vV").Output()
	if err != nil {
		return "", fmt.Errorf("%s -vV: %w", rustc, err)
	}
	sdk := filepath.Join(root, "sdk", "rust")
	for _, p := range []string{
		filepath.Join(sdk, "build.sh"), filepath.Join(sdk, "src"), filepath.Join(root, "sdk", "abi", "vectors"),
		filepath.Join(crate, "Cargo.toml"), filepath.Join(crate, "src"),
	} {
		if key, err = appendFiles(key, p); err != nil {
			return "", err
		}
	}
	return buildcache.Dir(name, key, func(dir string) error { return build(rustc, dir) })
}

// Run runs the SDK's build.sh, which script names, with that compiler.
func Run(ctx context.Context, rustc, script string, args ...string) error {
	cmd := exec.CommandContext(ctx, script, args...)
	cmd.Env = append(os.Environ(), "RUSTC="+rustc)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}

// Compiler returns the first rustc that has a standard library for WebAssembly.
//
// # Errors
//
// ErrNoToolchain.
func Compiler(ctx context.Context) (string, error) {
	for _, rustc := range []string{os.Getenv("RUSTC"), "rustc", "/usr/bin/rustc"} {
		if rustc == "" {
			continue
		}
		out, err := exec.CommandContext(ctx, rustc, "--print", "target-libdir", "--target", target).Output()
		if err != nil {
			continue
		}
		if _, err := os.Stat(strings.TrimSpace(string(out))); err == nil {
			return rustc, nil
		}
	}
	return "", ErrNoToolchain
}

// appendFiles adds what is in the file or folder p.
func appendFiles(key []byte, p string) ([]byte, error) {
	err := filepath.WalkDir(p, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		key = fmt.Appendf(key, "%s %d\n%s", strings.TrimPrefix(path, p), len(b), b)
		return nil
	})
	return key, err
}
