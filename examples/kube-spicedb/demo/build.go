package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlsync/pawl/test/e2e/servers"
)

// buildServers builds the servers that are not in the cache, and tells that it
// does: one of them takes minutes.
func buildServers(ctx context.Context) error {
	for _, name := range []string{"etcd", "kube-apiserver", "spicedb"} {
		if err := told(name, func() error { _, err := servers.Build(ctx, name); return err }); err != nil {
			return err
		}
	}
	return nil
}

// told runs build and prints how it goes on, unless it is done at once.
func told(name string, build func() error) error {
	begin, done := time.Now(), make(chan error, 1)
	go func() { done <- build() }()
	wait := time.NewTimer(time.Second)
	defer wait.Stop()
	quick := true
	for {
		select {
		case err := <-done:
			if err == nil && !quick {
				fmt.Printf("  %s is built, in %s\n", name, time.Since(begin).Round(time.Second))
			}
			return err
		case <-wait.C:
			if quick {
				fmt.Printf("Building %s, this first time; it is kept in the cache. etcd and SpiceDB take a minute or three, kube-apiserver five or more …\n", name)
			} else {
				fmt.Printf("  still building %s, after %s\n", name, time.Since(begin).Round(time.Second))
			}
			quick = false
			wait.Reset(15 * time.Second)
		}
	}
}
