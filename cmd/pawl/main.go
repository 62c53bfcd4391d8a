// Command pawl is the daemon and the commands that talk to it; see internal/cli.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/cli"
)

// version is set by the build: -ldflags "-X main.version=v1.2.3".
var version = ""

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the program at once.
	context.AfterFunc(ctx, stop)
	code := cli.Main(ctx, os.Args[1:], streams(), buildVersion())
	stop()
	os.Exit(code)
}

func streams() cli.Streams {
	width, _, _ := term.GetSize(int(os.Stdout.Fd())) // 0, unknown, where it is no terminal
	return cli.Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Environ(), Now: time.Now,
		OutTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		Width:       width,
	}
}

// buildVersion is what the linker was told, and what Go noted of the checkout.
func buildVersion() api.Version {
	v := api.Version{Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if v.Version == "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value[:min(12, len(s.Value))]
		case "vcs.time":
			v.Built = s.Value
		}
	}
	return v
}
