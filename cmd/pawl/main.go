// Command pawl is the daemon and the commands that talk to it; see internal/cli.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	// Where the system has no roots to trust, as in an empty image, those of Mozilla count.
	_ "golang.org/x/crypto/x509roots/fallback"
	"golang.org/x/term"

	"github.com/pawlsync/pawl/internal/cli"
)

func main() {
	os.Exit(cli.Main(untilSignal(), os.Args[1:], streams(), cli.BuildVersion()))
}

// untilSignal returns a context that the first SIGINT or SIGTERM ends. The
// second one ends the program at once.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(cli.ExitInterrupted)
	}()
	return ctx
}

// self is this very program, also where its file was replaced meanwhile.
func self() []string {
	if runtime.GOOS == "linux" {
		return []string{"/proc/self/exe"}
	}
	path, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{path}
}

func streams() cli.Streams {
	width, _, _ := term.GetSize(int(os.Stdout.Fd())) // 0, unknown, where it is no terminal
	return cli.Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Environ(), Self: self(), Now: time.Now,
		InTerminal:  term.IsTerminal(int(os.Stdin.Fd())),
		OutTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		Width:       width,
	}
}
