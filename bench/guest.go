package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/pawlsync/pawl/engine/wasmhost"
)

// buildGuest compiles the guest in the folder pkg of the Go module at dir, as
// plugins are compiled.
func buildGuest(r *report, dir, pkg string) ([]byte, error) {
	out := filepath.Join(r.dir, filepath.Base(pkg)+".wasm")
	cmd := exec.CommandContext(r.ctx, "go", "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w -buildid=", "-o", out, pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", cmd, err, text)
	}
	return os.ReadFile(out)
}

// buildRust compiles the crate in dir with the Rust SDK; nil: there is no compiler for it.
func buildRust(r *report, dir string) ([]byte, error) {
	out := filepath.Join(r.dir, "rust.wasm")
	text, err := exec.CommandContext(r.ctx, "sh", "../sdk/rust/build.sh", dir, out).CombinedOutput()
	switch {
	case bytes.Contains(text, []byte("no rustc with the target")):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("building %s: %w\n%s", dir, err, text)
	}
	return os.ReadFile(out)
}

// testGuest compiles one of the plugins that the host's tests use.
func testGuest(r *report, name string) ([]byte, error) {
	return buildGuest(r, "../plugins", "./testguest/"+name)
}

// openGuest opens a sink of a plugin that is not shipped.
func openGuest(ctx context.Context, o wasmhost.Options, wasm []byte, c wasmhost.SinkConfig) (*wasmhost.Sink, func(), error) {
	host, err := wasmhost.New(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	plugin, err := host.LoadTrusted(ctx, wasm, "guest")
	if err != nil {
		return nil, nil, err
	}
	c.Name = sinkName
	s, err := plugin.Open(ctx, c)
	if err != nil {
		plugin.Close(ctx)
		return nil, nil, err
	}
	return s, func() { s.Close(ctx); plugin.Close(ctx) }, nil
}
