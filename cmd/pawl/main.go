// Command pawl is the daemon and the commands that talk to it; see internal/cli.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/pawlsync/pawl/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the program at once.
	context.AfterFunc(ctx, stop)
	code := cli.Main(ctx, os.Args[1:], streams(), cli.BuildVersion())
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
