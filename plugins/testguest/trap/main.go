// Command trap is a plugin that misbehaves as a resource's key says, for tests
// of the host: keys that start with
//
//	panic   panic
//	nil     dereference a nil pointer
//	exit    end the process
//	spin    loop for ever
//	grow    allocate for ever
//	recurse recurse for ever
//	hang    wait for something that never happens
//	goexit  end the call's goroutine
//
// Others are answered with OK at once.
package main

import (
	"context"
	"os"
	"runtime"
	"strings"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

type adapter struct{ pawl.Unimplemented }

// What the traps leave here, so that no compiler removes them.
var (
	sink  [][]byte
	Count int
)

func (adapter) Apply(_ context.Context, r *pawl.Request) (pawl.Observation, error) {
	kind, _, _ := strings.Cut(r.Key, "-")
	switch kind {
	case "panic":
		panic("told to")
	case "nil":
		var p *pawl.Request
		Count += int(p.Generation)
	case "exit":
		os.Exit(3)
	case "spin":
		for {
			Count++
		}
	case "grow":
		for {
			sink = append(sink, make([]byte, 1<<20))
		}
	case "recurse":
		Count = recurse(1)
	case "hang":
		<-make(chan int)
	case "goexit":
		runtime.Goexit()
	}
	return pawl.Observation{}, nil
}

// recurse never ends, and is written so that a compiler can't know.
func recurse(n int) int {
	if len(sink) > n {
		return n
	}
	return recurse(n+1) + n
}

func init() {
	pawl.Register(pawl.Manifest{
		Name: "trap", Version: "1", Ops: []pawl.Op{pawl.OpApply},
		ApplyConfirms: true, ApplyIdempotent: true, FindsByKey: true,
	}, adapter{})
}

func main() {}
