package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// builtPlugin is what `pawl plugin build` prints.
type builtPlugin struct {
	File   string `json:"file"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
}

func (a *app) pluginBuildCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "build [DIR]",
		Short: "Build a plugin from its project",
		Long: `Build compiles the project in DIR, by default the current folder, to a module, with
the flags that make it a small one which is the same to the byte each time. The
language is known by the file that a project of it has:

  go.mod       Go
  Cargo.toml   Rust; without other crates than pawl, rustc alone does
  Makefile     C, with PAWL = folder of the SDK`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(cmd, "%s takes one DIR at most, but got %s", words(cmd), given(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			built, err := a.buildPlugin(cmd.Context(), dir, out)
			if err != nil {
				return err
			}
			return a.print(built, func() {
				fmt.Fprintf(a.Out, "file    %s\nsize    %s\nsha256  %s\n", built.File, size(int64(built.Bytes)), built.SHA256)
			})
		},
	}
	a.outputFlag(cmd)
	cmd.Flags().StringVar(&out, "out", "", "file to write (default DIR/NAME.wasm, NAME being the folder's)")
	return cmd
}

// project is a plugin's source and how it is compiled.
type project struct {
	dir     string // absolute
	marker  string // the file that it is known by
	command func(p *project, out string) (*exec.Cmd, error)
	missing string // what to do where the compiler is missing
}

var projects = []project{
	{marker: "go.mod", command: goBuild, missing: "install Go 1.26 or later, https://go.dev/dl"},
	{marker: "Cargo.toml", command: rustBuild, missing: "install Rust with the target wasm32-unknown-unknown"},
	{marker: "Makefile", command: cBuild, missing: "install clang and lld (apt-get install clang lld)"},
}

// findProject says what project a folder holds.
func findProject(dir string) (*project, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	switch info, err := os.Stat(abs); {
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%s is a file: name the project's folder, %s", dir, filepath.Dir(dir))
	}
	for _, p := range projects {
		if _, err := os.Stat(filepath.Join(abs, p.marker)); err == nil {
			p.dir = abs
			return &p, nil
		}
	}
	return nil, fmt.Errorf("%s holds no project of a plugin: neither go.mod, Cargo.toml nor a Makefile; `pawl plugin new NAME` starts one", dir)
}

func (a *app) buildPlugin(ctx context.Context, dir, out string) (*builtPlugin, error) {
	p, err := findProject(dir)
	if err != nil {
		return nil, err
	}
	if out == "" {
		out = filepath.Join(dir, filepath.Base(p.dir)+".wasm")
	}
	abs, err := filepath.Abs(out)
	if err != nil {
		return nil, err
	}
	made, err := p.command(p, abs)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, made.Path, made.Args[1:]...)
	cmd.Dir, cmd.Env = p.dir, append(slices.Clone(a.Env), made.Env...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	switch err := cmd.Run(); {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the compiler %s is missing: %s", made.Args[0], p.missing)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("%s in %s: %w\n%s", strings.Join(made.Args, " "), p.dir, err, strings.TrimSpace(output.String()))
	}
	module, err := os.ReadFile(abs)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(module)
	return &builtPlugin{File: out, Bytes: len(module), SHA256: hex.EncodeToString(sum[:])}, nil
}

// goBuild makes a library of the module's main package.
func goBuild(_ *project, out string) (*exec.Cmd, error) {
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w -buildid=", "-o", out, ".")
	cmd.Env = []string{"GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0"}
	return cmd, nil
}

var (
	pawlCrate  = regexp.MustCompile(`(?m)^pawl\s*=\s*\{[^}]*\bpath\s*=\s*"([^"]+)"`)
	dependency = regexp.MustCompile(`(?m)^([A-Za-z0-9_-]+)\s*=`)
	pawlFolder = regexp.MustCompile(`(?m)^PAWL\s*[:?]?=\s*(\S+)`)
)

// rustBuild uses the SDK's own script, which needs no cargo, unless the crate
// has other dependencies.
func rustBuild(p *project, out string) (*exec.Cmd, error) {
	manifest, err := os.ReadFile(filepath.Join(p.dir, "Cargo.toml"))
	if err != nil {
		return nil, err
	}
	sdk := pawlCrate.FindSubmatch(manifest)
	if sdk == nil {
		return nil, fmt.Errorf("%s has no dependency such as pawl = { path = \"pawl-sdk\" }: where is the SDK?", filepath.Join(p.dir, "Cargo.toml"))
	}
	if others := crates(string(manifest)); len(others) > 1 {
		return nil, fmt.Errorf("the crate depends on %s: build it with `cargo build --release --target wasm32-unknown-unknown`, and give the module to `pawl plugin test`", strings.Join(others, ", "))
	}
	return exec.Command(filepath.Join(p.dir, filepath.FromSlash(string(sdk[1])), "build.sh"), ".", out), nil
}

// crates are the names in a manifest's section [dependencies].
func crates(manifest string) (names []string) {
	_, section, _ := strings.Cut(manifest, "[dependencies]")
	section, _, _ = strings.Cut(section, "\n[")
	for _, m := range dependency.FindAllStringSubmatch(section, -1) {
		names = append(names, m[1])
	}
	return names
}

// cBuild compiles every source of the folder but the tests, and the SDK.
func cBuild(p *project, out string) (*exec.Cmd, error) {
	makefile, err := os.ReadFile(filepath.Join(p.dir, "Makefile"))
	if err != nil {
		return nil, err
	}
	found := pawlFolder.FindSubmatch(makefile)
	if found == nil {
		return nil, fmt.Errorf("%s has no line such as PAWL = pawl-sdk: where is the SDK?", filepath.Join(p.dir, "Makefile"))
	}
	sdk := string(found[1])
	sources, err := filepath.Glob(filepath.Join(p.dir, "*.c"))
	if err != nil {
		return nil, err
	}
	args := []string{"@" + sdk + "/wasm.flags", "-Wall", "-Wextra", "-I" + sdk, "-o", out}
	for _, s := range sources {
		if !strings.HasSuffix(s, "_test.c") {
			args = append(args, filepath.Base(s))
		}
	}
	if len(args) == 6 {
		return nil, fmt.Errorf("%s holds no source in C", p.dir)
	}
	return exec.Command("clang", append(args, sdk+"/pawl.c")...), nil
}
