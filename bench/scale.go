package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

// scaleChildEnv hands a child its work: "phase resources dir". Each phase runs
// in a process of its own, so that one's memory is not the other's.
const scaleChildEnv = "PAWL_BENCH_SCALE"

// scaleResult is what a child prints.
type scaleResult struct {
	PeakAnonymous int64
	ScheduleBytes int64
	Took          time.Duration
	First         time.Duration // from Open to the first delivery
	DiskBytes     int64
}

func benchScale(r *report) error {
	sizes := []struct {
		n                int
		memory, schedule float64
		open             float64
	}{{1_000_000, 0.7, 100, 5}, {5_000_000, 2, 100, 25}}
	if r.short {
		sizes = sizes[:1]
		sizes[0].n = 200_000
	}
	for _, s := range sizes {
		dir := filepath.Join(r.dir, strconv.Itoa(s.n))
		load, err := runScale("load", s.n, dir)
		if err != nil {
			return err
		}
		r.line("%d stored, all pending: %s, peak %s, disk %s", s.n, load.Took.Round(time.Second), gib(load.PeakAnonymous), gib(load.DiskBytes))
		ack, err := runScale("ack", s.n, dir)
		if err != nil {
			return err
		}
		r.line("opened again and all acked: %s, peak %s, disk %s", ack.Took.Round(time.Second), gib(ack.PeakAnonymous), gib(ack.DiskBytes))
		peak := max(load.PeakAnonymous, ack.PeakAnonymous)
		r.under(fmt.Sprintf("peak anonymous memory, %d resources", s.n), float64(peak)/(1<<30), s.memory, " GiB")
		r.under(fmt.Sprintf("schedule per entry, %d resources", s.n), float64(max(load.ScheduleBytes, ack.ScheduleBytes))/float64(s.n), s.schedule, " B")
		r.under(fmt.Sprintf("Open to first delivery, %d resources", s.n), ack.First.Seconds(), s.open, " s")
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

func runScale(phase string, n int, dir string) (scaleResult, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %s", scaleChildEnv, phase, n, dir))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return scaleResult{}, fmt.Errorf("%s of %d: %w", phase, n, err)
	}
	var res scaleResult
	return res, json.Unmarshal(out, &res)
}

// scaleChild does one phase and prints its result as JSON.
func scaleChild(work string) {
	parts := strings.SplitN(work, " ", 3)
	n, err := strconv.Atoi(parts[1])
	if err == nil {
		debug.SetGCPercent(50) // as `pawl run` does, see internal/daemon/memory.go
		var res scaleResult
		var peak atomic.Int64
		go sampleMemory(&peak)
		if parts[0] == "load" {
			err = scaleLoad(n, parts[2], &res)
		} else {
			err = scaleAck(n, parts[2], &res)
		}
		res.PeakAnonymous = max(peak.Load(), anonymousBytes())
		if err == nil {
			err = json.NewEncoder(os.Stdout).Encode(res)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func sampleMemory(peak *atomic.Int64) {
	for range time.Tick(50 * time.Millisecond) {
		if b := anonymousBytes(); b > peak.Load() {
			peak.Store(b)
		}
	}
}

func scaleLoad(n int, dir string, res *scaleResult) error {
	ctx := context.Background()
	eng, err := open(ctx, dir, engine.SinkOptions{Name: sinkName, Sink: &null{}, Suspended: true})
	if err != nil {
		return err
	}
	began := time.Now()
	const batch = 1000
	for i := 0; i < n; i += batch {
		puts := make([]engine.Put, 0, batch)
		for j := i; j < min(i+batch, n); j++ {
			puts = append(puts, engine.Put{Key: key(j), Payload: payload(j)})
		}
		items, err := eng.PutBatch(ctx, puts)
		if err != nil {
			return err
		}
		for _, item := range items {
			if item.Err != nil {
				return item.Err
			}
		}
	}
	res.Took = time.Since(began)
	res.ScheduleBytes, res.DiskBytes = eng.Stats().ScheduleBytes, eng.Stats().Store.DiskBytes
	return eng.Close(ctx)
}

func scaleAck(n int, dir string, res *scaleResult) error {
	ctx := context.Background()
	began := time.Now()
	var first atomic.Int64
	sink := &firstCall{null: &null{}, at: &first, began: began}
	eng, err := open(ctx, dir, engine.SinkOptions{Name: sinkName, Sink: sink, MaxInFlight: 1024})
	if err != nil {
		return err
	}
	for countOf(eng, record.AckedPhase) < n {
		time.Sleep(50 * time.Millisecond)
	}
	res.Took, res.First = time.Since(began), time.Duration(first.Load())
	var st outbox.Stats = eng.Stats().Store
	res.ScheduleBytes, res.DiskBytes = eng.Stats().ScheduleBytes, st.DiskBytes
	return eng.Close(ctx)
}

func countOf(eng *engine.Engine, phase record.Phase) int {
	for _, s := range eng.Sinks() {
		if s.Name == sinkName {
			return s.Counts[phase]
		}
	}
	return 0
}
