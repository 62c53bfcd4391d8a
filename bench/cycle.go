package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawlsync/pawl/engine"
)

func median(d []time.Duration) float64 {
	s := slices.Sorted(slices.Values(d))
	if len(s) == 0 {
		return 0
	}
	return float64(s[len(s)/2])
}

// benchCycle keeps 256 callers busy with Put and Wait for acknowledgement.
func benchCycle(r *report) error {
	const callers, keys = 256, 20_000
	during := time.Minute
	if r.short {
		during = 10 * time.Second
	}
	raw, err := openRawLog(filepath.Join(r.dir, "raw"))
	if err != nil {
		return err
	}
	rawRate, _, err := load(callers, during/6, func(n int) error { return raw.put([]byte(key(n%keys).Name), payload(n)) })
	if err != nil {
		return err
	}
	if err := raw.close(); err != nil {
		return err
	}
	sink := &null{}
	eng, err := open(r.ctx, r.dir, engine.SinkOptions{Name: sinkName, Sink: sink, MaxInFlight: 1024})
	if err != nil {
		return err
	}
	defer eng.Close(r.ctx)
	var mu sync.Mutex
	var parts [6][]time.Duration
	var disks, memories [6]float64
	began := time.Now()
	part := func() int { return min(int(time.Since(began)*6/during), 5) }
	stop := make(chan struct{})
	go func() {
		tick := time.NewTicker(during / 60)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				p := part()
				disks[p] = max(disks[p], float64(eng.Stats().Store.DiskBytes))
				memories[p] = max(memories[p], float64(anonymousBytes()))
			}
		}
	}()
	rate, _, err := load(callers, during, func(n int) error {
		at := time.Now()
		res, err := eng.Put(r.ctx, engine.Put{Key: key(n % keys), Payload: payload(n)})
		if err != nil {
			return err
		}
		if _, err := eng.Wait(r.ctx, key(n%keys), res.Generation); err != nil {
			return err
		}
		mu.Lock()
		parts[part()] = append(parts[part()], time.Since(at))
		mu.Unlock()
		return nil
	})
	close(stop)
	if err != nil {
		return err
	}
	var p99 [6]time.Duration
	for i := range parts {
		slices.Sort(parts[i])
		if n := len(parts[i]); n > 0 {
			p99[i] = parts[i][n*99/100]
		}
		r.line("part %d of 6: p99 %s, disk %.0f MiB, memory %.0f MiB", i+1, p99[i].Round(100*time.Microsecond), disks[i]/(1<<20), memories[i]/(1<<20))
	}
	r.line("%.0f cycles/s, raw log %.0f Puts/s, %d applied", rate, rawRate, sink.applied.Load())
	r.atLeast("put, deliver, ack ÷ raw log's puts, 256 callers", rate/rawRate, 0.15, " ×")
	// Level: what grows in the second half grows for ever.
	r.under("disk, last part ÷ fourth part", disks[5]/disks[3], 1.25, " ×")
	r.under("memory, last part ÷ fourth part", memories[5]/memories[3], 1.25, " ×")
	r.under("p99, last part ÷ fourth part", float64(p99[5])/float64(p99[3]), 2, " ×")
	return nil
}

// anonymousBytes is this process's anonymous memory: what is not a file's.
func anonymousBytes() int64 {
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kb, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb << 10
		}
	}
	return 0
}

func gib(n int64) string { return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30)) }
