package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/pawlsync/pawl/test/e2e/servers"
)

// buildServers builds the servers that are not in the cache, and tells that it
// does: one of them takes minutes.
func buildServers(ctx context.Context) error {
	for _, name := range []string{"etcd", "kube-apiserver", "spicedb"} {
		if err := told(os.Stdout, name, func() error { _, err := servers.Build(ctx, name); return err }); err != nil {
			return err
		}
	}
	return nil
}

// told runs build and writes to w how it goes on, unless it is done at once.
func told(w io.Writer, name string, build func() error) error {
	begin, done := time.Now(), make(chan error, 1)
	go func() { done <- build() }()
	wait := time.NewTimer(time.Second)
	defer wait.Stop()
	quick := true
	for {
		select {
		case err := <-done:
			if err == nil && !quick {
				fmt.Fprintf(w, "  %s is built, in %s\n", name, time.Since(begin).Round(time.Second))
			}
			return err
		case <-wait.C:
			if quick {
				fmt.Fprintf(w, "Building %s from source, which takes minutes and is kept in the cache …\n", name)
			} else {
				fmt.Fprintf(w, "  still building %s, after %s\n", name, time.Since(begin).Round(time.Second))
			}
			quick = false
			wait.Reset(15 * time.Second)
		}
	}
}
