package main

import (
	"context"
	"sync"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

// maxBodyBytes bounds a request below what a host passes on by default, 4 MiB.
const maxBodyBytes = 3 << 20

// ApplyBatch sends resources, in one request where they fit.
func (a *adapter) ApplyBatch(ctx context.Context, rs []*pawl.Request) ([]pawl.BatchItem, error) {
	items := make([]pawl.BatchItem, len(rs))
	var wg sync.WaitGroup
	for from := 0; from < len(rs); {
		n, size := fitting(rs[from:])
		part, answers := rs[from:from+n], items[from:from+n]
		if from += n; n == len(rs) {
			a.send(ctx, part, size, answers)
			return items, nil
		}
		wg.Go(func() { a.send(ctx, part, size, answers) })
	}
	wg.Wait()
	return items, nil
}

// fitting is how many of rs go into one request, at least one, and what its size is at
// the most.
func fitting(rs []*pawl.Request) (n, size int) {
	for n < len(rs) {
		more := maxPut + len(rs[n].Key) + len(rs[n].Payload)
		if n > 0 && size+more > maxBodyBytes {
			break
		}
		size += more
		n++
	}
	return n, size
}

// send sends some resources in one request, and writes what came of each.
func (a *adapter) send(ctx context.Context, rs []*pawl.Request, size int, items []pawl.BatchItem) {
	rest, err := a.say(ctx, "/v1/relay", rs[0].Epoch, size, func(b []byte) []byte {
		for _, r := range rs {
			b = appendItem(b, putOf(r))
		}
		return b
	})
	for i, r := range rs {
		if err != nil {
			items[i].Err = err
			continue
		}
		var msg []byte
		var res result
		if msg, rest, err = next(rest); err == nil {
			res, err = readResult(msg)
		}
		if err != nil {
			err = pawl.Retry(err.Error())
			items[i].Err = err
			continue
		}
		if items[i].Err = res.asError(); items[i].Err == nil {
			items[i].Observation = seen(r, &res)
		}
	}
}
