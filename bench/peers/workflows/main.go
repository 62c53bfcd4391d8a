// Command workflows runs two-step workflows that do nothing with go-workflows on
// SQLite with full sync, and prints how many a second it ran. It is the peer of
// `go run . saga` of the benchmarks, in a module of its own for what it drags in.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/monoprocess"
	"github.com/cschleiden/go-workflows/backend/sqlite"
	"github.com/cschleiden/go-workflows/client"
	"github.com/cschleiden/go-workflows/worker"
	"github.com/cschleiden/go-workflows/workflow"
)

func main() {
	dir := flag.String("dir", "", "folder of the database")
	callers := flag.Int("callers", 1, "callers at a time")
	during := flag.Duration("for", 5*time.Second, "how long")
	flag.Parse()
	rate, err := run(*dir, *callers, *during)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%.2f\n", rate)
}

// two is the workflow: two activities, one after the other.
func two(ctx workflow.Context, payload string) (int, error) {
	for range 2 {
		if _, err := workflow.ExecuteActivity[int](ctx, workflow.DefaultActivityOptions, step, payload).Get(ctx); err != nil {
			return 0, err
		}
	}
	return 2, nil
}

func step(context.Context, string) (int, error) { return 1, nil }

func run(dir string, callers int, during time.Duration) (float64, error) {
	path := filepath.Join(dir, "workflows.sqlite")
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("%s is there already; give an empty folder", path)
	}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	b := monoprocess.NewMonoprocessBackend(sqlite.NewSqliteBackend(path+"?_pragma=synchronous(FULL)", sqlite.WithBackendOptions(backend.WithLogger(quiet))))
	o := worker.DefaultOptions
	// What waits is told at once by the backend; where it is not, soon.
	o.WorkflowPollingInterval, o.ActivityPollingInterval = time.Millisecond, time.Millisecond
	o.SingleWorkerMode = true
	w := worker.New(b, &o)
	if err := errors.Join(w.RegisterWorkflow(two), w.RegisterActivity(step)); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := w.Start(ctx); err != nil {
		return 0, err
	}
	c := client.New(b)
	var n atomic.Int64
	var wg sync.WaitGroup
	failed := make(chan error, callers)
	began := time.Now()
	for caller := range callers {
		wg.Go(func() {
			for i := 0; time.Since(began) < during; i++ {
				wf, err := c.CreateWorkflowInstance(ctx, client.WorkflowInstanceOptions{InstanceID: fmt.Sprintf("%d-%d", caller, i)}, two, "a small payload")
				if err == nil {
					_, err = client.GetWorkflowResult[int](ctx, c, wf, time.Minute)
				}
				if err != nil {
					failed <- err
					return
				}
				n.Add(1)
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	select {
	case err := <-failed:
		return 0, err
	default:
	}
	cancel()
	return float64(n.Load()) / took.Seconds(), w.WaitForCompletion()
}
