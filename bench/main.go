// Command bench measures Pawl beside a peer or a limit, both in one run, and
// prints the ratio: absolute figures say more of the machine than of the program.
//
//	go run . all           every benchmark; about an hour
//	go run . put cycle     some of them
//	go run . -short all    smaller sizes, for a first look
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"
)

// benchmark is one row of what must be shown.
type benchmark struct {
	name, what string
	run        func(*report) error
}

var benchmarks = []benchmark{
	{"put", "durable Put of 1 KiB, distinct keys, beside a raw append-and-fdatasync log with the same group commit", benchPut},
	{"cycle", "put, deliver to a sink that does nothing, ack: 256 callers, sustained, beside the raw log", benchCycle},
	{"hot", "one key hit by 1,000 callers: records written per Put", benchHot},
	{"scale", "a million and five million resources: memory, schedule, time to the first delivery", benchScale},
	{"http", "the http adapter beside a plain Go HTTP client doing the same requests", benchHTTP},
	{"parked", "5,000 calls in flight in one plugin instance, and 10,000; in Go and in Rust", benchParked},
	{"churn", "a million put/ack cycles over a thousand keys: disk", benchChurn},
	{"call", "Apply of 1 KiB by a plugin that does nothing, beside Extism with a timeout", benchCall},
	{"meter", "what metering costs a guest that works on JSON, beside wazero's cancellable mode", benchMeter},
	{"loop", "an endless loop under a budget of 100 ms, and another sink beside it", benchLoop},
	{"soak", "a million calls and a hundred hot swaps under load: memory, goroutines", benchSoak},
	{"kube", "ConfigMaps to a real Kubernetes API server, beside client-go with the same server-side applies", benchKube},
	{"spicedb", "relationships to a real SpiceDB, beside a client that does the same writes", benchSpiceDB},
	{"saga", "two-step sagas beside workflows of go-workflows on SQLite, both with full sync; open ones at a start", benchSaga},
	{"dir", "a directory of 100,000 documents, from the start to all stored, beside a plain program that reads, parses and puts them", benchDir},
	{"relay", "an agent that sends to a principal, beside Puts in batches without a relay; a resync of what has not changed", benchRelay},
	{"backup", "a backup of a million resources while 5,000 Puts a second go on", benchBackup},
	{"list", "pages of a million resources from the API, with filters and without", benchList},
	{"scrape", "a scrape of the metrics of a thousand sinks", benchScrape},
	{"idle", "the daemon with a million acked resources and nothing to do: processor time and memory", benchIdle},
	{"start", "the shipped plugins made ready, with a cold and with a warm compile cache", benchStart},
}

// report is what a benchmark may use and where it says what it found.
type report struct {
	ctx   context.Context
	short bool
	idle  time.Duration // for how long the benchmark idle does nothing
	dir   string        // a fresh folder
	below int
}

// line prints free text about the running benchmark.
func (r *report) line(format string, args ...any) { fmt.Printf("    "+format+"\n", args...) }

// atLeast prints a figure that should be at least want.
func (r *report) atLeast(what string, got, want float64, unit string) {
	r.verdict(what, got >= want, fmt.Sprintf("%.3g%s", got, unit), fmt.Sprintf("at least %.3g%s", want, unit))
}

// under prints a figure that should be under want.
func (r *report) under(what string, got, want float64, unit string) {
	r.verdict(what, got < want, fmt.Sprintf("%.3g%s", got, unit), fmt.Sprintf("under %.3g%s", want, unit))
}

func (r *report) verdict(what string, ok bool, got, want string) {
	word := "ok"
	if !ok {
		word = "MISSED"
		r.below++
	}
	fmt.Printf("  %-6s %-58s %12s  (%s)\n", word, what, got, want)
}

func main() {
	short := flag.Bool("short", false, "smaller sizes")
	idle := flag.Duration("idle", 10*time.Minute, "how long the benchmark idle leaves a daemon alone; it does so twice")
	profile := flag.String("cpuprofile", "", "write a CPU profile to this file")
	dir := flag.String("dir", "", "where stores are made; defaults to the temporary folder, which may be no real disk")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: go run . [-short] [-dir DIR] all | NAME…")
		for _, b := range benchmarks {
			fmt.Fprintf(os.Stderr, "  %-8s %s\n", b.name, b.what)
		}
	}
	flag.Parse()
	if child, ok := os.LookupEnv(scaleChildEnv); ok {
		scaleChild(child)
		return
	}
	if child, ok := os.LookupEnv(dirChildEnv); ok {
		dirChild(child)
		return
	}
	if _, ok := os.LookupEnv(idleChildEnv); ok {
		idleChild()
		return
	}
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	for _, name := range flag.Args() {
		if name != "all" && !slices.ContainsFunc(benchmarks, func(b benchmark) bool { return b.name == name }) {
			fmt.Fprintf(os.Stderr, "there is no benchmark %q\n", name)
			flag.Usage()
			os.Exit(2)
		}
	}
	debug.SetGCPercent(50) // as `pawl run` does, see internal/daemon/memory.go
	if *profile != "" {
		f, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		defer pprof.StopCPUProfile()
	}
	missed := 0
	for _, b := range benchmarks {
		if !slices.Contains(flag.Args(), b.name) && !slices.Contains(flag.Args(), "all") {
			continue
		}
		fmt.Printf("%s: %s\n", b.name, b.what)
		n, err := runOne(b, *short, *idle, *dir)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", b.name, err)
			os.Exit(1)
		}
		missed += n
	}
	if missed > 0 {
		fmt.Printf("%d figures missed what they should reach\n", missed)
	}
}

func runOne(b benchmark, short bool, idle time.Duration, parent string) (missed int, err error) {
	dir, err := os.MkdirTemp(parent, "pawl-bench-"+b.name+"-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	r := &report{ctx: context.Background(), short: short, idle: idle, dir: dir}
	began := time.Now()
	err = b.run(r)
	fmt.Printf("    took %s\n", time.Since(began).Round(time.Second))
	return r.below, err
}

// payload returns a JSON document of 1 KiB that differs for each n.
func payload(n int) []byte {
	b := make([]byte, 0, 1024)
	b = append(b, `{"n":`...)
	b = strconv.AppendInt(b, int64(n), 10)
	b = append(b, `,"text":"`...)
	b = append(b, filler[:1024-len(b)-2]...)
	return append(b, `"}`...)
}

var filler = strings.Repeat("the quick brown fox jumps over the lazy dog, ", 24)
