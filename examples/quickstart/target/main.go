// Command target is the quick start's target: a small HTTP object store that
// keeps its objects on disk and can be told to fail.
//
//	GET, PUT, DELETE /objects/{key}   one object; ETag, If-Match, If-None-Match
//	GET              /objects         all keys, with entity tags
//	POST             /control         {"mode":"ok|refuse|error500|slow|hang","delay":"1s"}
//	GET              /control/stats   requests since the start, per key
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:7399", "address and port")
	dir := flag.String("dir", "examples/quickstart/.demo/target", "folder of the objects")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *listen, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "target:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, listen, dir string) error {
	s, err := openStore(dir)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Printf("target: listening on http://%s, %d objects in %s\n", l.Addr(), len(s.list()), dir)
	srv := &http.Server{Handler: newServer(s), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = srv.Close()
	}()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
