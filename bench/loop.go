package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost"
)

// benchLoop sends calls that never end to one sink, by themselves and beside
// another sink that is called at a fixed rate.
func benchLoop(r *report) error {
	const budget = 100 * time.Millisecond
	rounds, during := 5, 3*time.Second
	if r.short {
		rounds, during = 2, time.Second
	}
	host, err := wasmhost.New(r.ctx, wasmhost.Options{})
	if err != nil {
		return err
	}
	looping, err := openOn(r, host, "trap", wasmhost.Limits{EntryCPU: budget})
	if err != nil {
		return err
	}
	defer looping.Close(r.ctx)
	good, err := openOn(r, host, "null", wasmhost.Limits{})
	if err != nil {
		return err
	}
	defer good.Close(r.ctx)

	n := 0
	// loop makes one call that loops, and says how much processor time and how
	// long it had, in budgets.
	loop := func() (cpu, wall float64, err error) {
		n++
		before, began := looping.Stats(), time.Now()
		res := looping.Apply(r.ctx, &sink.Request{Key: record.Key{Sink: sinkName, Name: fmt.Sprint("spin-", n)}, Generation: 1, Conflict: "source-wins"})
		wall = float64(time.Since(began)) / float64(budget)
		if res.Status != sink.Fault || !strings.Contains(res.Message, "entry_cpu") {
			return 0, 0, fmt.Errorf("the loop ended with %s: %s", res.Status, res.Message)
		}
		return float64(looping.Stats().CPU-before.CPU) / float64(budget), wall, nil
	}
	var cpu, wall, beside, alone99, beside99, kept sample
	for range rounds {
		for range 5 {
			c, w, err := loop()
			if err != nil {
				return err
			}
			cpu, wall = append(cpu, c), append(wall, w)
		}
		rate, p99, err := paced(r, good, during, nil)
		if err != nil {
			return err
		}
		alone99 = append(alone99, p99)
		rateBeside, p99, err := paced(r, good, during, func() error {
			c, w, err := loop()
			cpu, beside = append(cpu, c), append(beside, w)
			return err
		})
		if err != nil {
			return err
		}
		beside99, kept = append(beside99, p99), append(kept, rateBeside/rate)
	}
	r.line("a loop got, in budgets: processor time %v; it was stopped after %v, beside others after %v", cpu, wall, beside)
	r.line("a neighbour's p99 in ms: %v; beside the loops %v", alone99, beside99)
	r.under("processor time that a loop got ÷ budget, the worst", slices.Max(cpu), 2, " ×")
	r.under("time until it was stopped ÷ budget, by itself", wall.median(), 2, " ×")
	r.atLeast("a neighbour's rate, beside loops ÷ alone", kept.median(), 0.95, " ×")
	r.under("a neighbour's p99, beside loops ÷ alone", beside99.over(alone99).median(), 3, " ×")
	return nil
}

func openOn(r *report, host *wasmhost.Host, guest string, l wasmhost.Limits) (*wasmhost.Sink, error) {
	wasm, err := testGuest(r, guest)
	if err != nil {
		return nil, err
	}
	plugin, err := host.LoadTrusted(r.ctx, wasm, guest)
	if err != nil {
		return nil, err
	}
	return plugin.Open(r.ctx, wasmhost.SinkConfig{Name: guest, Limits: l})
}

// paced calls s a thousand times a second, whether it answers or not, and returns
// how many answers a second came, and how late, in ms, the slowest hundredth was,
// counted from when each call was due. Meanwhile it does beside again and again.
func paced(r *report, s *wasmhost.Sink, during time.Duration, beside func() error) (rate, p99 float64, err error) {
	const every = time.Millisecond
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for beside != nil {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
				if err := beside(); err != nil {
					stopped <- err
					return
				}
			}
		}
		stopped <- nil
	}()
	n := int(during / every)
	late, failed := make([]float64, n), make(chan sink.Result, 1)
	var calls sync.WaitGroup
	began := time.Now()
	for i := range n {
		due := began.Add(time.Duration(i) * every)
		time.Sleep(time.Until(due))
		calls.Go(func() {
			if res := s.Apply(r.ctx, &sink.Request{Key: key(i), Generation: 1, Payload: payload(i), Conflict: "source-wins"}); res.Status != sink.OK {
				select {
				case failed <- res:
				default:
				}
			}
			late[i] = time.Since(due).Seconds() * 1000
		})
	}
	calls.Wait()
	rate = float64(n) / time.Since(began).Seconds()
	close(stop)
	err = <-stopped
	select {
	case res := <-failed:
		return 0, 0, fmt.Errorf("the neighbour was answered %s: %s", res.Status, res.Message)
	default:
	}
	slices.Sort(late)
	return rate, late[n*99/100], err
}
